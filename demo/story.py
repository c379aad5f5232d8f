# SPDX-License-Identifier: Apache-2.0
"""The demo's story: two kinds of host, two kinds of guest, two refusals.

Importing this module imports most of nova, which takes seconds.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

from demo import cloud
from demo import hosts
from demo import outcome
from nova_pinning.bridge import topology
from nova_pinning import cpuset
from nova_pinning import fit
from nova_pinning.host import domain_xml
from nova_pinning.host import host_model
from nova_pinning import model

DEDICATED_HOST = 'compute-dedicated'
SHARED_HOST = 'compute-shared'

_GIB = 1024  # in MiB

#: A guest with its own host CPU for each vCPU, whole cores, one NUMA
#: cell, and knowing which of its vCPUs share a core.
ENTERPRISE_SPECS = {
    'hw:cpu_policy': 'dedicated',
    'hw:cpu_thread_policy': 'require',
    'hw:numa_nodes': '1',
    'hw:cpu_sockets': '1',
    'hw:cpu_cores': '4',
    'hw:cpu_threads': '2',
}
#: What fits, and how many shared guests the story has: 120 vCPUs, so that
#: the 80 CPUs under them are really sold more than once.
ENTERPRISE_GUESTS = 9
SHARED_GUESTS = 15


class Story:
    """Plays the story on a cloud.

    :param nova: a cloud without hosts
    :param tell: called with a sentence for each part, and with '' after each
        step of it
    """

    def __init__(self, nova: cloud.Cloud,
                 tell: Callable[[str], None]) -> None:
        self._nova = nova
        self._tell = tell
        self._guests: list[outcome.Guest] = []
        self._refused: list[outcome.Refused] = []

    def play(self) -> outcome.Outcome:
        """Tell it from the beginning to the end."""
        self._start_hosts()
        self._fill_dedicated_host()
        self._boot_shared_guests()
        self._ask_for_too_much_memory()
        told = self._hosts()
        guests, refused = tuple(self._guests), tuple(self._refused)
        return outcome.Outcome(
            told, guests, refused, checks(told, guests, refused))

    def _start_hosts(self) -> None:
        self._tell('Starting a dedicated and a shared host')
        self._nova.start_host(DEDICATED_HOST, hosts.enterprise_host())
        self._tell('')
        self._nova.start_host(SHARED_HOST, hosts.shared_host())

    def _fill_dedicated_host(self) -> None:
        flavor = self._nova.create_flavor(
            'enterprise.8c.16g', vcpus=8, memory_mib=16 * _GIB,
            extra_specs=ENTERPRISE_SPECS)
        self._tell('Booting enterprise guests until one is refused')
        # One more than should fit, and a few for when something is wrong, but
        # not forever.
        for number in range(1, ENTERPRISE_GUESTS + 4):
            if not self._boot(
                    f'enterprise-{number}', flavor, 'dedicated',
                    '8 dedicated CPUs on whole cores and 16 GiB, in one NUMA '
                    'cell'):
                break

    def _boot_shared_guests(self) -> None:
        flavor = self._nova.create_flavor(
            'shared.8c.16g', vcpus=8, memory_mib=16 * _GIB)
        self._tell('Booting shared guests of the same size')
        for number in range(1, SHARED_GUESTS + 1):
            self._boot(f'shared-{number}', flavor, 'shared',
                       '8 shared CPUs and 16 GiB')

    def _ask_for_too_much_memory(self) -> None:
        # Placement counts a host as a whole, and as a whole it has all of
        # this: 4 CPUs and far more memory. The cell with the CPUs has not.
        flavor = self._nova.create_flavor(
            'memory.4c.400g', vcpus=4, memory_mib=400 * _GIB,
            extra_specs={'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '1'})
        self._tell('Asking for the last 4 CPUs with 400 GiB')
        self._boot('big-memory', flavor, 'dedicated',
                   '4 dedicated CPUs and 400 GiB, in one NUMA cell')

    def _boot(self, name: str, flavor: str, kind: str, asks: str) -> bool:
        """Boot a guest, and take down what came of it.

        :returns: whether it runs
        """
        server = self._nova.boot(name, flavor)
        runs = server.status == 'ACTIVE' and server.host is not None
        if runs:
            self._guests.append(outcome.Guest(
                name, kind, server.host or '', self._nova.guest_xml(server)))
        else:
            self._refused.append(outcome.Refused(
                name, asks, server.fault or '',
                dict(self._reasons(server, kind))))
        self._tell('')
        return runs

    def _reasons(self, server: cloud.Server,
                 kind: str) -> Iterator[tuple[str, str]]:
        """Why a server was refused, by who says so: filters, or the engine.

        Placement gives no reasons. Of a host that it kept from the filters
        the engine is asked.
        """
        told = [message for message in self._nova.explanations
                if server.id in message]
        for message in told:
            yield 'the filters', message.replace(
                f'instance {server.id}', server.name)
        host = DEDICATED_HOST if kind == 'dedicated' else SHARED_HOST
        refusal = self._ask_engine(host, server)
        if refusal is not None and not any(
                host in message for message in told):
            yield 'the engine', (
                f'on {host}, which Placement does not offer: {refusal}')

    def _ask_engine(self, host: str,
                    server: cloud.Server) -> model.Refusal | None:
        asked = self._nova.requested_topology(server)
        if asked is None:
            return None
        answer = fit.fit_guest(
            topology.host_from_nova(self._nova.host_topology(host)),
            topology.guest_from_nova(asked))
        return answer if isinstance(answer, model.Refusal) else None

    def _hosts(self) -> tuple[host_model.HostDescription, ...]:
        return tuple(host_model.HostDescription(
            name, shape.cells, nova=host_model.NovaSettings(
                cpuset.CpuSet.parse(shape.dedicated or ''),
                cpuset.CpuSet.parse(shape.shared or ''),
                shape.cpu_allocation_ratio))
            for name, shape in self._nova.shapes.items())


def checks(
    told: Iterable[host_model.HostDescription],
    guests: Iterable[outcome.Guest], refused: Sequence[outcome.Refused],
) -> dict[str, bool]:
    """What the story promised, and whether it came out like that."""
    dedicated = [guest for guest in guests if guest.kind == 'dedicated']
    shared = [guest for guest in guests if guest.kind == 'shared']
    cores = {frozenset(core) for host in told
             for node in host.nodes for core in node.cores}
    return {
        'nine enterprise guests fill the dedicated host, a tenth finds no '
        'room': [guest.host for guest in dedicated] == (
            [DEDICATED_HOST] * ENTERPRISE_GUESTS) and any(
                one.name == f'enterprise-{ENTERPRISE_GUESTS + 1}'
                for one in refused),
        'each of their vCPUs has one host CPU, and no two have the same': all(
            len(one.cpus) == len(one.placed.vcpu_pins) == one.placed.vcpus
            for one in dedicated) and all(
                len(cpus) == 1 for one in dedicated
                for cpus in one.placed.vcpu_pins.values()) and
        sum(len(one.cpus) for one in dedicated) == len(
            cpuset.union(one.cpus for one in dedicated)),
        'each has one NUMA cell and whole cores, which it sees as such': all(
            len(one.host_cells) == 1 and
            one.placed.topology == domain_xml.DomainTopology(1, 4, 2) and
            _pairs(one.placed.vcpu_pins) <= cores for one in dedicated),
        'all shared guests float on the shared host, none is pinned':
        [guest.host for guest in shared] == [SHARED_HOST] * SHARED_GUESTS and
        not any(guest.placed.vcpu_pins for guest in shared),
        'two guests are refused, and the reasons say what is missing where':
        len(refused) == 2 and all(
            any('needed' in why for why in one.reasons.values())
            for one in refused)}


def _pairs(
    pins: Mapping[int, cpuset.CpuSet],
) -> set[frozenset[int]]:
    """The host CPUs of vCPUs 0 and 1, of 2 and 3, and so on."""
    cpus = [frozenset(pins[vcpu]) for vcpu in sorted(pins)]
    return {frozenset().union(*pair) for pair in zip(cpus[::2], cpus[1::2])}
