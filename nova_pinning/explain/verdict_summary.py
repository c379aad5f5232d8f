# SPDX-License-Identifier: Apache-2.0
"""Verdicts on many hosts, summed up: the sentence and its parts.

Pure: sentences are text, without a full stop.
"""

from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses

from nova_pinning.admission import device_lacks
from nova_pinning.admission import guest_request
from nova_pinning.document import quantities
from nova_pinning.explain import host_verdicts
from nova_pinning.host import words
from nova_pinning import model
from nova_pinning.model import Reason


@dataclasses.dataclass(frozen=True, slots=True)
class RefusalGroup:
    """Hosts that are refused for one cause.

    :param verdicts: on each of them
    :param text: what they have in common, for so many hosts as there are:
        'are shared hosts'
    """

    cause: host_verdicts.RefusalCause
    verdicts: tuple[host_verdicts.HostVerdict, ...]
    text: str

    @property
    def count(self) -> int:
        return len(self.verdicts)


@dataclasses.dataclass(frozen=True, slots=True)
class PlacementGroup:
    """Hosts that Placement alone would exclude for one thing.

    :param kind: 'resources', 'required-trait' or another of the names of an
        AdmissionRefusal
    :param name: the resource class, trait, zone or aggregate
    """

    kind: str
    name: str
    count: int
    text: str


def groups(verdicts: Iterable[host_verdicts.HostVerdict],
           request: guest_request.GuestRequest) -> tuple[RefusalGroup, ...]:
    """Those that refuse, by cause, the largest group first."""
    by_cause: dict[host_verdicts.RefusalCause,
                   list[host_verdicts.HostVerdict]] = {}
    for verdict in verdicts:
        if verdict.cause is not None:
            by_cause.setdefault(verdict.cause, []).append(verdict)
    return tuple(
        sorted((RefusalGroup(cause, tuple(members),
                             phrase(cause, len(members), request))
                for cause, members in by_cause.items()),
               key=lambda group: -group.count))


def placement_groups(
    verdicts: Iterable[host_verdicts.HostVerdict],
) -> tuple[PlacementGroup, ...]:
    """What Placement alone would exclude hosts for, the most frequent first.

    A host that lacks several things counts for each.
    """
    counts: dict[tuple[str, str], int] = {}
    texts = {}
    for verdict in verdicts:
        for key, text in {(refusal.name, refusal.about): refusal.text
                          for refusal in verdict.by_placement}.items():
            counts[key] = counts.get(key, 0) + 1
            texts[key] = text
    return tuple(
        PlacementGroup(*key, count, _refused_phrase(*key, texts[key], count))
        for key, count in sorted(
            counts.items(), key=lambda item: (-item[1], item[0])))


def sentence(total: int, refusal_groups: Sequence[RefusalGroup],
             uncertain: int = 0) -> str:
    """All in one: '3 hosts: 2 are shared hosts, 1 lacks free 1 GiB pages'.

    :param uncertain: hosts of which too little is known to refuse them
    """
    room = (total - uncertain
            - sum(group.count for group in refusal_groups))
    parts = [f'{room:,} {"has" if room == 1 else "have"} room'] if room else []
    if uncertain:
        parts.append(f'{uncertain:,} may have room, which is not known for '
                     'certain')
    parts += [f'{group.count:,} {group.text}' for group in refusal_groups]
    return f'{words.count(total, "host")}: {", ".join(parts)}'


def phrase(cause: host_verdicts.RefusalCause, count: int,
           request: guest_request.GuestRequest) -> str:
    """What so many hosts that are refused for a cause have in common."""
    if cause.rank is host_verdicts.RefusalRank.CLASS:
        return _plural(count, f'is a {cause.name} host',
                       f'are {cause.name} hosts')
    if cause.rank is host_verdicts.RefusalRank.DISABLED:
        return _plural(count, 'is disabled', 'are disabled')
    if cause.rank is host_verdicts.RefusalRank.FIT:
        return _fit_phrase(Reason(cause.name), count, request)
    if cause.rank is host_verdicts.RefusalRank.DEVICES:
        return _device_phrase(cause, count, request)
    if (cause.rank is host_verdicts.RefusalRank.RESOURCES
            and request.topology is not None):
        return _agree(count, f'has room in its cells, but too little '
                             f'{cause.name} left in Placement',
                      f'have room in their cells, but too little {cause.name} '
                      'left in Placement')
    if cause.rank is host_verdicts.RefusalRank.RESOURCES:
        return _refused_phrase('resources', cause.name, '', count)
    return _refused_phrase(cause.name, cause.about, cause.text, count)


