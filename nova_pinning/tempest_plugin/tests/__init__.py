# SPDX-License-Identifier: Apache-2.0
"""The tests that tempest runs."""
