# SPDX-License-Identifier: Apache-2.0
"""How good plans of moves are, and how long they take to make."""
