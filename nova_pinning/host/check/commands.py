# SPDX-License-Identifier: Apache-2.0
"""Commands that put right what a check finds, as a shell takes them."""

from collections.abc import Iterable
from collections.abc import Iterator
import shlex

from nova_pinning import cpuset
from nova_pinning.host.check import facts
from nova_pinning.host import qemu_process


def move_thread(tid: int, cpus: cpuset.CpuSet) -> str:
    """Let a thread run on these CPUs only."""
    return f'taskset -pc {cpus} {tid}'


def move_process(
    process: facts.HostProcess, astray: Iterable[qemu_process.QemuThread],
    cpus: cpuset.CpuSet,
) -> Iterator[str]:
    """Let threads of a process run on these CPUs only.

    :param astray: the threads to move
    """
    tids = [thread.tid for thread in astray if thread.may_move]
    if len(tids) == len(process.threads) > 1:
        yield f'taskset -apc {cpus} {process.pid}'
    else:
        yield from (move_thread(tid, cpus) for tid in tids)


def confine_container(
    container: facts.Container, cpus: cpuset.CpuSet,
) -> str:
    """Let all of a container run on these CPUs only."""
    return f'{container.engine} update --cpuset-cpus {cpus} {container.name}'


def pin_vcpu(
    guest: facts.RunningGuest, vcpu: int, cpus: cpuset.CpuSet,
) -> str:
    """Pin a vCPU."""
    if guest.domain is None:
        return move_thread(guest.qemu.vcpus[vcpu].tid, cpus)
    return f'virsh vcpupin {shlex.quote(guest.name)} {vcpu} {cpus} --live'


def pin_emulator(guest: facts.RunningGuest,
                 cpus: cpuset.CpuSet) -> Iterator[str]:
    """Pin all that is neither a vCPU nor an I/O thread."""
    if guest.domain is None:
        for thread in (*guest.qemu.emulator, *guest.qemu.vhost):
            yield move_thread(thread.tid, cpus)
    else:
        yield f'virsh emulatorpin {shlex.quote(guest.name)} {cpus} --live'


def pin_iothread(
    guest: facts.RunningGuest, iothread: int, cpus: cpuset.CpuSet,
) -> str:
    """Pin an I/O thread."""
    if guest.domain is None:
        return move_thread(guest.qemu.iothreads[iothread].tid, cpus)
    return (f'virsh iothreadpin {shlex.quote(guest.name)} {iothread} {cpus} '
            '--live')


def write(path: str, text: object) -> str:
    """Write to a file of the kernel."""
    return f'echo {text} > {path}'


def move_interrupt(number: int, cpus: cpuset.CpuSet) -> str:
    """Have an interrupt arrive on these CPUs only."""
    return write(f'/proc/irq/{number}/smp_affinity_list', cpus)
