# SPDX-License-Identifier: Apache-2.0
"""Which weighers sell more: a study with the simulator as the judge."""
