# SPDX-License-Identifier: Apache-2.0
"""A compute host that answers commands, those of virsh above all."""

XML = """
<domain type='qemu' id='1'>
  <name>instance-00000001</name>
  <uuid>8f3b7a55-6c1e-4f0e-9d0c-2f3b0d1f8c11</uuid>
  <vcpu placement='static'{floats}>2</vcpu>
  <cputune>{pins}</cputune>
</domain>
"""
PINS = ("<vcpupin vcpu='0' cpuset='2'/><vcpupin vcpu='1' cpuset='5'/>"
        "<emulatorpin cpuset='2,5'/>")
VERSION = """\
Compiled against library: libvirt 9.0.0
Using library: libvirt 9.0.0
Using API: QEMU 9.0.0
Running hypervisor: QEMU 7.2.22

"""


def stat(tid, name):
    return (f'{tid} ({name}) S 1 1 1 0 -1 64 0 0 0 0 0 0 0 0 20 0 1 0 1 1 1 '
            f'1 1 1 1 1 1 0 0 0 0 0 0 0 17 1 0 0 0 0 0')


class VirshHost:
    """Answers as a compute host would."""

    def __init__(self, floats='', pins=PINS, threads=()):
        self.xml = XML.format(floats=floats, pins=pins)
        self.threads = threads
        self.commands = []

    def __call__(self, command, *_how):
        self.commands.append(list(command))
        if 'dumpxml' in command:
            return self.xml
        if 'version' in command:
            return VERSION
        return '0-7\n' + ''.join(
            f'{cpus} {stat(tid, name)}\n'
            for tid, (name, cpus) in enumerate(self.threads, 10))


def seen(affinities):
    return [(affinity.thread, str(affinity.asked), str(affinity.seen),
             affinity.is_in_force) for affinity in affinities]
