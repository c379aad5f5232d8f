# SPDX-License-Identifier: Apache-2.0
"""Whether all commands say the same of a guest on a host.

A case is a host, some guests on it, and one more guest, which is on a second
host and may move to the first. Every surface is asked by the functions below
its command; what each says is yes, no or that it is not known. The judge of
admission says what is right. Plans of moves know only moves: what is not
known is none. Exit status: 0 if all agree in every case, 1 if not, 2 for a
usage error.
"""

import argparse
import collections
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import random
import sys
import time

from nova_pinning.bridge.offline import standalone

standalone.prepare()

from nova_pinning.admission import guest_request  # noqa: E402
from nova_pinning.admission import host_occupancy  # noqa: E402
from nova_pinning.admission import judge  # noqa: E402
from nova_pinning.admission import offered_host  # noqa: E402
from nova_pinning.admission import outcome  # noqa: E402
from nova_pinning.admission import resident_guest  # noqa: E402
from nova_pinning.bridge.preview import query  # noqa: E402
from nova_pinning.capacity import capacity  # noqa: E402
from nova_pinning import cpuset  # noqa: E402
from nova_pinning.explain import explanation  # noqa: E402
from nova_pinning.exporter import fleet_tally  # noqa: E402
from nova_pinning.flavors.checks import target  # noqa: E402
from nova_pinning.flavors import flavor_model  # noqa: E402
from nova_pinning.fleet import moved_guest  # noqa: E402
from nova_pinning.fleet import occupied  # noqa: E402
from nova_pinning.fleet import snapshot  # noqa: E402
from nova_pinning.host import host_model  # noqa: E402
from nova_pinning.host import host_offer  # noqa: E402
from nova_pinning import model  # noqa: E402
from nova_pinning.model import hostclass  # noqa: E402
from nova_pinning.placement import inventory  # noqa: E402
from nova_pinning.presentation.fleet_page import page_data  # noqa: E402
from nova_pinning.rebalance import defragment  # noqa: E402
from nova_pinning.rebalance import drain  # noqa: E402
from nova_pinning.rebalance import failover  # noqa: E402
from nova_pinning.rebalance import move_rules  # noqa: E402
from nova_pinning.rebalance import slot_size  # noqa: E402
from nova_pinning.simulation import admission_columns  # noqa: E402
from nova_pinning.simulation import fast  # noqa: E402
from nova_pinning.simulation import scheduler_configuration  # noqa: E402

YES, NO, UNKNOWN = 'yes', 'no', 'unknown'

#: CPUs of the host that the guest is on, and its memory.
_CPUS, _MIB = 12, 8192
_SOURCE, _TARGET = 'source', 'target'
_NOTHING = host_model.NovaSettings()
_SHAPE = {'A': 'CUSTOM_A', 'B': 'CUSTOM_B', 'AVX': 'HW_CPU_X86_AVX'}
_KEPT = 20


@dataclasses.dataclass(frozen=True, slots=True)
class SurfaceCase:
    """A guest, and the host that it is asked of.

    :param fleet: both hosts, with all guests
    :param guest: of the first
    :param description: the host file of the second; None if it is no host
        that a file can describe
    """

    fleet: snapshot.Fleet
    guest: resident_guest.ResidentGuest
    description: host_model.HostDescription | None

    @property
    def request(self) -> guest_request.GuestRequest:
        """What the guest asks for."""
        return moved_guest.RequestReader(self.fleet).request(self.guest)

    @property
    def alone(self) -> snapshot.Fleet:
        """The second host with its guests."""
        return dataclasses.replace(self.fleet, hosts=tuple(
            host for host in self.fleet.hosts if host.name == _TARGET),
            guests=tuple(guest for guest in self.fleet.guests
                         if guest.host == _TARGET))


def draw(seed: int, number: int) -> SurfaceCase:
    """A random case; the same whenever it is asked for."""
    chance = random.Random(f'{seed} {number}')
    guest = _guest(chance)
    description = None
    guests: tuple[resident_guest.ResidentGuest, ...] = ()
    if chance.random() < 0.4:
        description = _description(chance, guest)
        host = dataclasses.replace(
            host_offer.offered(description), name=_TARGET)
    else:
        host = _host(chance, guest)
        guests = tuple(_residents(chance, host))
    pinned = guest.topology is not None
    source = offered_host.OfferedHost(
        name=_SOURCE, cells=(_cell(0, 0, _CPUS, _MIB, pinned),),
        host_class=guest.guest_class, disk_gib=1000)
    filters = ('ComputeFilter',)
    if description is None:
        filters = chance.choice((filters, filters, (), (
            'ComputeFilter', 'HostClassFilter'), ('ComputeFilter', 'Odd')))
    return SurfaceCase(snapshot.Fleet(
        hosts=(host, source), guests=(guest, *guests),
        flavors=(_flavor(chance, guest),), enabled_filters=filters),
        guest, description)


