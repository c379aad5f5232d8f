# SPDX-License-Identifier: Apache-2.0
"""The daemon on compute hosts that keeps caches and interrupts with guests."""
