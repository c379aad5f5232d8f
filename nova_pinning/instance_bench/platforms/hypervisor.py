# SPDX-License-Identifier: Apache-2.0
"""The libvirt and the kernel of a compute host, and where a domain runs."""

import dataclasses
import os
import shlex

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import domain_xml
from nova_pinning.host import qemu_process
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import settings

#: Programs that have a shell of the other side read what they are to run.
_WITH_SHELL = ('ssh', 'autossh')

#: Prints the host's CPUs, and a line with the CPUs of each thread of a QEMU
#: before its /proc/PID/task/TID/stat.
_THREADS = r"""
cat /sys/devices/system/cpu/online &&
pid=$(cat /run/libvirt/qemu/{name}.pid) &&
cd "/proc/$pid/task" || exit
for tid in *; do
    cpus=$(sed -n 's/^Cpus_allowed_list:\s*//p' "$tid/status") &&
    stat=$(cat "$tid/stat") && echo "$cpus $stat"
done 2>/dev/null
true
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ComputeHypervisor:
    """A compute host.

    :param prefix: command that runs others on it, empty if it is this one
    :param connect: libvirt's URI
    """

    prefix: tuple[str, ...]
    connect: str

    @property
    def virsh(self) -> tuple[str, ...]:
        """How virsh is called; arguments after it go through word()."""
        return (*self.prefix, *map(self.word, (
            'virsh', '--connect', self.connect)))

    def word(self, text: str) -> str:
        """An argument as what is behind the prefix has to be given it.

        ssh puts a line together, and has a shell there take it apart.
        """
        is_ssh = (bool(self.prefix)
                  and os.path.basename(self.prefix[0]) in _WITH_SHELL)
        return shlex.quote(text) if is_ssh else text

    def call(self, *words: str, seconds: float = 60.0) -> str:
        """Have virsh do something.

        :returns: what it printed
        :raises bench_errors.InstanceError: if it fails
        """
        return process.run((*self.virsh, *map(self.word, words)), seconds,
                           self.virsh[0])

    def version(self) -> str:
        """QEMU's: '7.2.15'.

        :raises bench_errors.InstanceError: if libvirt cannot be reached
        """
        return next((line.split()[-1]
                     for line in self.call('version').splitlines()
                     if line.startswith('Running hypervisor:')), '')

    def definition(self, name: str) -> domain_xml.DomainXml:
        """What libvirt says of a domain that runs.

        :raises bench_errors.InstanceError: if there is none
        """
        text = self.call('dumpxml', name)
        try:
            return domain_xml.parse(text)
        except ValueError as error:
            raise bench_errors.InstanceError(
                f'the XML of domain {name}: {error}') from error

    def affinities(
        self, definition: domain_xml.DomainXml,
    ) -> tuple[bench_model.Affinity, ...]:
        """Where the kernel lets a domain's threads run.

        :param definition: says where they should be
        :raises bench_errors.InstanceError: if the host does not answer
        """
        script = _THREADS.format(name=shlex.quote(definition.name))
        lines = process.run((*self.prefix, 'sh', '-c',
                             self.word(script))).splitlines()
        online = cpuset.CpuSet.parse(lines[0])
        found = qemu_process.qemu_process_of(
            0, (_thread(line) for line in lines[1:]), 0, ())
        return (*(bench_model.Affinity(
            thread=f'vCPU {number}',
            asked=definition.vcpu_affinity(number) or online,
            seen=found.vcpus[number].cpus if number in found.vcpus
            else cpuset.CpuSet()) for number in range(definition.vcpus)),
            bench_model.Affinity(
                thread='emulator', asked=definition.emulator_pin
                or definition.floats_over or online,
                seen=cpuset.union(thread.cpus for thread in found.emulator)))


def _thread(line: str) -> qemu_process.QemuThread:
    cpus, _blank, stat = line.partition(' ')
    return qemu_process.parse_thread(stat, cpuset.CpuSet.parse(cpus))


def of_host(how: settings.PlatformSettings, name: str) -> ComputeHypervisor:
    """The compute host of a name, as the settings say it is reached.

    :raises nova_pinning.errors.InputError: if they are not a command
    """
    try:
        parts = shlex.split(how.hypervisor)
    except ValueError as error:
        raise errors.InputError(
            f'{how.hypervisor!r} is not a command: {error}',
            errors.Location('--hypervisor')) from None
    return ComputeHypervisor(
        prefix=tuple(part.replace('{host}', name) for part in parts),
        connect=how.connect)