def _guest(chance: random.Random) -> resident_guest.ResidentGuest:
    vcpus = chance.choice((1, 2, 2, 3, 4))
    memory_mib = chance.choice((64, 512, 512, 1024))
    topology = fit = None
    if chance.random() < 0.7:
        topology = model.Guest((model.GuestCell(
            tuple(range(vcpus)), (), memory_mib, None),),
            model.CpuPolicy.DEDICATED)
        fit = model.Fit((model.CellFit(
            0, tuple((vcpu, vcpu) for vcpu in range(vcpus))),))
    return resident_guest.ResidentGuest(
        uuid='00000000-0000-0000-0000-000000000001', name='guest',
        host=_SOURCE, vcpus=vcpus, memory_mib=memory_mib,
        disk_gib=chance.choice((0, 0, 5)), flavor='asked',
        guest_class=(hostclass.HostClass.SHARED if topology is None
                     else hostclass.HostClass.DEDICATED),
        topology=topology, fit=fit, vm_state='active', availability_zone='')


def _flavor(chance: random.Random,
            guest: resident_guest.ResidentGuest) -> flavor_model.Flavor:
    specs = {} if guest.topology is None else {'hw:cpu_policy': 'dedicated'}
    for key, values, share in (
            ('resources:VGPU', '112', 0.2),
            ('resources:CUSTOM_GOLD', '1134', 0.2),
            ('resources1:CUSTOM_GOLD', '12', 0.1),
            *((f'trait:{trait}', ('required', 'required', 'forbidden'), 0.12)
              for trait in _SHAPE.values()),
            ('trait1:CUSTOM_A', ('required',), 0.05),
            ('accel:device_profile', ('fpga',), 0.03)):
        if chance.random() < share:
            specs[key] = chance.choice(values)
    return flavor_model.Flavor(
        name='asked', vcpus=guest.vcpus, memory_mib=guest.memory_mib,
        disk_gib=guest.disk_gib, extra_specs=specs)


def _cell(number: int, first: int, count: int, memory_mib: int,
          is_dedicated: bool) -> model.HostCell:
    cpus = cpuset.CpuSet(range(first, first + count))
    none = cpuset.CpuSet()
    return model.HostCell(
        id=number, shared_cpus=none if is_dedicated else cpus,
        dedicated_cpus=cpus if is_dedicated else none, pinned_cpus=none,
        cores=tuple((cpu,) for cpu in cpus), memory_mib=memory_mib,
        pages=(model.PagePool(4, memory_mib * 256),), socket=number)


def _host(chance: random.Random,
          guest: resident_guest.ResidentGuest) -> offered_host.OfferedHost:
    is_dedicated = (guest.topology is not None) ^ (chance.random() < 0.1)
    cells = tuple(_cell(number, 4 * number, chance.choice((2, 4)),
                        chance.choice((512, 1024)), is_dedicated)
                  for number in range(chance.choice((1, 2))))
    gaps = [gap for gap in (
        outcome.Doubt(outcome.DoubtKind.PROVIDERS, 'not asked', 'VGPU'),
        outcome.Doubt(outcome.DoubtKind.CELLS, 'no host file'),
        outcome.Doubt(outcome.DoubtKind.TRAITS, 'not all told', 'CUSTOM_'))
        if chance.random() < 0.08]
    has = None
    children: tuple[offered_host.OfferedProvider, ...] = ()
    if chance.random() < 0.75:
        cpus = sum(len(cell.dedicated_cpus | cell.shared_cpus)
                   for cell in cells)
        has = {
            inventory.PCPU if is_dedicated else inventory.VCPU: cpus,
            inventory.MEMORY_MB: sum(cell.memory_mib for cell in cells),
            inventory.DISK_GB: chance.choice((4, 100, 100))}
        has |= {name: chance.choice((1, 2, 4)) for name in (
            'CUSTOM_GOLD', 'VGPU') if chance.random() < 0.4}
        children = tuple(offered_host.OfferedProvider(
            0, _offers({name: chance.choice((1, 2)) for name in (
                'CUSTOM_GOLD', 'VGPU') if chance.random() < 0.6}),
            _traits(chance) or frozenset())
            for _ in range(chance.choice((0, 0, 1, 2))))
    return offered_host.OfferedHost(
        name=_TARGET, cells=cells, traits=_traits(chance),
        host_class=chance.choice((guest.guest_class,) * 3 + (None,)),
        inventories=None if has is None else dict(_offers(has)),
        disk_gib=chance.choice((None, 100)) if has is None else None,
        is_enabled=chance.random() < 0.92, children=children,
        gaps=tuple(gaps))


