# SPDX-License-Identifier: Apache-2.0
"""What is in the way of more guests, in words."""

from collections.abc import Mapping

from nova_pinning.capacity import count

#: What is in the way, in words that fit a table.
CAUSES: Mapping[count.CapacityCause, str] = {
    count.CapacityCause.DISABLED: 'hosts are disabled',
    count.CapacityCause.TRAITS: 'traits of hosts',
    count.CapacityCause.AGGREGATES: 'aggregates of hosts',
    count.CapacityCause.FILTERS: 'other filters',
    count.CapacityCause.CLASS: 'other class of hosts',
    count.CapacityCause.CELL_SIZE: 'larger than any cell',
    count.CapacityCause.CELLS: 'scattered over cells',
    count.CapacityCause.CORES: 'no whole cores',
    count.CapacityCause.STRAY_PINS: 'a guest on other CPUs',
    count.CapacityCause.MEMORY: 'too little memory',
    count.CapacityCause.PAGES: 'too few pages',
    count.CapacityCause.DISK: 'too little disk',
    count.CapacityCause.PLACEMENT: 'fewer CPUs in Placement',
    count.CapacityCause.CACHES: 'too few cache ways',
    count.CapacityCause.RESOURCES: 'other resources',
    count.CapacityCause.DEVICES: 'too few devices near CPUs',
    count.CapacityCause.ORDER: "nova's order of cells",
}
#: What keeps free CPUs from being sold, for a sentence.
STRANDED: Mapping[count.CapacityCause, str] = {
    **CAUSES,
    count.CapacityCause.CELL_SIZE: 'each flavor is larger than any cell',
    count.CapacityCause.CELLS: 'too few are left in a NUMA cell',
    count.CapacityCause.CORES: 'their cores are not whole',
    count.CapacityCause.STRAY_PINS:
        'a guest is pinned to other than dedicated CPUs',
    count.CapacityCause.MEMORY: 'too little memory is left for them',
    count.CapacityCause.PAGES: 'too few pages are left for them',
}
