# SPDX-License-Identifier: Apache-2.0
"""Nova's databases, read."""
