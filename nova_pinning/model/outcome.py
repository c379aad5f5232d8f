# SPDX-License-Identifier: Apache-2.0
"""What the engine answers: a Fit, or a Refusal that says why not."""

from __future__ import annotations

import collections

from nova_pinning import compat


@compat.dataclass(frozen=True, slots=True)
class CellFit:
    """One guest cell on its host cell.

    :param host_cell: the host cell's id
    :param pins: (vCPU, host CPU) pairs, by vCPU
    :param emulator_cpus: host CPUs set aside for emulator threads
    :param page_size_kib: the page size chosen, None where the guest did not
        ask for one
    """

    host_cell: int
    pins: tuple[tuple[int, int], ...] = ()
    emulator_cpus: tuple[int, ...] = ()
    page_size_kib: int | None = None


@compat.dataclass(frozen=True, slots=True)
class Fit:
    """Where each guest cell goes, in the order of the guest's cells."""

    cells: tuple[CellFit, ...]

    @property
    def page_size_kib(self) -> int | None:
        """Of the first cell; those of all are meant to be the same."""
        return self.cells[0].page_size_kib if self.cells else None


class Reason(compat.StrEnum):
    """Why a guest, or one cell of it, does not go on a host.

    The values are stable names for machines; :func:`Refusal.__str__` has the
    sentence for people.
    """

    NO_TOPOLOGY = 'no-topology'
    BROKEN_TOPOLOGY = 'broken-topology'
    TOO_FEW_CELLS = 'too-few-cells'
    FREE_CPUS = 'free-cpus'
    CPUS_BEING_FREED = 'cpus-being-freed'
    CELL_TOO_SMALL = 'cell-too-small'
    FREE_CORES = 'free-cores'
    NO_THREADS = 'no-threads'
    ISOLATE_ON_THREADS = 'isolate-on-threads'
    EMULATOR_CPU = 'emulator-cpu'
    NO_DEDICATED_VCPUS = 'no-dedicated-vcpus'
    CORES_UNKNOWN = 'cores-unknown'
    STRAY_PINS = 'stray-pins'
    SHARED_CPUS = 'shared-cpus'
    CPU_RATIO = 'cpu-ratio'
    MEMORY = 'memory'
    MEMORY_RATIO = 'memory-ratio'
    PAGE_SIZE = 'page-size'
    PAGE_MULTIPLE = 'page-multiple'
    PAGES = 'pages'
    CELLS_CONTENDED = 'cells-contended'
    PCI = 'pci'
    NETWORK = 'network'
    ALLOCATION = 'allocation'
    FILTER = 'filter'
    DISABLED = 'disabled'
    HOST_CLASS = 'host-class'
    CLASS_UNKNOWN = 'class-unknown'
    TRAITS_STALE = 'traits-stale'
    RESERVED = 'reserved'
    NOVA_WRONG = 'nova-wrong'
    NOVA_SLOW = 'nova-slow'
    NOVA_AGAIN = 'nova-again'
    NOVA_AGAIN_WRONG = 'nova-again-wrong'
    NOVA_UNKNOWN = 'nova-unknown'
    NOVA_START = 'nova-start'
    NOVA_REFUSES = 'nova-refuses'
    BUDGET = 'budget'
    UNDECIDED = 'undecided'
    ERROR = 'error'


