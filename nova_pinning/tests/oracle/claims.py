# SPDX-License-Identifier: Apache-2.0
"""Compare PinnedTopologyFilter with what nova-compute's claims come to.

A guest is offered one host or a few. Nova's handler of filters has the filter
choose among them, and nova's own fit claims each of them as nova-compute
would: at its first attempt, and at one that follows an aborted claim on
another host. Some guests were on a host before, and are unshelved. Whether a
claim is right is worked out from the case's own figures. What must never be:

* a host is left whose first claim is wrong;
* none is left though there is one whose first claim is right;
* a host is left whose second attempt is wrong, though there was another one
  for which both are right;
* two hosts are left of which one goes wrong with the page sizes that an
  aborted claim on the other leaves.

Hosts that are held back because a claim would take too long are counted apart.
So are refusals of hosts such as only a broken database has them, and of hosts
on which nova's first claim is right against its own rules.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import sys
import typing as ty
from unittest import mock

from nova import exception
from nova import objects
from nova.scheduler import filters as nova_filters
from nova.virt import hardware
import rich.console

from nova_pinning.bridge import nova_claim
from nova_pinning import conf
from nova_pinning.scheduler import requests
from nova_pinning.tests.oracle import case_series
from nova_pinning.tests.oracle import fleet_oracle
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import oracle_check
from nova_pinning.tests.oracle import oracle_compare
from nova_pinning.tests.oracle import plain_cells
from nova_pinning.tests.oracle import scheduled_cases

CONF = conf.CONF

# What can be wrong with a claim, beside any check.Fault.
NO_PLACE = 'it finds no host cells'
RAISES = 'it raises'
REJECTED = "nova's own accounting rejects it"
FAR = 'devices or networks are out of reach'
FEWER = 'it gets fewer devices than it asks for'
UNCERTAIN = 'it comes out in one of two ways'

# What can be wrong with a choice.
WRONG_LEFT = 'a host is left whose first claim is wrong: '
NONE_LEFT = 'none is left though a first claim is right: refused as '
SECOND_LEFT = ('a host is left whose second claim is wrong, though another '
               'would have been better')
MISLED = 'a host is left that goes wrong with what another one leaves: '
OTHER_LIMITS = 'a host is left with other limits or candidates than it had'
FILTER_RAISES = 'the filter raises '
SECOND_WRONG = ', its second claim is wrong'

# What becomes of a host.
PASSED = 'left, first claim right'
PASSED_WRONG = 'left, first claim wrong'
REFUSED = 'refused, first claim wrong'
REFUSED_RIGHT = 'refused without need'
REFUSED_SLOW = 'refused as too slow, first claim right'
REFUSED_ODD = 'refused as broken, first claim right'
REFUSED_LUCK = "refused, first claim right against nova's own rules"
HELD_BACK = 'held back, second claim wrong'
HELD_BACK_RIGHT = 'held back, both claims right'
HELD_BACK_SLOW = 'held back as too slow, first claim right'
_FATES = (PASSED, PASSED_WRONG, REFUSED, REFUSED_RIGHT, REFUSED_SLOW,
          REFUSED_ODD, REFUSED_LUCK, HELD_BACK, HELD_BACK_RIGHT,
          HELD_BACK_SLOW)

#: Names in model.Reason of refusals that depend on how long things take.
_SLOW = ('NOVA_SLOW', 'BUDGET')
_UNKNOWN = 'unknown'

# Options of [pinning]: no limit, and as little time as there can be.
_OPTIONS = {'request_budget_seconds': 0.0}
_HASTY = {'nova_claim_max_seconds': 0.0}


class Claims(case_series.Series):
    """A filter, on guests that nova's claim is apt to get wrong."""

    module = 'nova_pinning.tests.oracle.claims'
    description = ("Compare PinnedTopologyFilter with nova-compute's own "
                   'claims over random hosts and guests.')
    option = '--filter'
    default = 'nova_pinning.scheduler.filters:PinnedTopologyFilter'
    help = 'the class of filter to try (%(default)s)'
    kinds = 'kinds'
    shrunk = 0
    shapes = ('any', 'many-cells')

    def generate(self, seed: int, number: int) -> oracle_case.Case:
        made = (fleet_oracle.many_cells if self.shape == 'many-cells'
                else fleet_oracle.fleet)
        return made(seed, number)

    def judge(self, case: oracle_case.Case,
              subject: str) -> case_series.Outcome:
        trial = Trial(case, _filter(subject))
        kinds = trial.disagreements()
        guest = case.data['guest']
        policy, cells = str(guest['policy'] or 'none'), len(guest['cells'])
        counts: collections.Counter[ty.Any] = collections.Counter(
            trial.fates())
        for host in trial.hosts:
            counts[policy, cells, not host.first, host.is_left] += 1
        return case_series.Outcome(sorted(kinds), kinds, counts)

    def report(self, tally: case_series.Tally) -> dict[str, ty.Any]:
        counts = tally.counts
        seen = [key for key in counts if isinstance(key, tuple)]
        return {
            'hosts': sum(counts[key] for key in seen),
            'by_guest': [
                {'policy': policy, 'guest_cells': cells,
                 'left': (counts[policy, cells, True, True] +
                          counts[policy, cells, False, True]),
                 'refused_right': counts[policy, cells, True, False],
                 'refused': counts[policy, cells, False, False]}
                for policy, cells in sorted({key[:2] for key in seen})],
            'by_fate': [
                {'fate': fate, 'hosts': counts[fate]} for fate in _FATES],
        }

    def print_report(self, console: rich.console.Console,
                     report: dict[str, ty.Any]) -> None:
        case_series.print_table(
            console, 'Hosts by guest', report['by_guest'], 'policy',
            'guest cells', 'left', 'refused, claim right',
            'refused, claim wrong')
        case_series.print_table(console, 'What became of hosts',
                                report['by_fate'], 'what', 'hosts')
        if report['kinds']:
            case_series.print_table(console, 'Disagreements', report['kinds'],
                                    'how', 'cases', 'example')
        case_series.print_kinds(console, report['kinds'])
        case_series.print_plain(
            console,
            f'{report["cases"]} of {report["cases_wanted"]} cases of seed '
            f'{report["seed"]} with {report["hosts"]} hosts in '
            f'{report["seconds"]} s: {report["disagreements"]} '
            f"disagreements with nova-compute's claims.")

    def details(self, case: oracle_case.Case,
                subject: str) -> dict[str, ty.Any]:
        trial = Trial(case, _filter(subject))
        return {
            'hosts': [
                {'left': host.is_left,
                 'reason': None if host.is_left else host.reason(),
                 'first_claim': sorted(host.first) or 'right',
                 'second_claim': sorted(host.second) or 'right'}
                for host in trial.hosts],
            'disagreements': sorted(trial.disagreements()),
        }

    @contextlib.contextmanager
    def prepared(self) -> ty.Iterator[None]:
        # Each host of a case is looked at to the end.
        with oracle_compare.silence(), _options(_OPTIONS):
            yield


