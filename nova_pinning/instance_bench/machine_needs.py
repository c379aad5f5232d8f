# SPDX-License-Identifier: Apache-2.0
"""What experiments need of a machine, and not every machine has."""

from collections.abc import Mapping

from nova_pinning.host import machine_files

_TRACERS = ('/sys/kernel/tracing/available_tracers',
            '/sys/kernel/debug/tracing/available_tracers')
# Ways that leave enough for the others, if a guest gets some.
_LEAST_WAYS = 8
_CACHE_WAYS = '/sys/fs/resctrl/info/L3/cbm_mask'


def lacking(tree: machine_files.Tree) -> Mapping[str, str]:
    """Of what an experiment calls it, why it cannot be had here."""
    lacks = {}
    if not any('hwlat' in (tree.text(path) or '').split()
               for path in _TRACERS):
        lacks['hwlat'] = (
            'the kernel has no hwlat tracer (CONFIG_HWLAT_TRACER), or '
            'tracefs is not mounted or not for this user')
    mask = tree.text(_CACHE_WAYS)
    if mask is None:
        lacks['cache-ways'] = (
            'ways of the L3 cannot be given out: the CPUs cannot do it, or '
            'resctrl is not mounted')
    elif (ways := int(mask, 16).bit_count()) < _LEAST_WAYS:
        lacks['cache-ways'] = (
            f'the L3 has {ways} ways, too few to give some to a guest')
    return lacks
