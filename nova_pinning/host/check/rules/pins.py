# SPDX-License-Identifier: Apache-2.0
"""What the threads of guests are pinned to, and what belongs to whom.

What libvirt was told counts for what is meant; what the kernel says for what
is. Where libvirt was told nothing, or may not be asked, both are the same.
"""

from collections.abc import Iterator
import dataclasses

from nova_pinning import cpuset
from nova_pinning.host.check import facts
from nova_pinning.host import qemu_process

NO_CPUS = cpuset.CpuSet()


def subject(guest: facts.RunningGuest) -> str:
    """A guest as findings name it."""
    return f'guest {guest.name}'


def recorded(guest: facts.RunningGuest, vcpu: int) -> cpuset.CpuSet:
    """Where libvirt was told to let a vCPU run; empty for anywhere."""
    return guest.domain.vcpu_affinity(vcpu) if guest.domain else NO_CPUS


def meant(
    view: facts.CheckedHost, guest: facts.RunningGuest, vcpu: int,
    thread: qemu_process.QemuThread,
) -> cpuset.CpuSet:
    """The online CPUs that a vCPU is meant to run on."""
    if guest.domain is None:
        return thread.cpus & view.online_cpus
    return (recorded(guest, vcpu) & view.online_cpus) or view.online_cpus


def floats_over_one(view: facts.CheckedHost, cpus: cpuset.CpuSet) -> bool:
    """Whether a single CPU is all that a vCPU has to float over.

    Nova confines guests with a NUMA topology to the shared CPUs of a node.
    """
    return bool(cpus) and cpus.issubset(view.shared_cpus) and any(
        cpus == view.shared_cpus & domain for domain in (
            view.online_cpus, *(node.cpus for node in view.facts.host.nodes)))


def held(view: facts.CheckedHost, guest: facts.RunningGuest) -> cpuset.CpuSet:
    """The CPUs that a guest has for itself: those its vCPUs are pinned to."""
    held_cpus = NO_CPUS
    for vcpu, thread in guest.qemu.vcpus.items():
        for cpus in (meant(view, guest, vcpu, thread),
                     thread.cpus & view.online_cpus):
            if len(cpus) == 1 and not floats_over_one(view, cpus):
                held_cpus |= cpus
    return held_cpus


def not_for(view: facts.CheckedHost,
            guest: facts.RunningGuest) -> cpuset.CpuSet:
    """The dedicated and poll CPUs that a guest's other threads must leave.

    Isolated emulator threads have a dedicated CPU of their own from nova.
    """
    taken = view.taken_cpus & view.online_cpus
    own = held(view, guest)
    emulator = (_emulator_cpus(guest) & view.dedicated_cpus) - own
    if own and emulator:
        everybody_else = cpuset.union(
            held(view, other) for other in view.facts.guests
            if other is not guest)
        own |= emulator - everybody_else
    return taken - own


def own_of_units(view: facts.CheckedHost) -> dict[str, cpuset.CpuSet]:
    """The dedicated CPUs that are a guest's own, by its scope.

    Helpers of a guest run where its emulator threads do.
    """
    return {guest.unit: view.taken_cpus - not_for(view, guest)
            for guest in view.facts.guests
            if guest.unit.startswith('machine-')}


def _emulator_cpus(guest: facts.RunningGuest) -> cpuset.CpuSet:
    """Where emulator threads are meant to be; empty if that is not known."""
    if guest.domain is not None:
        return guest.domain.emulator_pin or NO_CPUS
    cpus = cpuset.union(thread.cpus for thread in guest.qemu.emulator)
    return cpus if len(cpus) == 1 else NO_CPUS


@dataclasses.dataclass(frozen=True, slots=True)
class Other:
    """A thread of a guest that is not a vCPU.

    :param kind: 'emulator', 'I/O' or 'vhost'
    :param iothread: libvirt's number of an I/O thread
    :param pin: the online CPUs that libvirt was told, empty if none
    :param is_as_told: whether it may run there and nowhere else
    """

    kind: str
    thread: qemu_process.QemuThread
    iothread: int | None
    pin: cpuset.CpuSet
    is_as_told: bool

    def evidence(self, pid: int,
                 expected: cpuset.CpuSet) -> facts.HostEvidence:
        return facts.HostEvidence(
            pid=pid, tid=self.thread.tid, name=self.thread.name,
            cpus=self.thread.cpus, expected_cpus=expected)


def others(view: facts.CheckedHost,
           guest: facts.RunningGuest) -> Iterator[Other]:
    """All threads of a guest but its vCPUs."""
    domain = guest.domain
    online = view.online_cpus
    anywhere = domain.floats_over if domain else NO_CPUS
    emulator = anywhere
    if domain and domain.emulator_pin is not None:
        emulator = domain.emulator_pin
    emulator &= online
    pins = domain.iothread_pins if domain else {}
    pins = {number: pins.get(number, anywhere) & online
            for number in guest.qemu.iothreads}
    for number, thread in guest.qemu.iothreads.items():
        yield Other('I/O', thread, number, pins[number],
                    _agree(thread.cpus & online, pins[number]))
    for thread in guest.qemu.emulator:
        # Threads that an I/O thread starts stay on its CPUs.
        cpus = thread.cpus & online
        is_as_told = (
            _agree(cpus, emulator) or cpus in pins.values()
            or thread.is_for_memory and cpus.issubset(emulator)
            or _by_agent(view, guest, thread))
        yield Other('emulator', thread, None, emulator, is_as_told)
    for thread in guest.qemu.vhost:
        # Those of older kernels are confined, but not pinned.
        cpus = thread.cpus & online
        yield Other('vhost', thread, None, emulator,
                    not emulator or cpus.issubset(emulator)
                    or _by_agent(view, guest, thread))


def _by_agent(view: facts.CheckedHost, guest: facts.RunningGuest,
              thread: qemu_process.QemuThread) -> bool:
    """Whether nova-pinning agent has put a thread where it is."""
    return view.facts.agent.has_moved(guest.qemu.pid, thread.cpus)


def _agree(cpus: cpuset.CpuSet, pin: cpuset.CpuSet) -> bool:
    return not pin or cpus == pin