class Trial:
    """One guest and the hosts that a filter chose from.

    :param chosen: an instance of a filter
    :ivar hosts: a Host for each
    """

    def __init__(self, case: oracle_case.Case, chosen: ty.Any) -> None:
        self._case = case
        self._error = ''
        hasty = case.data.get('hasty')
        with case.configured(), _options(_HASTY if hasty else {}):
            hosts = fleet_oracle.hosts(case)
            self._left_behind = _left_behind(hosts)
            self.hosts = [
                Host(host, chosen, f'host{number}', self._left_behind)
                for number, host in enumerate(hosts)]
            spec = scheduled_cases.spec_of(hosts[0])
            if self._left_behind is not None:
                spec.requested_destination = objects.Destination(
                    cell=objects.CellMapping())
            try:
                with mock.patch.object(
                        nova_claim, 'unshelved_topology',
                        lambda _spec: self._left_behind):
                    left = nova_filters.HostFilterHandler(
                    ).get_filtered_objects(
                        [chosen], [host.state for host in self.hosts], spec)
            except Exception as error:
                self._error = type(error).__name__
                left = []
            for host in self.hosts:
                host.spec = spec
                host.is_left = any(state is host.state for state in left or ())

    @property
    def _left(self) -> list[Host]:
        return [host for host in self.hosts if host.is_left]

    @property
    def _right(self) -> list[Host]:
        return [host for host in self.hosts if not host.first]

    def disagreements(self) -> set[str]:
        """In which ways the filter chose wrongly."""
        if self._error:
            return {FILTER_RAISES + self._error}
        ways = {
            WRONG_LEFT + what for host in self._left for what in host.first}
        if any(host.was_changed() for host in self._left):
            ways.add(OTHER_LIMITS)
        if not self._left:
            ways |= {
                f'{NONE_LEFT}{host.reason()}'
                f'{SECOND_WRONG if host.second else ""}'
                for host in self._right
                # Slow hosts are for guests that find no other.
                if host.excuse() in ('', REFUSED_SLOW)}
        elif (len(self.hosts) > 1 and not self._case.data.get('hasty')
                and self._left_behind is None):
            # With every claim too slow, all of them are second best. A server
            # that is unshelved is claimed once.
            if any(host.second for host in self._left) and any(
                    not host.second and not host.excuse()
                    and host.is_of_known_release
                    and not any(host.misled_by(other) or other.misled_by(host)
                                for other in self._right)
                    for host in self._right):
                ways.add(SECOND_LEFT)
            ways |= {
                MISLED + what for host in self._left for other in self._left
                if other is not host for what in host.misled_by(other)}
        return ways

    def fates(self) -> ty.Iterator[str]:
        """What became of each host."""
        for host in self.hosts:
            if host.is_left:
                yield PASSED_WRONG if host.first else PASSED
            elif host.first:
                yield REFUSED
            elif host.excuse() == REFUSED_SLOW and self._left:
                yield HELD_BACK_SLOW
            elif host.excuse():
                yield host.excuse()
            elif self._left:
                yield HELD_BACK if host.second else HELD_BACK_RIGHT
            else:
                yield REFUSED_RIGHT


