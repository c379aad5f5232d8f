# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a flavor, or will not be what its author expects."""
