# SPDX-License-Identifier: Apache-2.0
"""Plans of moves: room for guests made by moving others."""