class Host:
    """A host, what nova-compute would make of the guest on it, and whether
    the filter leaves it.

    :ivar first: what is wrong with nova-compute's first claim; empty if it
        is right
    :ivar state: nova.scheduler.host_manager.HostState
    """

    def __init__(
        self, case: oracle_case.Case, chosen: ty.Any, name: str,
        left_behind: objects.InstanceNUMATopology | None,
    ) -> None:
        self._case = case
        self._filter = chosen
        topology = case.host()
        # Claims only read it, and it takes long to make.
        cells = (left_behind or case.guest()).cells
        sizes = [cell.pagesize for cell in cells]
        asked = case
        if left_behind and len(set(sizes)) == 1:
            # What were small pages there may be none here. They stay.
            asked = oracle_case.Case({**case.data, 'guest': {
                **case.data['guest'], 'pagesize': sizes[0]}})
        self.first = claim(
            asked, topology, [cell.id for cell in cells], sizes)
        self.state = scheduled_cases.state_of(case, topology)
        self.state.host = name
        self._candidates = list(self.state.allocation_candidates)
        self.spec: ty.Any = None
        self.is_left = False
        # If not, it may be of one whose claims do not see which pages are
        # free, and is none of the first.
        self.is_of_known_release = len(_ways(case)) == 1

    @functools.cached_property
    def second(self) -> set[str]:
        """What is wrong with a claim that follows an aborted one."""
        case = self._case
        wrong = set().union(*map(self.after, self.left_sizes))
        with case.configured():
            # As good as a second attempt that is wrong.
            return wrong if is_certain(
                case, range(len(case.data['guest']['cells']))) else {
                *wrong, UNCERTAIN}

    @functools.cached_property
    def left_sizes(self) -> set[tuple[ty.Any, ...]]:
        """Page sizes that the guest's cells may have after a first claim."""
        case = self._case
        with case.configured():
            answers = [
                claimed(case, case.host(),
                        range(len(case.data['guest']['cells'])), sees_devices)
                for sees_devices in _ways(case)]
        return {tuple(cell.pagesize for cell in answer.cells)
                for answer in answers
                if isinstance(answer, objects.InstanceNUMATopology)}

    def misled_by(self, other: Host) -> set[str]:
        """What is wrong with a claim that follows one on another host.

        That it is refused harms nobody. Nor does it if one cell gets pages
        that would not count as small or large here: where there are none of
        4 KiB, the smallest are others.
        """
        return set().union(*[
            self.after(sizes) - {NO_PLACE, RAISES}
            for sizes in other.left_sizes if len(sizes) > 1])

    def after(self, sizes: ty.Sequence[int | None]) -> set[str]:
        """What is wrong with a claim that follows one that leaves these."""
        case = self._case
        with case.configured():
            return claim(case, case.host(), [-1] * len(sizes), sizes)

    def reason(self) -> str:
        """Why our filter refuses the host; others do not say."""
        if not hasattr(self._filter, 'refusal'):
            return _UNKNOWN
        with self._case.configured():
            try:
                refusal = self._filter.refusal(
                    self.state, requests.read(self.spec))
            except Exception as error:
                return type(error).__name__
        return _UNKNOWN if refusal is None else refusal.reason.name

    def excuse(self) -> str:
        """What makes it fine to refuse the host, '' if nothing does."""
        if self.is_left:
            return ''
        if self._case.data['odd']:
            return REFUSED_ODD
        if self.reason() in _SLOW:
            return REFUSED_SLOW
        return REFUSED_LUCK if is_luck(self._case) else ''

    def was_changed(self) -> bool:
        """Whether what nova-scheduler passes on is not what it should be."""
        mine = self._case.limits()
        passed = self.state.limits.get('numa_topology')
        return (
            passed is None or
            passed.obj_to_primitive() != mine.obj_to_primitive() or
            self.state.allocation_candidates != self._candidates)