#: The sentence behind each reason that a single host cell can give, with
#: what is needed and what there is.
_CELL_SENTENCES = {
    Reason.FREE_CPUS: '{have} free dedicated CPUs, {need} needed',
    Reason.CELL_TOO_SMALL: '{have} dedicated CPUs in all, {need} needed',
    Reason.FREE_CORES: (
        'room for {have} vCPUs on cores whose threads are free as the thread '
        'policy wants, {need} needed'),
    Reason.NO_THREADS: (
        'no hardware threads, which thread policy "require" needs'),
    Reason.ISOLATE_ON_THREADS: (
        'hardware threads and a dedicated CPU set, on which nova never fits '
        'thread policy "isolate"'),
    Reason.EMULATOR_CPU: 'no CPU that nova could set aside for emulator '
                         'threads',
    Reason.NO_DEDICATED_VCPUS: (
        'no way in nova to take a guest cell without dedicated vCPUs under '
        'this thread or emulator policy'),
    Reason.CORES_UNKNOWN: (
        'sibling lists that are empty, overlap or leave CPUs out'),
    Reason.STRAY_PINS: (
        'guests pinned to CPUs that are not among its dedicated ones'),
    Reason.SHARED_CPUS: '{have} shared CPUs in all, {need} needed at once',
    Reason.CPU_RATIO: (
        '{have} floating vCPUs left under the CPU allocation ratio, {need} '
        'needed'),
    Reason.MEMORY: '{have} MiB of memory, {need} MiB needed',
    Reason.MEMORY_RATIO: (
        '{have} MiB left under the RAM allocation ratio, {need} MiB needed'),
    Reason.PAGE_SIZE: 'no pages of the size asked for',
    Reason.PAGE_MULTIPLE: (
        'pages of {have} KiB, of which the {need} MiB asked for are not '
        'a multiple'),
    Reason.PAGES: '{have} MiB in free pages of the size asked for, {need} MiB '
                  'needed',
}

#: The same for reasons that concern the whole host, filled from ``detail``.
_HOST_SENTENCES = {
    Reason.NO_TOPOLOGY: 'the host reports no NUMA topology',
    Reason.BROKEN_TOPOLOGY: 'a NUMA topology is broken',
    Reason.CPUS_BEING_FREED: 'Placement counts CPUs as free that nova-compute '
                             'counts as taken',
    Reason.TOO_FEW_CELLS: 'the host has fewer NUMA cells than the guest',
    Reason.CELLS_CONTENDED: 'the cells of the guest fit one by one but not '
                            'together',
    Reason.PCI: 'no set of cells with room for the guest has the PCI devices '
                'it asks for within the affinity it asks for',
    Reason.NETWORK: 'no set of cells with room for the guest is near the '
                    'networks it attaches to',
    Reason.ALLOCATION: 'Placement offers no allocation on this host',
    Reason.UNDECIDED: 'not all is known that the answer depends on',
    Reason.FILTER: 'nova-scheduler filters the host out',
    Reason.DISABLED: 'the host is disabled',
    Reason.HOST_CLASS: 'the host is of another class than the guest',
    Reason.CLASS_UNKNOWN: 'the class of the host or the guest is not known',
    Reason.TRAITS_STALE: 'the traits that tell what the host is for could '
                         'not be read from Placement for too long',
    Reason.RESERVED: 'the host is kept for guests of lost hosts',
    Reason.NOVA_WRONG: "the guest fits, but nova-compute's own claim would "
                       'come out wrong',
    Reason.NOVA_SLOW: "nova-compute's own claim would take too long",
    Reason.NOVA_AGAIN: "nova-compute's claim would find no place if one "
                       'elsewhere was aborted before',
    Reason.NOVA_AGAIN_WRONG: "nova-compute's claim could come out wrong if "
                             'one elsewhere was aborted before',
    Reason.NOVA_UNKNOWN: "nova-compute's claim may come to other cells, as "
                         'its release is not known for sure',
    Reason.NOVA_START: 'nova-compute would refuse to start the guest',
    Reason.NOVA_REFUSES: "nova's own filter refuses the host",
    Reason.BUDGET: 'the steps that a request may take were used up before '
                   'the host was looked at to the end',
    Reason.ERROR: 'an unexpected error',
}


