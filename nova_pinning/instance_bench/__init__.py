# SPDX-License-Identifier: Apache-2.0
"""Measurements of what isolation buys, and advice drawn from them."""
