# SPDX-License-Identifier: Apache-2.0
"""The fleets of the study, and what is asked of them."""

import argparse
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import functools
import itertools
import math
import os
import pathlib
import random

from benchmarks import azure
from benchmarks import bytedance
from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.admission import resident_guest
from nova_pinning import errors
from nova_pinning.fleet import generate
from nova_pinning.fleet import shapes
from nova_pinning.fleet import snapshot
from nova_pinning.simulation import arrival_process
from nova_pinning.simulation import guests
from nova_pinning import units

_NVME = devices.device_keys('144d', 'a808')

#: Mean lifetime of all guests; the unit of time of the study.
LIFETIME_HOURS = 1.0
#: How slowly the offered load rises: by this share of the CPUs in a mean
#: lifetime.
_RISE = 0.05
_LAST_LOAD = 1.3

#: The fleets whose data are somebody else's.
SNAPSHOT = 'snapshot'
AZURE = 'azure-2017'
NEED_DATA = (SNAPSHOT, AZURE)

Mix = tuple[tuple[guest_request.GuestRequest, float], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A fleet, and the guests that come to it.

    :param first_load: offered at first, as a share of the CPUs
    :param quiet_hours: before the first arrival; the fleet's own guests
        leave in the meantime
    :param has_bound: whether its patterns are few enough to go through
    """

    title: str
    fleet: snapshot.Fleet
    mix: Mix
    first_load: float = 0.3
    quiet_hours: float = 0.0
    has_bound: bool = True

    @property
    def cpus(self) -> int:
        return sum(len(host.dedicated_cpus) for host in self.fleet.hosts)

    def arrivals(self, seed: int) -> Iterator[arrival_process.Arrival]:
        """Poisson arrivals whose rate rises, the same for each scheduler."""
        load = arrival_process.rising_load(
            self.mix, self.cpus, first=self.first_load, last=_LAST_LOAD,
            turnovers=(_LAST_LOAD - self.first_load) / _RISE)
        for arrival in load.arrivals(seed):
            yield arrival._replace(
                time_seconds=arrival.time_seconds + self.quiet_hours * 3600)


def guest(
    vcpus: int, memory_gib: int, *, cells: int = 1, nvmes: int = 0,
    page_size_kib: int | None = None,
) -> guest_request.GuestRequest:
    """A dedicated guest, spread evenly over its cells.

    :param nvmes: NVMe devices, near its cells
    """
    plain = guests.plain(vcpus, memory_gib * units.MIB_PER_GIB, cells=cells,
                         page_size_kib=page_size_kib)
    return plain if not nvmes else dataclasses.replace(
        plain, name=f'{plain.name}-nvme',
        devices=(devices.PciRequest('nvme', (_NVME,), nvmes),))


def with_devices(
    some: int, count: int, template: shapes.HostTemplate,
) -> snapshot.Fleet:
    """Hosts without guests, of which only some have their devices."""
    fleet = generate.generate_fleet(count, template, filled=0.0)
    return dataclasses.replace(fleet, hosts=(
        *fleet.hosts[:some],
        *(dataclasses.replace(host, pci_pools=())
          for host in fleet.hosts[some:])))


def two_socket(count: int) -> snapshot.Fleet:
    """Hosts of 2 cells of 38 CPUs, without guests."""
    return generate.generate_fleet(count, 'two-socket-80', filled=0.0)


def _mix(gib_per_vcpu: int, *sizes: tuple[int, int, int]) -> Mix:
    """:param sizes: vCPUs, cells and weight of each"""
    return tuple(
        (guest(vcpus, gib_per_vcpu * vcpus, cells=cells), weight)
        for vcpus, cells, weight in sizes)


def _sizes(count: int) -> Scenario:
    return Scenario(
        fleet=two_socket(count),
        title=f'2 to 32 vCPUs on {count} hosts of 2 cells of 38 CPUs',
        mix=_mix(4, (2, 1, 30), (4, 1, 25), (8, 1, 20), (16, 1, 15),
                 (32, 1, 10)))


def _two_sizes(count: int) -> Scenario:
    return Scenario(
        fleet=two_socket(count),
        title=f'8 and 16 vCPUs on {count} hosts of 2 cells of 38 CPUs',
        mix=_mix(4, (8, 1, 60), (16, 1, 40)))


def _epyc(count: int) -> Scenario:
    return Scenario(
        title=f'2 to 32 vCPUs, 32 in two cells, on {count} hosts of 8 cells '
              f'of 32 CPUs in two L3 domains; two cells are 2 CPUs short',
        fleet=generate.generate_fleet(count, 'epyc-nps4', filled=0.0),
        mix=_mix(3, (2, 1, 30), (4, 1, 25), (8, 1, 20), (16, 1, 15),
                 (32, 2, 10)))


def _pages_and_devices(count: int) -> Scenario:
    """A quarter of the hosts has two NVMe devices near each cell."""
    some = count // 4
    kinds = (
        # CPU-heavy, 2 GiB to a vCPU
        (4, 8, 0, 15), (8, 16, 0, 20), (16, 32, 0, 15), (32, 64, 0, 5),
        # memory-heavy, 8 GiB to a vCPU
        (4, 32, 0, 10), (8, 64, 0, 15), (16, 128, 0, 10),
        # with a disk
        (8, 32, 1, 6), (16, 64, 1, 4))
    return Scenario(
        title=f'2 and 8 GiB to a vCPU in pages of 1 GiB, a tenth with an '
              f'NVMe, on {count} hosts of 2 cells of 46 CPUs and 240 GiB, '
              f'{some} with 4 NVMe',
        fleet=with_devices(some, count, dataclasses.replace(
            shapes.SHAPES['two-socket-96-pci'], cell_devices=(
                shapes.TemplateDevices('nvme', _NVME, 2, 0),))),
        mix=tuple(
            (guest(vcpus, memory_gib, nvmes=nvmes,
                   page_size_kib=units.KIB_PER_GIB), weight)
            for vcpus, memory_gib, nvmes, weight in kinds))


def data_path(name: str) -> pathlib.Path:
    """Where a file of somebody else's data lies.

    Below the directory that NOVA_PINNING_DATA names, or else beside the
    checkout.

    :raises errors.InputError: if it is not there
    """
    path = pathlib.Path(os.environ.get('NOVA_PINNING_DATA') or (
        pathlib.Path(__file__).resolve().parents[2].parent / 'shared/data'),
        name)
    if not path.exists():
        raise errors.InputError(
            'is not there', errors.Location(str(path)),
            f'set NOVA_PINNING_DATA to the directory that has {name}')
    return path


def _snapshot(_count: int) -> Scenario:
    """The real fleet with its guests, and arrivals of its own sizes.

    :raises errors.InputError: if the data are not there
    """
    fleet = bytedance.read(data_path('bytedance/clusters.json'))
    return Scenario(
        title=f'the real {len(fleet.hosts)} hosts of 2 cells of 44 CPUs with '
              f'their {len(fleet.guests):,} guests, and arrivals like these',
        fleet=fleet, mix=_mix_of(fleet), quiet_hours=1.0)


def _mix_of(fleet: snapshot.Fleet) -> Mix:
    """Guests in the proportions in which a fleet has them now."""
    found: dict[
        tuple[object, ...], tuple[resident_guest.ResidentGuest, int]] = {}
    for guest in fleet.guests:
        assert guest.topology is not None
        key = (guest.flavor, guest.vcpus, guest.memory_mib,
               len(guest.topology.cells))
        found[key] = guest, found.get(key, (guest, 0))[1] + 1
    return tuple(
        (guest_request.of_shape(
            guest.flavor, guest.vcpus, guest.memory_mib, guest.guest_class,
            guest.topology, extra_specs={'hw:cpu_policy': 'dedicated'}), count)
        for guest, count in (found[key] for key in sorted(found, key=str)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Drift(Scenario):
    """The mix turns into another one.

    :param later: what it is in the end
    """

    later: Mix

    def arrivals(self, seed: int) -> Iterator[arrival_process.Arrival]:
        draws = random.Random(f'drift-{seed}')
        kinds, weights = zip(*self.later)
        last = (_LAST_LOAD - self.first_load) / _RISE * LIFETIME_HOURS * 3600
        # Slots and super() do not go together here.
        for arrival in Scenario.arrivals(self, seed):
            if draws.random() < arrival.time_seconds / last:
                arrival = arrival._replace(
                    request=draws.choices(kinds, weights)[0])
            yield arrival


def _drift(count: int) -> Scenario:
    return _Drift(
        title=f'2 to 32 vCPUs with 4 GiB each, later 3 to 24 with 8 GiB, on '
              f'{count} hosts of 2 cells of 38 CPUs and 192 GiB',
        fleet=two_socket(count), has_bound=False,
        mix=_mix(4, (2, 1, 30), (4, 1, 25), (8, 1, 20), (16, 1, 15),
                 (32, 1, 10)),
        later=_mix(8, (3, 1, 40), (6, 1, 30), (12, 1, 20), (24, 2, 10)))


class _Azure(Scenario):
    """Batches of Azure's trace, of which ever more come."""

    __slots__ = ()

    def arrivals(self, seed: int) -> Iterator[arrival_process.Arrival]:
        """Whole batches, each with a probability that rises."""
        machines = azure.read(data_path(azure.ARCHIVE))
        last = machines[-1].time_seconds
        alive = sum(machine.vcpus * min(
            machine.lifetime_seconds or math.inf, last - machine.time_seconds)
            for machine in machines) / last
        plain = functools.cache(guests.plain)
        draws = random.Random(f'azure-{seed}')
        for _batch, together in itertools.groupby(
                machines, lambda machine: machine.batch):
            drawn = draws.random() * alive / self.cpus
            for machine in together:
                if drawn < self.first_load + (
                        _LAST_LOAD * machine.time_seconds / last):
                    yield arrival_process.Arrival(
                        machine.time_seconds, machine.id,
                        plain(machine.vcpus, machine.memory_mib),
                        machine.lifetime_seconds)


def _azure(count: int) -> Scenario:
    return _Azure(
        title=f'{azure.ATTRIBUTION}: batches at random, ever more, on {count} '
              'hosts of 2 cells of 38 CPUs',
        fleet=two_socket(count), mix=(), has_bound=False)


#: How to make each scenario of so many hosts, and how many there are.
_MAKERS: Mapping[str, tuple[Callable[[int], Scenario], int, int]] = {
    SNAPSHOT: (_snapshot, 279, 279),
    'two-socket': (_sizes, 120, 12),
    'two-socket-8-16': (_two_sizes, 120, 12),
    'epyc-nps4': (_epyc, 60, 4),
    'pages-pci': (_pages_and_devices, 120, 12),
    'drift': (_drift, 120, 12),
    AZURE: (_azure, 120, 12),
}
NAMES = tuple(_MAKERS)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add how much there is to do at once, and in all."""
    parser.add_argument('--seeds', type=int, default=20, help='how many '
                        '(default: %(default)s; of the quick form 2 at most)')
    parser.add_argument('--smaller', type=int, default=1, metavar='N',
                        help='generated fleets of N times fewer hosts, and '
                        'as many times fewer cases where guests wait')
    parser.add_argument('--runs', type=pathlib.Path, metavar='FILE',
                        help='keep each run in it, and do none again')
    parser.add_argument('--processes', type=int, default=os.cpu_count() or 1,
                        help='how many (default: one for each CPU)')


def seeds(options: argparse.Namespace) -> int:
    """How many there are, of 0 and so on."""
    return min(options.seeds, 2) if options.quick else int(options.seeds)


def scenario(name: str, is_short: bool = False, smaller: int = 1) -> Scenario:
    """A scenario by its name.

    :param is_short: with few hosts, to see that it works
    :param smaller: of how many times fewer hosts
    """
    make, count, few = _MAKERS[name]
    return make(few if is_short else max(1, count // smaller))