@compat.dataclass(frozen=True, slots=True)
class Shortage:
    """Why one guest cell does not go on one host cell.

    :param need: what the guest cell needs, in the unit of the reason
    :param have: what the host cell has of it
    """

    host_cell: int
    reason: Reason
    need: int | float = 0
    have: int | float = 0

    def __str__(self) -> str:
        sentence = _CELL_SENTENCES[self.reason].format(
            need=_number(self.need), have=_number(self.have))
        return f'cell {self.host_cell} has {sentence}'


@compat.dataclass(frozen=True, slots=True)
class Refusal:
    """Why a guest does not go on a host.

    :param reason: the reason that decides; where cells give several, the one
        that most of those with CPUs give
    :param guest_cell: the guest cell that finds no host cell, if it is one
    :param shortages: what each host cell lacks for that guest cell
    :param detail: figures that do not belong to one host cell
    """

    reason: Reason
    guest_cell: int | None = None
    shortages: tuple[Shortage, ...] = ()
    detail: str = ''

    def __bool__(self) -> bool:
        """A Refusal counts as false, so that ``if outcome:`` reads well."""
        return False

    @property
    def figures(self) -> str:
        """What lies behind the reason on this host; may be empty."""
        if not self.shortages:
            return self.detail
        cells = '; '.join(map(str, sorted(
            self.shortages, key=lambda shortage: shortage.host_cell)))
        if not self.guest_cell:
            return cells
        return f'for guest cell {self.guest_cell}: {cells}'

    def __str__(self) -> str:
        if self.shortages:
            return self.figures
        text = summarise(self.reason)
        return f'{text}: {self.detail}' if self.detail else text

    @classmethod
    def of_cell(
        cls, guest_cell: int, shortages: tuple[Shortage, ...],
    ) -> 'Refusal':
        """The refusal of a guest cell that no host cell has room for.

        :param shortages: at least one
        """
        reason = shortages[0].reason
        if len(shortages) > 1:
            # Cells without CPUs never take any guest.
            votes = collections.Counter(
                shortage.reason for shortage in shortages
                if shortage.have or shortage.reason not in (
                    Reason.CELL_TOO_SMALL, Reason.SHARED_CPUS))
            reason = votes.most_common(1)[0][0] if votes else reason
        return cls(reason, guest_cell, shortages)


def summarise(reason: Reason) -> str:
    """A reason in words without figures, for sums over many hosts."""
    if reason in _HOST_SENTENCES:
        return _HOST_SENTENCES[reason]
    return _SUMMARIES[reason]


_SUMMARIES = {
    Reason.FREE_CPUS: 'too few free dedicated CPUs in any one cell',
    Reason.CELL_TOO_SMALL: 'no cell with that many dedicated CPUs',
    Reason.FREE_CORES: 'CPUs are free, but not as the thread policy wants',
    Reason.NO_THREADS: 'no hardware threads for thread policy "require"',
    Reason.ISOLATE_ON_THREADS: (
        'hardware threads, on which nova never fits thread policy "isolate"'),
    Reason.EMULATOR_CPU: 'no CPU to set aside for emulator threads',
    Reason.NO_DEDICATED_VCPUS: (
        'a guest cell has no dedicated vCPUs, which nova does not fit under '
        'this thread or emulator policy'),
    Reason.CORES_UNKNOWN: 'sibling lists are empty, overlap or leave CPUs out',
    Reason.STRAY_PINS: 'guests are pinned to CPUs that are not dedicated ones',
    Reason.SHARED_CPUS: 'too few shared CPUs in any one cell',
    Reason.CPU_RATIO: 'the CPU allocation ratio is reached in every cell',
    Reason.MEMORY: 'too little memory in any one cell',
    Reason.MEMORY_RATIO: 'the RAM allocation ratio is reached in every cell',
    Reason.PAGE_SIZE: 'no pages of the size asked for',
    Reason.PAGE_MULTIPLE: 'memory is not a multiple of the page size',
    Reason.PAGES: 'too few free pages of the size asked for in any one cell',
}


def _number(value: int | float) -> str:
    return f'{value:g}' if isinstance(value, float) else str(value)
