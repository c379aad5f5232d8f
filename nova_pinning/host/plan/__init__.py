# SPDX-License-Identifier: Apache-2.0
"""What becomes of a host's CPUs: chosen, explained, written down."""