def _refused_phrase(name: str, about: str, example: str, count: int) -> str:
    """What hosts have in common that are refused alike.

    :param example: what is said of one of them
    """
    if name == 'resources':
        return _agree(count, f'has too little {about} left')
    if name == 'required-trait':
        return _agree(count, f'lacks trait {about}, which is required')
    return _agree(count, example)


#: For one host; the first word agrees with the number.
_FIT_PHRASES = {
    Reason.NO_TOPOLOGY: 'has no NUMA topology that nova knows of',
    Reason.BROKEN_TOPOLOGY: 'has a broken NUMA topology',
    Reason.FREE_CPUS: 'has too few free CPUs in any one cell',
    Reason.CELL_TOO_SMALL: 'has no cell with that many dedicated CPUs',
    Reason.FREE_CORES: 'has CPUs but too few whole cores',
    Reason.NO_THREADS: 'has no hardware threads for thread policy require',
    Reason.ISOLATE_ON_THREADS: (
        'has hardware threads, on which nova never fits thread policy '
        'isolate'),
    Reason.EMULATOR_CPU: 'has no CPU to set aside for emulator threads',
    Reason.CORES_UNKNOWN: (
        'has sibling lists that are empty, overlap or leave CPUs out'),
    Reason.STRAY_PINS: (
        'has guests pinned to CPUs that are not dedicated ones'),
    Reason.SHARED_CPUS: 'has too few shared CPUs in any one cell',
    Reason.CPU_RATIO: 'has reached its CPU allocation ratio in every cell',
    Reason.MEMORY: 'has too little free memory in any one cell',
    Reason.MEMORY_RATIO: 'has reached its RAM allocation ratio in every cell',
    Reason.PAGE_MULTIPLE: (
        'has pages of which the memory asked for is not a multiple'),
    Reason.PCI: 'has too few PCI devices near enough',
    Reason.NETWORK: 'has room only far from the networks',
    Reason.TOO_FEW_CELLS: 'has fewer NUMA cells than the guest',
    Reason.CELLS_CONTENDED: (
        'has room for each cell of the guest, but not for all at once'),
}


def _fit_phrase(reason: Reason, count: int,
                request: guest_request.GuestRequest) -> str:
    if reason in (Reason.PAGES, Reason.PAGE_SIZE):
        pages = _pages(request)
        return _agree(count, f'lacks free {pages}' if reason is Reason.PAGES
                      else f'has no {pages}')
    if reason in _FIT_PHRASES:
        return _agree(count, _FIT_PHRASES[reason])
    return _plural(count, 'is refused: ', 'are refused: ') + model.summarise(
        reason)


_Obstacle = device_lacks.DeviceObstacle
_DEVICE_PHRASES = {
    _Obstacle.NO_DEVICE: 'has too few devices of {about}, used or not',
    _Obstacle.TAKEN: 'has too few devices of {about} left',
    _Obstacle.GROUP: 'has too few devices left in the group of {about}',
    _Obstacle.TOGETHER: (
        'has devices of {about} left, but not all for one guest'),
    _Obstacle.AFFINITY: (
        'has devices of {about} left, but too few within the affinity asked '
        'for'),
}


def _device_phrase(cause: host_verdicts.RefusalCause, count: int,
                   request: guest_request.GuestRequest) -> str:
    for obstacle, text in _DEVICE_PHRASES.items():
        if cause.name == obstacle:
            return _agree(count, text.format(about=cause.about))
    return _fit_phrase(Reason(cause.name), count, request).removesuffix(
        ' in any one cell').removesuffix(' in every cell') + (
            f' near the devices of {cause.about}')


def _pages(request: guest_request.GuestRequest) -> str:
    """The pages that a guest asks for: '1 GiB pages'."""
    sizes = {cell.page_size_kib for cell in request.topology.cells
             if cell.page_size_kib} if request.topology else set()
    size = sizes.pop() if len(sizes) == 1 else None
    if size == model.PAGES_LARGE:
        return 'large pages'
    if size is None or size < 0:
        return 'pages of the size asked for'
    return f'{quantities.shown_page_size(size)} pages'


_PLURALS = {'has': 'have', 'is': 'are', 'lacks': 'lack', 'takes': 'take'}


def _agree(count: int, singular: str, several: str = '') -> str:
    """A phrase that begins with has, is, lacks or takes, for so many hosts."""
    if count == 1:
        return singular
    if several:
        return several
    verb, _space, rest = singular.partition(' ')
    return f'{_PLURALS[verb]} {rest.replace(" its ", " their ")}'


def _plural(count: int, singular: str, several: str) -> str:
    return singular if count == 1 else several
