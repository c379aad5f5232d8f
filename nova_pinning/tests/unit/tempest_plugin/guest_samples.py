# SPDX-License-Identifier: Apache-2.0
"""Guests to look at: domain XML, /proc and the objects read from them."""

import dataclasses

from nova_pinning import cpuset
from nova_pinning.host import domain_xml
from nova_pinning.host import qemu_process
from nova_pinning.tempest_plugin import guest_look
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tempest_plugin import machine
from nova_pinning.tempest_plugin import topology

UUID = '0f1c2b9e-3a57-4c11-9d5e-6f2a7b8c9d01'

OTHER = domain_xml.ThreadScheduler('other')
FIFO = domain_xml.ThreadScheduler('fifo', 1)


def cpus(text):
    return cpuset.CpuSet.parse(text)


# Two sockets of two cores with two threads each, a node per socket.
MACHINE = machine.ComputeMachine(
    online=cpus('0-7'),
    cores=(cpus('0-1'), cpus('2-3'), cpus('4-5'), cpus('6-7')),
    nodes={0: cpus('0-3'), 1: cpus('4-7')},
    free_pages={(0, 2048): 32, (1, 2048): 0},
    can_lock_memory=True, can_run_realtime=True)

SETS = hosts.CpuSets(dedicated=cpus('2-7'), shared=cpus('0-1'))


def thread(tid, name, where, scheduler=OTHER):
    return qemu_process.QemuThread(tid, name, cpus(where), scheduler)


def dedicated():
    """A guest of two pinned vCPUs, all of it as it should be.

    :returns: look.Guest, topology.Topology
    """
    xml = domain_xml.DomainXml(
        uuid=UUID, name='instance-00000001', vcpus=2, floats_over=cpus(''),
        vcpu_pins={0: cpus('4'), 1: cpus('5')}, emulator_pin=cpus('4-5'),
        iothreads=1, iothread_pins={1: cpus('4-5')}, vcpu_schedulers={},
        topology=domain_xml.DomainTopology(1, 1, 2),
        cells=(domain_xml.DomainCell(0, cpus('0-1'), 65536, cpus('1'),
                                     'strict'),),
        memory_nodes=cpus('1'), memory_mode='strict', huge_pages=(),
        locked=False, shares=None, period=None, quota=None,
        hostdevs=frozenset(), interfaces=(), iotunes={})
    qemu = qemu_process.QemuProcess(
        pid=100,
        vcpus={0: thread(103, 'CPU 0/KVM', '4'),
               1: thread(104, 'CPU 1/KVM', '5')},
        iothreads={1: thread(102, 'IO iothread1', '4-5')},
        emulator=(thread(100, 'qemu-system-x86', '4-5'),
                  thread(101, 'call_rcu', '4-5')),
        vhost=(thread(110, 'vhost-100', '4-5'),),
        locked_kib=0,
        regions=(qemu_process.MemoryRegion(cpus('1'), {1: 100}, 4),))
    kept = topology.ServerTopology(
        (topology.ServerCell(1, cpus('0-1'), 64, {0: 4, 1: 5}),), None)
    return guest_look.ObservedGuest(xml, xml, qemu), kept


def shared():
    """The same for a guest of two vCPUs that float."""
    guest, _kept = dedicated()
    xml = dataclasses.replace(
        guest.live, floats_over=cpus('0-1'), vcpu_pins={}, emulator_pin=None,
        iothread_pins={}, cells=(), memory_nodes=cpus(''), memory_mode='')
    qemu = dataclasses.replace(
        guest.qemu,
        vcpus={0: thread(103, 'CPU 0/KVM', '0-1'),
               1: thread(104, 'CPU 1/KVM', '0-1')},
        iothreads={1: thread(102, 'IO iothread1', '0-1')},
        emulator=(thread(100, 'qemu-system-x86', '0-1'),), vhost=(),
        regions=())
    return guest_look.ObservedGuest(xml, xml, qemu), topology.ServerTopology(
        (), None)


def change_xml(guest, **changes):
    """The guest with other domain XML, now and at the next start."""
    xml = dataclasses.replace(guest.live, **changes)
    return dataclasses.replace(guest, live=xml, persistent=xml)


def change_qemu(guest, **changes):
    return dataclasses.replace(
        guest, qemu=dataclasses.replace(guest.qemu, **changes))


def proc(pid, threads, vhost=(), regions=(), locked_kib=0):
    """What the script prints of a QEMU.

    :param threads: (tid, name, CPU list, policy number, priority) each
    :param vhost: the same, for processes of their own
    :param regions: lines of numa_maps
    """
    lines = []
    for tid, name, where, policy, priority in threads:
        lines += _task(f'/proc/{pid}/task/{tid}', tid, name, where, policy,
                       priority)
        lines.append(f'/proc/{pid}/task/{tid}/status:VmLck:\t'
                     f'{locked_kib:8} kB')
    lines += [f'/proc/{pid}/numa_maps:{line}' for line in regions]
    for tid, name, where, policy, priority in vhost:
        lines += _task(f'/proc/{tid}', tid, name, where, policy, priority)
    return '\n'.join(lines)


def _task(path, tid, name, where, policy, priority):
    # Fields 3 to 52 of proc(5), most of them without interest here.
    fields = ['S'] + ['0'] * 49
    fields[37], fields[38] = str(priority), str(policy)
    return [f'{path}/stat:{tid} ({name}) {" ".join(fields)}',
            f'{path}/status:Cpus_allowed_list:\t{where}']
