# SPDX-License-Identifier: Apache-2.0
"""What a machine itself does with its disks and network interfaces.

Only what files tell: whether an interface has an IPv4 address, say, they do
not.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import re

from nova_pinning.host.discover import text
from nova_pinning.host import machine_files

_BLOCK = '/sys/class/block'
_DEV = '/dev/'
_NET = '/sys/class/net'
_DEFAULT_ROUTE = 'default route'
_ROUTES = 'routes'
_SWAP = 'swap'
# Of mount points and the like; there may be hundreds.
_MAX_SHOWN = 3
# Of routes, see the kernel's include/uapi/linux/route.h.
_UP = 0x1
_REJECT = 0x200
_HEX = re.compile(r'[0-9A-Fa-f]+', re.ASCII)
_ESCAPE = re.compile(r'\\([0-7]{3})', re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceUse:
    """What something is used for.

    :param inside: what it is a part of: a bond, a bridge, a volume
    :param mounted: the mount points of what is on it
    :param other: in a word or two
    """

    inside: tuple[str, ...] = ()
    mounted: tuple[str, ...] = ()
    other: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Mounts:
    """What is mounted, and what is swapped to.

    :param points: by device, which is known by its number, '259:1', and by
        its name below /dev
    :param swaps: names below /dev
    """

    points: Mapping[str, tuple[str, ...]]
    swaps: frozenset[str]


def mounts(tree: machine_files.Tree) -> Mounts:
    """What is mounted, and what is swapped to."""
    points: dict[str, dict[str, None]] = {}
    for words in _rows(tree, '/proc/self/mountinfo', 5):
        points.setdefault(words[2], {})[_unescaped(words[4])] = None
    for words in _rows(tree, '/proc/mounts', 2):
        name = _unescaped(words[0])
        if name.startswith(_DEV):
            points.setdefault(name.removeprefix(_DEV), {})[
                _unescaped(words[1])] = None
    return Mounts(
        {name: tuple(mount_points) for name, mount_points in points.items()},
        frozenset(_unescaped(words[0]).removeprefix(_DEV)
                  for words in _rows(tree, '/proc/swaps', 2)))


def routes(tree: machine_files.Tree) -> dict[str, str]:
    """Which interfaces have routes: 'default route', or others only."""
    uses: dict[str, str] = {}
    for words in _rows(tree, '/proc/net/route', 8):
        if _is_usable(words[3]):
            if _is_zero(words[1]) and _is_zero(words[7]):
                uses[words[0]] = _DEFAULT_ROUTE
            uses.setdefault(words[0], _ROUTES)
    for words in _rows(tree, '/proc/net/ipv6_route', 10):
        # Every interface that is up has others, to its link-local addresses.
        if (_is_usable(words[8]) and _is_zero(words[0])
                and _is_zero(words[1])):
            uses[words[9]] = _DEFAULT_ROUTE
    return uses


def of_disk(tree: machine_files.Tree, name: str, mounted: Mounts) -> DeviceUse:
    """What a disk is used for, with its partitions and what is made of them.

    :param name: 'nvme0n1'
    :param mounted: what :func:`mounts` returns
    """
    parts = [name, *(part for part in tree.names(f'{_BLOCK}/{name}')
                     if part.startswith(name))]
    above = _above(
        parts, lambda device: tree.names(f'{_BLOCK}/{device}/holders'))
    labels = {device: tree.text(f'{_BLOCK}/{device}/dm/name') or device
              for device in above}
    points: dict[str, None] = {}
    is_swap = False
    for device in (*parts, *above):
        number = tree.text(f'{_BLOCK}/{device}/dev') or ''
        for key in (number, device, f'mapper/{labels.get(device, device)}'):
            points.update(dict.fromkeys(mounted.points.get(key, ())))
            is_swap |= key in mounted.swaps
    return DeviceUse(tuple(labels.values()), tuple(points),
                     (_SWAP,) if is_swap else ())


def of_interface(tree: machine_files.Tree, name: str,
                 routed: Mapping[str, str]) -> DeviceUse:
    """What a network interface is used for.

    :param name: 'eth0'
    :param routed: what :func:`routes` returns
    """
    above = _above([name], lambda interface: _masters(tree, interface))
    uses = {routed[interface] for interface in (name, *above)
            if interface in routed}
    return DeviceUse(above, (), (min(uses),) if uses else ())


def describe_uses(uses: Iterable[DeviceUse]) -> str:
    """All of it in short: 'in vg-root, vg-var; mounted on /, /var'."""
    uses = tuple(uses)
    inside = _shown(name for use in uses for name in use.inside)
    mounted = _shown(name for use in uses for name in use.mounted)
    other = _shown(name for use in uses for name in use.other)
    return '; '.join(filter(None, (
        inside and f'in {inside}', mounted and f'mounted on {mounted}',
        other)))


def _shown(names: Iterable[str]) -> str:
    unique = list(dict.fromkeys(names))
    shown = ', '.join(map(text.clean, unique[:_MAX_SHOWN]))
    left = len(unique) - _MAX_SHOWN
    return f'{shown} and {left} more' if left > 0 else shown


def _above(
    names: Iterable[str], step: Callable[[str], Iterable[str]],
) -> tuple[str, ...]:
    """Whatever is reached from some names, without them."""
    start = list(names)
    reached = dict.fromkeys(start)
    waiting = start.copy()
    while waiting:
        for name in step(waiting.pop(0)):
            if name not in reached:
                reached[name] = None
                waiting.append(name)
    return tuple(reached)[len(start):]


def _masters(tree: machine_files.Tree, name: str) -> Iterator[str]:
    """The bond, bridge, VLAN or the like that an interface is a part of."""
    path = f'{_NET}/{name}'
    for link in ('master', 'brport/bridge'):
        master = tree.link_name(f'{path}/{link}')
        if master:
            yield master
    for entry in tree.names(path):
        if entry.startswith('upper_'):
            yield entry.removeprefix('upper_')


def _rows(tree: machine_files.Tree, path: str,
          least: int) -> Iterator[list[str]]:
    """The words of each line of a table that has enough of them."""
    for line in (tree.text(path) or '').splitlines():
        words = line.split()
        if len(words) >= least:
            yield words


def _is_usable(flags: str) -> bool:
    if not _HEX.fullmatch(flags):
        return False
    return int(flags, 16) & (_UP | _REJECT) == _UP


def _is_zero(number: str) -> bool:
    return not number.strip('0')


def _unescaped(name: str) -> str:
    """Blanks and the like are written as \\040 there."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), name)
