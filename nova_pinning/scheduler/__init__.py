# SPDX-License-Identifier: Apache-2.0
"""What nova-scheduler loads: filters and weighers, thin over the engine."""
