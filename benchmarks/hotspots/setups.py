# SPDX-License-Identifier: Apache-2.0
"""What is compared, and where; readable without importing nova."""

import dataclasses
from typing import Any
from typing import NamedTuple

MIB_PER_VCPU = 4096
#: The shape of the hosts, in nova_pinning.fleet.shapes.
SHAPE = 'two-socket-80'
_NOVA_WEIGHERS = 'nova.scheduler.weights.all_weighers'
_NOVA_FILTERS = 'nova.scheduler.filters.all_filters'


class Guest(NamedTuple):
    """A flavor on sale.

    :param cells: NUMA cells of the guest
    :param weight: how many are asked for, relative to the others
    """

    vcpus: int
    weight: int
    policy: str = 'prefer'
    cells: int = 1

    @property
    def memory_mib(self) -> int:
        return self.vcpus * MIB_PER_VCPU

    @property
    def extra_specs(self) -> dict[str, str]:
        return {'hw:cpu_policy': 'dedicated',
                'hw:cpu_thread_policy': self.policy,
                'hw:numa_nodes': str(self.cells)}


GUESTS = (
    Guest(2, 30), Guest(4, 25), Guest(8, 10), Guest(8, 10, 'require'),
    Guest(16, 8), Guest(16, 7, 'require'), Guest(16, 10, cells=2))


@dataclasses.dataclass(frozen=True, slots=True)
class Setup:
    """How all nova-schedulers are set up.

    :param ours: with the filters and weighers of this project, and nova's
        set as doc/source/admin/scheduling-study.rst says; or nova alone
    :param subset_size: [filter_scheduler] host_subset_size
    :param shuffles: [filter_scheduler] shuffle_best_same_weighed_hosts
    """

    ours: bool
    subset_size: int = 1
    shuffles: bool = False

    @property
    def name(self) -> str:
        return ' '.join([
            'ours' if self.ours else 'nova', str(self.subset_size),
            *(['shuffled'] if self.shuffles else ())])

    @property
    def history(self) -> str:
        """Whose weighers have filled the hosts before.

        The name of a configuration in nova_pinning.simulation.
        """
        return 'pinning' if self.ours else 'nova-default'

    @property
    def options(self) -> dict[tuple[str | None, str], Any]:
        """The nova.conf of nova-scheduler and nova-compute."""
        options: dict[tuple[str | None, str], Any] = {
            ('filter_scheduler', 'host_subset_size'): self.subset_size,
            ('filter_scheduler', 'shuffle_best_same_weighed_hosts'):
                self.shuffles,
            ('filter_scheduler', 'available_filters'): [_NOVA_FILTERS],
            ('filter_scheduler', 'enabled_filters'): ['NUMATopologyFilter'],
            ('filter_scheduler', 'weight_classes'): [_NOVA_WEIGHERS],
            ('filter_scheduler', 'track_instance_changes'): False}
        if self.ours:
            options |= {
                ('filter_scheduler', 'available_filters'): [
                    _NOVA_FILTERS,
                    'nova_pinning.scheduler.filters.all_filters'],
                ('filter_scheduler', 'enabled_filters'): [
                    'HostClassFilter', 'PinnedTopologyFilter'],
                ('filter_scheduler', 'weight_classes'): [
                    _NOVA_WEIGHERS,
                    'nova_pinning.scheduler.weights.all_weighers'],
                ('filter_scheduler', 'ram_weight_multiplier'): 0.0,
                ('filter_scheduler', 'cpu_weight_multiplier'): 0.0,
                ('filter_scheduler', 'disk_weight_multiplier'): 0.0,
                ('filter_scheduler', 'pci_weight_multiplier'): 5.0,
                ('compute', 'packing_host_numa_cells_allocation_strategy'):
                    True,
                # An aggregate tells the class of all hosts.
                ('pinning', 'traits_refresh_seconds'): 0}
        return options


NOVA = Setup(ours=False)
OURS = Setup(ours=True)
SETUPS = (NOVA, *(
    Setup(True, subset_size, shuffles)
    for subset_size in (1, 2, 3, 5, 10) for shuffles in (False, True)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is the same for all set-ups.

    :param filled: share of the CPUs that guests have, those under way
        included; others leave to make room for them
    :param processes: nova-schedulers
    :param threads: of each; together with the processes it is how many
        requests are under way at any moment
    """

    hosts: int = 100
    filled: float = 0.85
    requests: int = 160
    processes: int = 4
    threads: int = 10


class Run(NamedTuple):
    """One set-up on one fleet, with one sequence of requests.

    :param seed: the round; the same fleets and requests for all set-ups
    """

    setup: Setup
    scene: Scene
    seed: int
