# SPDX-License-Identifier: Apache-2.0
"""A made-up host with 1,000 guests, and rounds of the agent over it.

Its files are in a directory, laid out as libvirt and Linux have them, before
6.4 or from then on; the CPUs of its threads are in memory. So what is timed is
the agent's own work and reading files.
"""

import pathlib
import time

from nova_pinning.agent import actuators
from nova_pinning.agent import agent_model
from nova_pinning.agent import decision
from nova_pinning.agent import host_agent
from nova_pinning.agent import kernel_files
from nova_pinning.agent import running_guests
from nova_pinning import cpuset
from nova_pinning.host import agent_record

#: Before vhost's threads were those of the process that they work for, and
#: since.
KERNELS = ('6.1.0', '6.8.0')
GUESTS = 1000
_OTHERS = 500
_VCPUS = 2
_XML = '''
<domstatus state='running' pid='{pid}'>
<domain type='kvm' id='{number}'><name>instance-{number:08x}</name>
  <uuid>{uuid}</uuid><metadata>
    <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:package version="31.0.0"/><nova:name>vm-{number}</nova:name>
      <nova:creationTime>2026-11-26 00:00:00</nova:creationTime>
      <nova:flavor name="small"><nova:memory>2048</nova:memory>
        <nova:vcpus>2</nova:vcpus><nova:extraSpecs>
        <nova:extraSpec name="hw:cpu_policy">shared</nova:extraSpec>
      </nova:extraSpecs></nova:flavor></nova:instance></metadata>
  <memory unit='KiB'>2097152</memory><vcpu placement='static'>2</vcpu>
  <cputune><shares>200</shares>{pins}</cputune>
  <os><type arch='x86_64' machine='pc-q35-8.2'>hvm</type></os>
  <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>{others}
    <interface type='bridge'><mac address='fa:16:3e:00:00:01'/>
      <target dev='tap{number}'/><model type='virtio'/></interface>
  </devices></domain></domstatus>
'''
# What a domain has besides, and the agent passes over.
_OTHER = '''
<controller type='pci' index='{0}' model='pcie-root-port'>
  <model name='pcie-root-port'/><target chassis='{0}' port='0x{0:x}'/>
  <alias name='pci.{0}'/><address type='pci' domain='0x0000' bus='0x00'
  slot='0x02' function='0x0' multifunction='on'/></controller>
'''


class _Domain:
    """A guest that libvirt has started."""

    def __init__(self, number: int, cpus: cpuset.CpuSet) -> None:
        self.number, self.pid = number, 100_000 + 10 * number
        self.uuid = f'00000000-0000-4000-8000-{number:012x}'
        self.cpus = cpus
        pins = ''.join(f"<vcpupin vcpu='{vcpu}' cpuset='{cpus}'/>"
                       for vcpu in range(_VCPUS))
        self.xml = _XML.format(
            number=number, pid=self.pid, uuid=self.uuid,
            others=''.join(map(_OTHER.format, range(1, 26))),
            pins=f"{pins}<emulatorpin cpuset='{cpus}'/>")


class Rounds:
    """The host, and the agent on it.

    :param host: its CPUs
    :param directory: an empty one, for its files
    """

    def __init__(self, kernel: str, host: agent_model.AgentHost,
                 directory: pathlib.Path) -> None:
        dedicated = sorted(host.dedicated_cpus)
        # As the kernel's answer comes from os.sched_getaffinity().
        self._threads: dict[int, frozenset[int]] = {}
        self._root = directory
        self._write('proc/sys/kernel/osrelease', kernel)
        for number in range(1, _OTHERS):
            self._write(f'proc/{number}/comm', f'kworker/{number}')
            self._write(f'proc/{number}/cmdline', '')
        for number in range(1, GUESTS + 1):
            self._add(_Domain(number, cpuset.CpuSet(
                [dedicated[number // 2 % len(dedicated)]]
                if number % 2 else host.shared_cpus)),
                is_inside=kernel == KERNELS[-1])
        files = kernel_files.WritableTree(directory)
        source = running_guests.RunningGuests(files)
        record = str(directory / 'agent.json')
        self._agent = host_agent.HostAgent(
            host, decision.Scheme(), files,
            source, agent_record.AgentRecord(),
            lambda changed: agent_record.save(changed, record),
            settings=actuators.Actuators(
                files, self._threads.__getitem__,
                lambda tid, cpus: self._threads.__setitem__(
                    tid, frozenset(cpus))))

    def seconds(self) -> float:
        """CPU time of a round."""
        started = time.process_time()
        done = self._agent.reconcile()
        assert len(done.guests) == GUESTS and not done.trouble, done.trouble
        return time.process_time() - started

    def _add(self, domain: _Domain, is_inside: bool) -> None:
        pid = domain.pid
        names = {pid: 'qemu-system-x86', pid + 1: 'IO mon_iothread',
                 **{pid + 2 + vcpu: f'CPU {vcpu}/KVM'
                    for vcpu in range(_VCPUS)}}
        vhost = pid + 8
        if is_inside:
            names[vhost] = f'vhost-{pid}'
        else:
            self._write(f'proc/{vhost}/comm', f'vhost-{pid}')
            self._write(f'proc/{vhost}/cmdline', '')
        for tid, name in names.items():
            task = f'proc/{pid}/task/{tid}'
            self._write(f'{task}/comm', name)
            self._write(f'{task}/schedstat', '1000000 0 10')
        self._threads |= dict.fromkeys((*names, vhost), frozenset(domain.cpus))
        self._write(f'proc/{pid}/comm', names[pid])
        self._write(f'proc/{pid}/cmdline',
                    f'/usr/bin/qemu\0-uuid\0{domain.uuid}\0-smp\0002\0')
        group = f'/machine.slice/qemu-{domain.number}.scope/libvirt'
        self._write(f'proc/{pid}/cgroup', f'0::{group}/emulator')
        self._write(f'sys/fs/cgroup{group}/memory.numa_stat',
                    'anon N0=1073741824 N1=0\nfile N0=0 N1=0')
        self._write(f'sys/fs/cgroup{group}/emulator/cpuset.cpus',
                    str(domain.cpus))
        self._write(f'run/libvirt/qemu/instance-{domain.number:08x}.xml',
                    domain.xml)
        for name in 'rx_bytes', 'tx_bytes':
            self._write(f'sys/class/net/tap{domain.number}/statistics/{name}',
                        '1000')

    def _write(self, path: str, text: str) -> None:
        file = self._root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'{text}\n')