def _offers(
    totals: Mapping[str, int],
) -> tuple[tuple[str, inventory.Inventory], ...]:
    return tuple(sorted((name, inventory.Inventory(total))
                        for name, total in totals.items()))


def _traits(chance: random.Random) -> frozenset[str] | None:
    if chance.random() < 0.2:
        return None
    return frozenset(trait for trait in _SHAPE.values()
                     if chance.random() < 0.6)


def _residents(
    chance: random.Random, host: offered_host.OfferedHost,
) -> Iterator[resident_guest.ResidentGuest]:
    occupancy = host_occupancy.of_host(host)
    for number in range(chance.choice((0, 1, 2))):
        vcpus = chance.choice((1, 2))
        topology = model.Guest((model.GuestCell(
            tuple(range(vcpus)), (), 64, None),), model.CpuPolicy.DEDICATED)
        request = guest_request.of_shape(
            'there', vcpus, 64, hostclass.HostClass.DEDICATED, topology)
        place = judge.AdmissionJudge(
            assumes=frozenset(outcome.DoubtKind)).room(request, occupancy)
        if isinstance(place, model.Fit):
            placed = judge.placed_on(
                request, occupancy, place, f'{number:036}')
            occupancy = occupancy.adding(placed)
            yield dataclasses.replace(placed, is_movable=False)


def _description(chance: random.Random, guest: resident_guest.ResidentGuest,
                 ) -> host_model.HostDescription:
    nodes = tuple(host_model.NumaNode(
        number, number, tuple((cpu,) for cpu in range(
            4 * number, 4 * number + chance.choice((2, 4)))),
        chance.choice((512, 1024)))
        for number in range(chance.choice((1, 2))))
    cpus = cpuset.union(node.cpus for node in nodes)
    is_dedicated = (guest.topology is not None) ^ (chance.random() < 0.1)
    return host_model.HostDescription(
        _TARGET, nodes, traits=(_traits(chance) or frozenset()) - {
            _SHAPE['AVX']},
        nova=dataclasses.replace(
            _NOTHING, dedicated_cpus=cpus if is_dedicated else None,
            shared_cpus=None if is_dedicated else cpus,
            reserved_memory_mib=chance.choice((0, 128))))


def truth(case: SurfaceCase) -> str:
    """What the judge says."""
    return _of_outcome(judge.AdmissionJudge(
        occupied.rules_of(case.fleet)).answer(case.request, _there(case)))


def _there(case: SurfaceCase) -> host_occupancy.HostOccupancy:
    return occupied.of_fleet(case.fleet)[_TARGET]


def _of_outcome(found: outcome.Outcome) -> str:
    return {outcome.Admitted: YES, outcome.NotAdmitted: NO,
            outcome.Undecided: UNKNOWN}[type(found)]


def _of_verdict(is_refused: bool, is_open: bool) -> str:
    return NO if is_refused else UNKNOWN if is_open else YES


def _capacity(case: SurfaceCase) -> str:
    counts = capacity.measure(case.alone, [case.request]).hosts[0].counts[0]
    return _of_verdict(not counts.fits, not counts.certain)


def _explain(case: SurfaceCase) -> str:
    found = explanation.judge_of(case.fleet).verdict(
        _there(case), case.request)
    return _of_verdict(not found.fits, bool(found.doubts))


def _page(case: SurfaceCase) -> str:
    shown = page_data.document(page_data.FleetPage(
        measured=capacity.measure(case.alone, [case.request])), 'x')
    state = shown['states'][shown['hosts'][0]['state']]
    return _of_verdict(not state['fits'][0], bool(state['bounds']))


def _exporter(case: SurfaceCase) -> str:
    tally = fleet_tally.FleetTally(
        [case.request], occupied.rules_of(case.fleet))
    tally.update(case.alone)
    sizes = [sizes[0] for sizes, _left in tally.by_class().values()]
    return _of_verdict(not sum(size.fits for size in sizes),
                       not sum(size.certain for size in sizes))


def _drain(case: SurfaceCase) -> str:
    plan = drain.plan_drain(case.fleet, (_SOURCE,), move_rules.MoveLimits())
    return YES if plan.moves else NO