def _left_behind(
    hosts: ty.Sequence[oracle_case.Case],
) -> objects.InstanceNUMATopology | None:
    """What a guest is unshelved with that was on one of the hosts before."""
    if not hosts[0].data.get('unshelved'):
        return None
    for case in hosts:
        answer = claimed(case, case.host(), range(len(
            case.data['guest']['cells'])), _ways(case)[0])
        if isinstance(answer, objects.InstanceNUMATopology):
            return answer
    return None


def claim(case: oracle_case.Case, host: objects.NUMATopology,
          ids: ty.Iterable[int],
          sizes: ty.Sequence[int | None] | None = None) -> set[str]:
    """What is wrong with nova-compute's claim; empty if it is right.

    If it may be of either kind, what is wrong with the one or the other.

    :param host: not changed
    :param ids: what the ids of the guest's cells are to start with: from 0
        at the first attempt, -1 each at the next
    :param sizes: what page sizes they ask for to start with; None for what
        the guest asks for
    """
    ids = list(ids)
    return set().union(*[
        _wrong_with(case, host, claimed(case, host, ids, sees_devices, sizes))
        for sees_devices in _ways(case)])


def is_certain(case: oracle_case.Case, ids: ty.Iterable[int]) -> bool:
    """Whether claims of all kinds that there may be come out alike."""
    ways = _ways(case)
    if len(ways) < 2:
        return True
    answers = {repr(claimed(case, case.host(), list(ids), sees_devices))
               for sees_devices in ways}
    return len(answers) == 1


def _ways(case: oracle_case.Case) -> tuple[bool, ...]:
    """Whether nova-compute minds devices that are not asked for."""
    sees_devices = case.data.get('sees_devices', True)
    return (True, False) if sees_devices is None else (sees_devices,)


