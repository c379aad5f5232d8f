# SPDX-License-Identifier: Apache-2.0
"""Hosts as files describe them: hardware, and the settings of nova there."""
