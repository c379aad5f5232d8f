# SPDX-License-Identifier: Apache-2.0
"""What a fleet has and can still take, kept up to date for Prometheus."""
