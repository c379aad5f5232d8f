# SPDX-License-Identifier: Apache-2.0
"""What an upgrade of nova breaks, told before it does.

A register of nova's defects that concern pinned guests, NUMA cells, pages,
emulator threads and CPU power, and which guests and hosts of a fleet each of
them hits: now, while an upgrade is under way, and after it.
"""
