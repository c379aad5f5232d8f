# SPDX-License-Identifier: Apache-2.0
"""What measures our own work, from a checkout; none of it is installed.

Each part is named by what it measures: ``speed`` how long filters, weighers
and commands take, beside nova's own; ``scheduling`` how much weighers sell.
What instances get is measured by ``nova-pinning bench``, which is installed,
for operators to run it on their machines.

``bytedance`` reads a public data set that some of them work on.
"""
