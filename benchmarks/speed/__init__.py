# SPDX-License-Identifier: Apache-2.0
"""Our filters and weighers against nova's own, side by side; commands too."""
