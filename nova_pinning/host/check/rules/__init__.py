# SPDX-License-Identifier: Apache-2.0
"""The rules, each a function of what was planned and what was seen."""
