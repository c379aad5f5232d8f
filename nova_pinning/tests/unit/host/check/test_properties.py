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

"""On any host: what may be where it must not be is told, and told once."""

import itertools

import hypothesis
from hypothesis import strategies

from nova_pinning import cpuset
from nova_pinning.host.check import run
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.host.check import samples
from nova_pinning.tests.unit.host import samples as hosts

replace = samples.replace
TAKEN = samples.view().taken_cpus
ALL = cpuset.CpuSet(range(8))

#: CPUs that something may run on, also such as are offline.
some_cpus = strategies.one_of(
    strategies.sets(strategies.integers(0, 9), min_size=1, max_size=4),
    strategies.sampled_from([range(8), range(64)])).map(cpuset.CpuSet)


@strategies.composite
def processes(draw):
    found = []
    for pid in range(100, 100 + 20 * draw(strategies.integers(0, 8)), 20):
        threads = tuple(
            samples.thread(pid + number, draw(strategies.sampled_from([
                'worker', 'pmd-c01/id:2'])), str(draw(some_cpus)),
                may_move=draw(strategies.booleans()))
            for number in range(draw(strategies.integers(1, 4))))
        found.append(samples.process(
            pid, 'x', '0', draw(strategies.sampled_from([
                '', 'a.service', 'b.service', 'c.scope', 'system.slice'])),
            threads=threads))
    return tuple(found)


@strategies.composite
def interrupts(draw):
    return tuple(samples.interrupt(
        number, f'line-{number}', str(draw(some_cpus)),
        draw(strategies.sampled_from(['', '0', '1', '2', '3', '4'])),
        device=draw(strategies.sampled_from(['', samples.NIC, samples.GPU])),
        managed=draw(strategies.booleans()))
        for number in range(draw(strategies.integers(0, 6))))


@strategies.composite
def guests(draw):
    """Guests that each have their vCPUs wherever libvirt was told."""
    return tuple(samples.guest(
        1000 * number, f'guest-{number}', [
            str(cpu) for cpu in draw(strategies.lists(
                strategies.integers(0, 7), min_size=1, max_size=3))])
        for number in range(1, 1 + draw(strategies.integers(0, 4))))


@strategies.composite
def obedient(draw):
    """Any host with any plan that splits no core, and all as it is to be."""
    host = draw(hosts.any_host())
    cores = [core for node in host.nodes for core in node.cores]
    uses = draw(strategies.lists(
        strategies.sampled_from(['host', 'shared', 'dedicated', 'poll']),
        min_size=len(cores), max_size=len(cores)))
    cpus = {use: cpuset.CpuSet(
        cpu for core, other in zip(cores, uses) if other == use
        for cpu in core) for use in ('host', 'shared', 'dedicated', 'poll')}
    # Where something is for others, the host has at least the first core.
    hypothesis.assume(cpus['host'])
    free = draw(strategies.booleans())
    planned = replace(
        host, system=replace(
            host.system, governors={}, has_iommu=True,
            isolated_cpus=cpuset.CpuSet() if free
            else cpus['dedicated'] | cpus['poll'],
            nohz_full_cpus=cpuset.CpuSet()),
        nova=replace(host.nova, dedicated_cpus=cpus['dedicated'] or None,
                     shared_cpus=cpus['shared'] or None),
        plan=samples.plan_model.Plan(
            samples.plan_model.Purpose.BOTH, cpus['host'],
            samples.plan_model.Offer((), {}), poll_cpus=cpus['poll']))
    emulator = cpus['shared'] or cpus['host']
    guests = [samples.guest(
        1000 * number, f'guest-{number}', [str(cpu) for cpu in core],
        emulator=str(emulator), node=node.id)
        for number, (node, core) in enumerate((
            (node, core) for node in host.nodes for core in node.cores
            if cpuset.CpuSet(core).issubset(cpus['dedicated'])), 1)]
    # Nobody needs to count huge pages here.
    guests = [replace(guest, qemu=replace(guest.qemu, regions=tuple(
        replace(region, page_size_kib=4) for region in guest.qemu.regions)))
              for guest in guests]
    if cpus['shared']:
        guests.append(samples.shared_guest(
            990, 'shared', str(cpus['shared'])))
    return planned, samples.facts.Facts(
        host=replace(planned, plan=None),
        processes=(
            samples.process(1, 'systemd', str(cpus['host'])),
            samples.process(2, 'ovs-vswitchd', '', threads=tuple(
                samples.thread(3 + cpu, f'pmd-c{cpu:02}/id:{cpu}', str(cpu))
                for cpu in cpus['poll'])),
            samples.kernel_thread(3, 'kswapd0', str(cpus['host']))),
        guests=tuple(guests),
        interrupts=tuple(
            samples.interrupt(number, 'x', str(cpus['host']),
                              str(next(iter(cpus['host']))),
                              device=device.address)
            for number, device in enumerate(host.pci_devices)),
        default_interrupt_cpus=cpus['host'], workqueue_cpus=cpus['host'],
        irqbalance=samples.facts.Irqbalance(
            9, cpus['dedicated'] | cpus['poll']),
        free_pages={(node.id, size): pages for node in host.nodes
                    for size, pages in node.huge_pages.items()},
        nova_conf=samples.facts.NovaConf((), planned.nova))


