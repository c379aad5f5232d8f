# SPDX-License-Identifier: Apache-2.0
"""The image of guests: a Debian with what workloads need, and no more."""
