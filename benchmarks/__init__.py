# SPDX-License-Identifier: Apache-2.0
"""What measures our own work, from a checkout; none of it is installed.

Each part is named by what it measures: ``speed`` how long filters, weighers
and commands take, beside nova's own; ``scheduling`` how much weighers sell.
``instances`` judges the claims about isolation on this machine: what instances
get is measured by ``nova-pinning bench``, which is installed, for operators to
run on theirs.

``bytedance`` reads a public data set that some of them work on.
"""
