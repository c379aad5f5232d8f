# SPDX-License-Identifier: Apache-2.0
"""Memory of guests: on which NUMA nodes it is."""

from collections.abc import Iterator
import os
import re

from nova_pinning.agent import kernel_files

_ON_NODE = re.compile(r'N(\d{1,5})=(\d{1,20})')
# What guests have: of their own, or shared with what serves them.
_KINDS = ('anon', 'shmem')
_PAGE = os.sysconf('SC_PAGE_SIZE')


def by_node(files: kernel_files.WritableTree, pid: int) -> dict[int, int]:
    """The memory of a process's control group in bytes, by NUMA node.

    :returns: {} if it has no group of its own, or the kernel does not count
    """
    root, path = kernel_files.control_group(files, pid, 'memory')
    # The threads of a guest are in groups below that of its memory.
    while path.strip('/'):
        text = files.text(f'{root}{path}/memory.numa_stat')
        if text is not None:
            return _counted(text)
        path = os.path.dirname(path)
    return {}


def _counted(text: str) -> dict[int, int]:
    """Of cgroup v2 in bytes ('anon N0=1'), of v1 in pages ('total=1 N0=1')."""
    found: dict[int, int] = {}
    for kind, rest in _lines(text):
        if kind in _KINDS or kind == 'hierarchical_total':
            unit = 1 if kind in _KINDS else _PAGE
            for node, amount in _ON_NODE.findall(rest):
                found[int(node)] = found.get(int(node), 0) + (
                    unit * int(amount))
    return found


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        first, _blank, rest = line.partition(' ')
        yield first.partition('=')[0], rest
