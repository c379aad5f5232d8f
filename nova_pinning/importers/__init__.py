# SPDX-License-Identifier: Apache-2.0
"""Where snapshots come from, besides nova's database."""