def claimed(case: oracle_case.Case, host: objects.NUMATopology,
            ids: ty.Iterable[int], sees_devices: bool,
            sizes: ty.Sequence[int | None] | None = None) -> ty.Any:
    """What a claim answers; the exception if it raises one.

    nova.compute.claims.Claim._test_numa_topology says what the fit is given.
    """
    guest = plain_cells.plain_guest(case.guest())
    for cell, cell_id in zip(guest.cells, ids):
        cell.id = cell_id
    for cell, size in zip(guest.cells, sizes or ()):
        cell.pagesize = size
    pci_requests, pci_stats = pci(case)
    try:
        return hardware.numa_fit_instance_to_host(
            plain_cells.plain_host(host), guest, provider_mapping=None,
            limits=case.limits(), pci_requests=pci_requests,
            pci_stats=pci_stats if sees_devices or pci_requests else None)
    except Exception as error:
        return error


def _wrong_with(case: oracle_case.Case, host: objects.NUMATopology,
                answer: ty.Any) -> set[str]:
    """What is wrong with the answer of a claim."""
    if isinstance(answer, Exception):
        return {RAISES}
    if answer is None:
        return {NO_PLACE}
    limits = case.limits()
    pci_requests, pci_stats = pci(case)
    wrong: set[str] = set(oracle_check.faults(case, oracle.answer_of(answer)))
    if oracle_compare.is_rejected(host, answer):
        wrong.add(REJECTED)
    if pci_requests and not pci_stats.support_requests(
            pci_requests, None, answer.cells):
        wrong.add(FAR)
    elif pci_requests and not oracle.gets_all_devices(
            pci_requests, pci_stats, answer.cells):
        wrong.add(FEWER)
    if limits and 'network_metadata' in limits:
        taken = {cell.id for cell in answer.cells}
        if not hardware._numa_cells_support_network_metadata(
                host, [cell for cell in host.cells if cell.id in taken],
                limits.network_metadata):
            wrong.add(FAR)
    return wrong


def is_luck(case: oracle_case.Case) -> bool:
    """Whether nova's first claim uses a host cell that nova itself refuses.

    What nova remembers of one cell it may take for another's. By that it can
    come to accept a guest cell where it never would if asked about just the
    two; with luck nothing is wrong about it.
    """
    with case.configured():
        host = case.host()
        ids = list(range(len(case.data['guest']['cells'])))
        return any(
            _is_lucky(case, host, claimed(case, host, ids, sees_devices))
            for sees_devices in _ways(case))


def _is_lucky(case: oracle_case.Case, host: objects.NUMATopology,
              answer: ty.Any) -> bool:
    if answer is None:
        return False
    guest = case.guest()
    by_id = {cell.id: cell for cell in host.cells}
    return any(
        not _fits_alone(by_id[answered.id], asked, case.limits(),
                        int(guest.emulator_threads_isolated and not number))
        for number, (answered, asked) in enumerate(
            zip(answer.cells, guest.cells)))


def _fits_alone(host_cell: ty.Any, cell: ty.Any, limits: ty.Any,
                reserved: int) -> bool:
    try:
        return hardware._numa_fit_instance_cell(
            host_cell, cell, limits, reserved) is not None
    except exception.MemoryPageSizeNotSupported:
        return False


def pci(case: oracle_case.Case) -> tuple[ty.Any, ty.Any]:
    """Requests and stats of PCI devices as nova-compute has them."""
    asked = case.pci_requests()
    return (asked and oracle.allotted(asked, case.mapping()),
            case.pci_stats())


@functools.cache
def _filter(path: str) -> ty.Any:
    return case_series.load(path)()


@contextlib.contextmanager
def _options(values: dict[str, ty.Any]) -> ty.Iterator[None]:
    for name, value in values.items():
        CONF.set_override(name, value, 'pinning')
    try:
        yield
    finally:
        for name in values:
            CONF.clear_override(name, 'pinning')


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    :returns: the exit status
    """
    return case_series.main(Claims(), argv)


if __name__ == '__main__':
    sys.exit(main())
