# SPDX-License-Identifier: Apache-2.0
"""Whether a host obeys its plan: what is really in force, and what is not."""