class PropertyTestCase(base.TestCase):

    @base.settings(50)
    @hypothesis.given(obedient())
    def test_obedient(self, host):
        """Nothing is said of a host that is as it is to be."""
        planned, seen = host
        self.assertEqual((), samples.find(seen, planned))

    def evidence(self, seen, *codes):
        return [(one.code, piece) for one in samples.find(seen)
                if one.code in codes for piece in one.evidence]

    @base.settings(100)
    @hypothesis.given(processes())
    def test_processes(self, them):
        """Each thread of user space that may be where it must not, once."""
        told = self.evidence(samples.right_facts(processes=them),
                             'H301', 'H302')
        astray = {
            thread.tid: 'H301' if ALL.issubset(thread.cpus) else 'H302'
            for process in them for thread in process.threads
            if thread.may_move and not thread.name.startswith('pmd') and
            any(cpu in TAKEN for cpu in thread.cpus)}
        self.assertEqual(astray, {piece.tid: code for code, piece in told})
        self.assertEqual(len(astray), len(told))

    @base.settings(100)
    @hypothesis.given(processes())
    def test_mends(self, them):
        """Done as told, nothing is left to tell."""
        seen = samples.right_facts(processes=them)
        commands = [command for one in samples.find(seen)
                    if one.code in ('H301', 'H302') for command in one.mends]
        self.assertEqual(len(commands), len(set(commands)))
        moved = []
        for process in them:
            threads = []
            for thread in process.threads:
                for command in commands:
                    _taskset, option, cpus, number = command.split()
                    whole = option == '-apc' and int(number) == process.pid
                    if whole or int(number) == thread.tid:
                        self.assertTrue(thread.may_move)
                        thread = replace(thread, cpus=samples.cpus(cpus))
                threads.append(thread)
            moved.append(replace(process, threads=tuple(threads)))
        self.assertEqual([], self.evidence(samples.right_facts(
            processes=tuple(moved)), 'H301', 'H302'))

    @base.settings(100)
    @hypothesis.given(interrupts())
    def test_interrupts(self, them):
        """Each interrupt that may arrive where it must not, once."""
        told = self.evidence(samples.right_facts(interrupts=them),
                             'H401', 'H402')
        astray = {
            one.number: 'H402' if one.managed else 'H401' for one in them
            if any(cpu in TAKEN for cpu in one.effective_cpus or one.cpus)}
        self.assertEqual(astray,
                         {piece.interrupt: code for code, piece in told})
        self.assertEqual(len(astray), len(told))

    @base.settings(100)
    @hypothesis.given(guests())
    def test_overlap(self, them):
        """vCPUs on one CPU, and guests on one core, against all pairs."""
        seen = samples.right_facts(guests=them)
        on = [(guest.qemu.pid, thread.tid, next(iter(thread.cpus)))
              for guest in them for thread in guest.qemu.vcpus.values()]
        pairs = list(itertools.combinations(on, 2))
        doubled = {tid for pair in pairs if pair[0][2] == pair[1][2]
                   for _pid, tid, _cpu in pair}
        told = self.evidence(seen, 'H604')
        self.assertEqual(doubled, {piece.tid for _code, piece in told})
        self.assertEqual(len(doubled), len(told))
        meeting = {frozenset((one[0], other[0])) for one, other in pairs
                   if one[2] == other[2]}
        sharing = {
            pid for one, other in pairs for pid in (one[0], other[0])
            # CPU n and n + 4 are threads of a core.
            if one[0] != other[0] and abs(one[2] - other[2]) == 4 and not any(
                frozenset((one[0], other[0])) == both for both in meeting)}
        if not meeting:
            self.assertEqual(sharing, {
                piece.pid for _code, piece in self.evidence(seen, 'H605')})

    @base.settings(50)
    @hypothesis.given(processes(), interrupts(), guests())
    def test_sentences(self, first, second, third):
        """Whatever is found, people can read it."""
        for one in samples.find(samples.right_facts(
                processes=first, interrupts=second, guests=third)):
            for text in (one.message, one.why, one.advice, one.subject):
                self.assertTrue(text and not text.endswith('.'), text)
                self.assertNotIn('CpuSet', text)
            self.assertIn(one.code, run.RULES)
