#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The page of the documentation that lists all rules of the host check."""

from collections.abc import Iterator
import json
import textwrap

from nova_pinning import cpuset
from nova_pinning.flavors.checks import reference
from nova_pinning.host.check import commands
from nova_pinning.host.check import finding
from nova_pinning.host.check import report
from nova_pinning.host.check import rule
from nova_pinning.host.check import run

GROUPS = {
    'H1': 'nova.conf',
    'H2': 'The machine and its kernel',
    'H3': 'Services and other processes',
    'H4': 'Interrupts',
    'H5': 'Huge pages',
    'H6': 'Guests',
    'H7': 'While it was watched',
}
_INTRODUCTION = """\
Host checks
===========

.. Generated from the rules in nova_pinning/host/check: this page is the
   output of python -m nova_pinning.host.check

``nova-pinning host check`` compares a host with its plan: nova.conf as
nova-compute loads it, the machine and its kernel, all threads, interrupts,
huge pages, and each running guest. It lists what differs, what that breaks,
and the commands that mend it. It changes nothing itself.

An *error* breaks what guests were promised, now or at the next boot. A
*warning* is a risk to it. A *note* is worth knowing. The exit status is 1 if
there is an error or a warning (``--fail-on`` names another severity), 0 if
there is none, and 2 if the input cannot be used. A code is never given to
another rule; some rules are milder or more severe than is said here where the
case is clear.

What is one problem is one finding: six hundred threads that nobody has
confined are a single H301, each of them part of its evidence. Commands work
at once and last until a service, a guest or the host is started again; what
to do for good is told beside them. Where libvirt runs in a container,
``virsh`` is to be run in there.

What belongs where
------------------

Whoever may run on a dedicated CPU or a poll CPU without being meant to is
found, whether or not it does at that moment: what a thread may do is known at
once, what it does only after a while of ``--watch``. Threads on shared CPUs
are nobody's business. Nothing is said of threads that the kernel binds to a
CPU for its own ends.

Of a guest, libvirt's record in ``/run/libvirt/qemu`` says what is meant, and
the kernel what is. A vCPU that may run on a single CPU is taken to be pinned;
it is to be on a dedicated CPU, alone. A vCPU that may run on several floats;
it is to be on shared CPUs. Other threads may run on shared CPUs, on those of
the host, and on the guest's own dedicated CPUs. A dedicated CPU that only a
guest's emulator threads are pinned to is taken to be theirs, as with
``hw:emulator_threads_policy=isolate``. What nova itself has noted of a guest
is not asked: that needs its database.

What it cannot read
-------------------

Threads, interrupts and the kernel's settings can be read by anybody, unless
``/proc`` is mounted with ``hidepid``. libvirt's records, guests' memory by
node and nova.conf are for root only. What could not be read is listed with
what therefore is not known, and does not change the exit status.

For programs
------------

With ``--format json`` the output is one object. CPUs are lists as the kernel
writes them. What does not apply to a piece of evidence is null.

.. code-block:: json

{sample}
"""


def page() -> str:
    """The page as reStructuredText."""
    return '\n'.join(_lines()) + '\n'


def _lines() -> Iterator[str]:
    sample = json.dumps(report.as_dict(_sample()), indent=2)
    yield _INTRODUCTION.rstrip().format(
        sample=textwrap.indent(sample, '   '))
    yield from reference.sections(run.RULES.values(), GROUPS, 'What mends it')


def _sample() -> finding.Result:
    cpus = cpuset.CpuSet((0, 40))
    astray = cpuset.CpuSet((7,))
    found = run.RULES['H302'].finding(rule.Problem(
        subject='service backup',
        message='1 thread may run on CPU 7, not for the host',
        evidence=(finding.Evidence(
            pid=4711, tid=4713, name='worker', cpus=astray,
            expected_cpus=cpus),),
        mends=(commands.move_thread(4713, cpus),)))
    return finding.Result(
        'cmp-d-1', 'dedicated-80', (found,), looked_at={
            'processes': 412, 'threads': 1304, 'interrupts': 233,
            'guests': 9},
        free_pages={(0, 1048576): 12, (1, 1048576): 4},
        started=1767225600.0, duration_seconds=0.2)
