# SPDX-License-Identifier: Apache-2.0
"""What experiments need of a machine, and not every machine has."""

from collections.abc import Mapping

from nova_pinning.host import machine_files

_TRACERS = ('/sys/kernel/tracing/available_tracers',
            '/sys/kernel/debug/tracing/available_tracers')
_CACHE_WAYS = '/sys/fs/resctrl/info/L3/cbm_mask'


def lacking(tree: machine_files.Tree) -> Mapping[str, str]:
    """Of what an experiment calls it, why it cannot be had here."""
    lacks = {}
    if not any('hwlat' in (tree.text(path) or '').split()
               for path in _TRACERS):
        lacks['hwlat'] = (
            'the kernel has no hwlat tracer (CONFIG_HWLAT_TRACER), or '
            'tracefs is not mounted or not for this user')
    if tree.text(_CACHE_WAYS) is None:
        lacks['cache-ways'] = (
            'ways of the L3 cannot be given out: the CPUs cannot do it, or '
            'resctrl is not mounted')
    return lacks
