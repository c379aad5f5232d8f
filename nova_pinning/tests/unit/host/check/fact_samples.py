# SPDX-License-Identifier: Apache-2.0
"""A host that obeys its plan, and ways to change one thing of it.

It has the CPUs of nova_pinning.tests.unit.host.host_samples: node 0 with the
cores (0, 4) and (1, 5), node 1 with (2, 6) and (3, 7). CPUs 0 and 4 are the
host's, 2 and 6 are shared, the others dedicated.
"""

import dataclasses

from nova_pinning import cpuset
from nova_pinning.host.check import facts
from nova_pinning.host.check import host_check_run
from nova_pinning.host import domain_xml
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import plan_model
from nova_pinning.host import qemu_process
from nova_pinning.tests.unit.host import host_samples

GIB_PAGES = host_samples.GIB_PAGES
NIC = '0000:3b:00.0'
GPU = '0000:af:00.0'
replace = dataclasses.replace


def cpus(text):
    return cpuset.CpuSet.parse(text)


def thread(tid, name, where, **values):
    return qemu_process.QemuThread(
        tid, name, cpus(where), domain_xml.ThreadScheduler('other'), **values)


def process(pid, name, where, unit='', **values):
    """A process with one thread."""
    values = {'arguments': (f'/usr/bin/{name}',),
              'threads': (thread(pid, name, where),)} | values
    return facts.HostProcess(pid, name, unit=unit, **values)


def kernel_thread(pid, name, where, may_move=True):
    return process(pid, name, where, arguments=(), may_move=may_move,
                   threads=(thread(pid, name, where, may_move=may_move),))


def interrupt(number, name, where, effective=None, **values):
    return facts.Interrupt(
        number, (name,), values.pop('device', NIC), cpus(where),
        cpus(where if effective is None else effective), **values)


def sample_domain_xml(name, uuid, pins=(), *, floats_over='', emulator='',
                      node=None, iothread='', hostdev=False, vcpus=2):
    """Domain XML much as libvirt has it.

    :param pins: for each vCPU the CPUs that it is pinned to
    :param node: the NUMA node for all vCPUs and all memory
    """
    tune = ''.join(f'<vcpupin vcpu="{vcpu}" cpuset="{where}"/>'
                   for vcpu, where in enumerate(pins))
    if emulator:
        tune += f'<emulatorpin cpuset="{emulator}"/>'
    if iothread:
        tune += f'<iothreadpin iothread="1" cpuset="{iothread}"/>'
    numa = '' if node is None else f'''
        <numatune><memory mode="strict" nodeset="{node}"/>
          <memnode cellid="0" mode="strict" nodeset="{node}"/></numatune>
        <cpu><numa><cell id="0" cpus="0-{vcpus - 1}" memory="1048576"
          unit="KiB"/></numa></cpu>'''
    floats = f' cpuset="{floats_over}"' if floats_over else ''
    device = '' if not hostdev else f'''
        <hostdev mode="subsystem" type="pci"><source><address
          domain="0x0000" bus="0x{GPU[5:7]}" slot="0x00" function="0x0"/>
        </source></hostdev>'''
    return f'''<domain type="kvm" id="1"><name>{name}</name>
        <uuid>{uuid}</uuid><memory unit="KiB">1048576</memory>
        <vcpu placement="static"{floats}>{vcpus}</vcpu>
        <iothreads>{1 if iothread else 0}</iothreads>
        <cputune>{tune}</cputune>{numa}
        <devices>{device}</devices></domain>'''


def guest(pid, name, vcpus, *, emulator='2,6', node=0, **values):
    """A guest whose threads are where libvirt was told to have them.

    :param vcpus: where each vCPU is pinned to
    """
    known = domain_xml.parse(sample_domain_xml(
        name, f'uuid-{name}', vcpus, emulator=emulator, node=node,
        iothread=emulator, vcpus=len(vcpus)))
    threads = {number: thread(pid + 10 + number, f'CPU {number}/KVM', where)
               for number, where in enumerate(vcpus)}
    qemu = qemu_process.QemuProcess(
        pid, threads, {1: thread(pid + 2, 'IO iothread1', emulator)},
        (thread(pid, 'qemu-kvm', emulator), thread(
            pid + 3, 'worker', emulator)),
        (thread(pid + 4, f'vhost-{pid}', emulator),), 0,
        (qemu_process.MemoryRegion(cpus(str(node)), {node: 2}, GIB_PAGES),))
    return replace(
        facts.RunningGuest(qemu, name, f'uuid-{name}', known), **values)