def _defragment(case: SurfaceCase) -> str | None:
    if case.guest.topology is None:
        return None
    # Room for a guest that takes all of the host that it is on.
    plan = defragment.plan_defragmentation(
        case.fleet, [slot_size.dedicated_slot(_CPUS, _MIB)],
        move_rules.MoveLimits())
    return YES if plan.moves else NO


def _failover(case: SurfaceCase) -> str:
    report = failover.check_failover(
        case.fleet, only=(_SOURCE,),
        settings=failover.FailoverSettings(has_reserve=False))
    return str(report.losses[0].verdict)


def _simulate(case: SurfaceCase) -> str:
    fleet = case.alone
    configuration = scheduler_configuration.SchedulerConfiguration(
        name='x', enabled_filters=case.fleet.enabled_filters or None)
    columns = admission_columns.of_fleet(fleet, configuration, (0,))
    placed = fast.FastScheduler(columns, configuration).place(
        case.guest.uuid, case.request)
    return YES if placed.host is not None else (
        UNKNOWN if columns.doubts else NO)


def _flavor_check(case: SurfaceCase) -> str | None:
    if case.description is None:
        return None
    [host] = target.targets([case.description])
    return _of_outcome(host.answer(case.request))


def _guest_show(case: SurfaceCase) -> str | None:
    if case.description is None:
        return None
    found, _lack = query.verdicts(
        case.request, case.description, cpuset.CpuSet())
    return _of_verdict(bool(found.refusals), bool(found.doubts))


#: What each of them says, None if it cannot be asked.
SURFACES: Mapping[str, Callable[[SurfaceCase], str | None]] = {
    'capacity': _capacity, 'explain': _explain, 'page': _page,
    'exporter': _exporter, 'drain': _drain, 'defragment': _defragment,
    'failover': _failover, 'simulate': _simulate,
    'flavor check': _flavor_check, 'guest show': _guest_show}
#: Those of them to which what is not known is no.
_MOVES = ('drain', 'defragment')
#: And what is right where they may tell of more that is not known: of further
#: guests, or of what does not matter.
_TELLS_MORE = {'page': YES, 'simulate': NO}


@dataclasses.dataclass(slots=True)
class SurfaceTally:
    """What a number of cases showed.

    :ivar answers: of the judge
    :ivar asked: how often each surface was
    :ivar differences: 'case, surface: what it says, and what is right'
    """

    answers: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter)
    asked: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter)
    differences: list[str] = dataclasses.field(default_factory=list)


def compare(seed: int, numbers: range) -> SurfaceTally:
    """Ask all surfaces about some cases."""
    tally = SurfaceTally()
    for number in numbers:
        case = draw(seed, number)
        right = truth(case)
        tally.answers[right] += 1
        for name, ask in SURFACES.items():
            said = ask(case)
            if said is None:
                continue
            tally.asked[name] += 1
            may = {right}
            if right == UNKNOWN and name in _MOVES:
                may = {NO}
            elif right == _TELLS_MORE.get(name):
                may.add(UNKNOWN)
            if said not in may:
                tally.differences.append(
                    f'case {number}, {name}: {said}, should be {right}')
    return tally


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    :returns: the exit status
    """
    parser = argparse.ArgumentParser(
        prog='python -m nova_pinning.tests.oracle.surfaces',
        description='Ask all commands the same about guests and hosts.')
    parser.add_argument('--cases', type=int, default=2000, metavar='N',
                        help='how many (%(default)s)')
    parser.add_argument('--seed', type=int, default=1, metavar='S',
                        help='which series of cases (%(default)s)')
    parser.add_argument('--case', type=int, metavar='K',
                        help='case K only, and print it')
    parsed = parser.parse_args(argv)
    if parsed.cases < 1:
        parser.error('--cases must be at least 1')
    numbers = range(parsed.cases)
    if parsed.case is not None:
        numbers = range(parsed.case, parsed.case + 1)
        print(draw(parsed.seed, parsed.case))
    begun = time.monotonic()
    tally = compare(parsed.seed, numbers)
    for difference in tally.differences[:_KEPT]:
        print(difference)
    for name, count in tally.asked.items():
        print(f'{count:8,} {name}')
    print(f'{len(numbers):,} cases of seed {parsed.seed} in '
          f'{time.monotonic() - begun:.0f} s: '
          + ', '.join(f'{count:,} {answer}' for answer, count
                      in sorted(tally.answers.items()))
          + f'; {len(tally.differences):,} disagreements')
    return int(bool(tally.differences))


if __name__ == '__main__':
    sys.exit(main())
