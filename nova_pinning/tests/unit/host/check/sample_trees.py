# SPDX-License-Identifier: Apache-2.0
"""Files of a make-believe machine under a directory."""

import pathlib

OF_KERNEL = 0x00200000
MUST_STAY = 0x04000000


class Machine:
    """A machine with two CPUs on one node, and no processes yet.

    :param root: a directory that is there
    """

    def __init__(self, root):
        self.root = pathlib.Path(root)
        # It can be seen, but has just ended.
        (self.root / 'proc' / '1').mkdir(parents=True)
        self.write('/proc/meminfo', 'MemTotal:        8388608 kB')
        self.write('/proc/cmdline', 'quiet')
        cpu = '/sys/devices/system/cpu'
        self.write(f'{cpu}/online', '0-1')
        self.write(f'{cpu}/possible', '0-1')
        self.write(f'{cpu}/present', '0-1')
        for number in (0, 1):
            topology = f'{cpu}/cpu{number}/topology'
            self.write(f'{topology}/physical_package_id', '0')
            self.write(f'{topology}/core_id', number)
            self.write(f'{topology}/thread_siblings_list', number)
        node = '/sys/devices/system/node'
        self.write(f'{node}/online', '0')
        self.write(f'{node}/node0/cpulist', '0-1')
        self.write(f'{node}/node0/meminfo', 'Node 0 MemTotal:  8388608 kB')
        self.write(f'{node}/node0/distance', '10')
        self.pages(0, 2048, 8, 5)

    def write(self, path, text):
        file = self.root / path.lstrip('/')
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'{text}\n')
        return file

    def pages(self, node, size_kib, count, free):
        directory = (f'/sys/devices/system/node/node{node}/hugepages/'
                     f'hugepages-{size_kib}kB')
        self.write(f'{directory}/nr_hugepages', count)
        self.write(f'{directory}/free_hugepages', free)

    def thread(self, pid, tid, name, cpus, flags=0, state='S'):
        directory = f'/proc/{pid}/task/{tid}'
        stat = stat_line(tid, name, flags, state)
        self.write(f'{directory}/stat', stat)
        self.write(f'{directory}/status',
                   f'Name:\t{name}\nCpus_allowed_list:\t{cpus}\nMems: 0')
        return stat

    def process(self, pid, name, cpus, *arguments, cgroup='0::/', flags=0,
                threads=(), state='S'):
        """A process; further threads as (tid, name, cpus[, flags])."""
        stat = self.thread(pid, pid, name, cpus, flags, state)
        self.write(f'/proc/{pid}/stat', stat)
        self.write(f'/proc/{pid}/status', 'VmLck:\t      12 kB')
        self.write(f'/proc/{pid}/cgroup', cgroup)
        self.write(f'/proc/{pid}/cmdline',
                   ''.join(f'{argument}\0' for argument in arguments))
        for thread in threads:
            self.thread(pid, *thread)

    def interrupt(self, number, name, cpus, effective=None, device=''):
        self.write(f'/sys/kernel/irq/{number}/actions', name)
        file = self.write(f'/proc/irq/{number}/smp_affinity_list', cpus)
        if effective is not None:
            self.write(
                f'/proc/irq/{number}/effective_affinity_list', effective)
        if device:
            self.write(
                f'/sys/bus/pci/devices/{device}/msi_irqs/{number}', 'msix')
        return file

    def guest(self, name, pid, xml, vcpus, state='running',
              reason='booted'):
        """libvirt's record of a running domain.

        :param vcpus: threads by vCPU
        """
        threads = ''.join(f"<vcpu id='{vcpu}' pid='{tid}'/>"
                          for vcpu, tid in vcpus.items())
        self.write(
            f'/run/libvirt/qemu/{name}.xml',
            '<!--\nWARNING: THIS IS AN AUTO-GENERATED FILE.\n-->\n'
            f"<domstatus state='{state}' reason='{reason}' pid='{pid}'>"
            f'<vcpus>{threads}</vcpus>{xml}</domstatus>')


def stat_line(tid, name, flags=0, state='S', started=0):
    """/proc/PID/stat."""
    fields = [state, 1, tid, tid, 0, -1, flags, *[0] * 12, started, *[0] * 15,
              17, 1, 0, 0]
    return f'{tid} ({name}) {" ".join(map(str, fields))}'