def shared_guest(pid, name, floats_over='2,6'):
    known = domain_xml.parse(sample_domain_xml(
        name, f'uuid-{name}', floats_over=floats_over))
    where = floats_over or '0-7'
    qemu = qemu_process.QemuProcess(
        pid, {number: thread(pid + 10 + number, f'CPU {number}/KVM', where)
              for number in range(2)}, {},
        (thread(pid, 'qemu-kvm', where),), (), 0,
        (qemu_process.MemoryRegion(cpuset.CpuSet(), {0: 9, 1: 9}, 4),))
    return facts.RunningGuest(qemu, name, f'uuid-{name}', known)


def machine(**values):
    """The machine, as discovery finds it."""
    host = host_samples.host()
    nodes = tuple(
        replace(node, huge_pages={GIB_PAGES: 4, 2048: 0},
                l3_domains=(node.cpus,)) for node in host.nodes)
    values = {'nodes': nodes} | values
    return replace(host, **{
        'pci_devices': (
            host_model.PciDevice(NIC, '8086', '1572', 0, '',
                                 hardware.PciKind.NIC,
                                 names=('eth0',)),
            host_model.PciDevice(GPU, '10de', '1eb8', 1)),
        'system': hardware.System(
            smt='on', has_iommu=True,
            governors={'performance': cpus('0-7')})} | values)


def planned(**values):
    """The machine with its plan."""
    host = machine()
    nodes = tuple(replace(node, huge_pages={GIB_PAGES: 4})
                  for node in host.nodes)
    nic, gpu = host.pci_devices
    return replace(
        host, nodes=nodes, pci_devices=(nic, replace(gpu, alias='t4')),
        nova=host_samples.settings('1,3,5,7', '2,6', reserved_memory_mib=2048),
        plan=plan_model.HostPlan(
            plan_model.Purpose.BOTH, cpus('0,4'),
            offer=plan_model.Offer((), {}), page_size_kib=GIB_PAGES,
            interrupts=(
                plan_model.Interrupts(NIC, 'eth0', cpus('0,4')),),
            levers={'stat_interval': '10'}), **values)


def right_facts(**values):
    """All as it was planned."""
    return replace(facts.HostFacts(
        host=machine(),
        processes=(
            process(1, 'systemd', '0,4', 'init.scope'),
            process(100, 'nova-compute', '0,4', 'nova-compute.service'),
            # A thread of io_uring, which nobody can move.
            process(101, 'worker', '0,4', threads=(
                thread(101, 'worker', '0,4'),
                thread(102, 'iou-wrk-101', '0-7', may_move=False))),
            # Where floating guests are, host processes may be as well.
            process(103, 'sshd', '0,2,4,6', 'ssh.service'),
            kernel_thread(2, 'kthreadd', '0,4'),
            kernel_thread(18, 'migration/1', '1', may_move=False),
            kernel_thread(50, 'irq/24-acpi', '0,4')),
        guests=(guest(1000, 'a', ('1', '5')),
                guest(2000, 'b', ('3', '7'), node=1),
                shared_guest(3000, 'c')),
        interrupts=(
            interrupt(30, 'eth0-rx-0', '0'), interrupt(31, 'eth0-rx-1', '4'),
            interrupt(9, 'acpi', '0,4', '0', device='')),
        default_interrupt_cpus=cpus('0,4'), workqueue_cpus=cpus('0,4'),
        free_pages={(0, GIB_PAGES): 2, (1, GIB_PAGES): 2, (0, 2048): 0},
        nova_conf=facts.NovaConf(
            ('/etc/nova/nova.conf',), planned().nova)), **values)


def view(seen=None, plan=None):
    return facts.CheckedHost(plan or planned(), seen or right_facts())


def find(seen=None, plan=None):
    """All findings."""
    return host_check_run.findings(view(seen, plan))


def codes(seen=None, plan=None):
    """The codes of all findings, each once."""
    return sorted({finding.code for finding in find(seen, plan)})
