# SPDX-License-Identifier: Apache-2.0
"""On any host: what may be where it must not be is told, and told once."""

import itertools

import hypothesis
from hypothesis import strategies

from nova_pinning import cpuset
from nova_pinning.host.check import host_check_run
from nova_pinning.tests.unit.host.check import fact_samples
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base

replace = fact_samples.replace
TAKEN = fact_samples.view().taken_cpus
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
            fact_samples.thread(pid + number, draw(strategies.sampled_from([
                'worker', 'pmd-c01/id:2'])), str(draw(some_cpus)),
                may_move=draw(strategies.booleans()))
            for number in range(draw(strategies.integers(1, 4))))
        found.append(fact_samples.process(
            pid, 'x', '0', draw(strategies.sampled_from([
                '', 'a.service', 'b.service', 'c.scope', 'system.slice'])),
            threads=threads))
    return tuple(found)


@strategies.composite
def interrupts(draw):
    return tuple(fact_samples.interrupt(
        number, f'line-{number}', str(draw(some_cpus)),
        draw(strategies.sampled_from(['', '0', '1', '2', '3', '4'])),
        device=draw(
            strategies.sampled_from(['', fact_samples.NIC, fact_samples.GPU])),
        managed=draw(strategies.booleans()))
        for number in range(draw(strategies.integers(0, 6))))


@strategies.composite
def guests(draw):
    """Guests that each have their vCPUs wherever libvirt was told."""
    return tuple(fact_samples.guest(
        1000 * number, f'guest-{number}', [
            str(cpu) for cpu in draw(strategies.lists(
                strategies.integers(0, 7), min_size=1, max_size=3))])
        for number in range(1, 1 + draw(strategies.integers(0, 4))))


@strategies.composite
def obedient(draw):
    """Any host with any plan that splits no core, and all as it is to be."""
    host = draw(host_samples.any_host())
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
        plan=fact_samples.plan_model.HostPlan(
            fact_samples.plan_model.Purpose.BOTH, cpus['host'],
            offer=fact_samples.plan_model.Offer((), {}),
            poll_cpus=cpus['poll']))
    emulator = cpus['shared'] or cpus['host']
    guests = [fact_samples.guest(
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
        guests.append(fact_samples.shared_guest(
            990, 'shared', str(cpus['shared'])))
    return planned, fact_samples.facts.HostFacts(
        host=replace(planned, plan=None),
        processes=(
            fact_samples.process(1, 'systemd', str(cpus['host'])),
            fact_samples.process(2, 'ovs-vswitchd', '', threads=tuple(
                fact_samples.thread(3 + cpu, f'pmd-c{cpu:02}/id:{cpu}',
                                    str(cpu))
                for cpu in cpus['poll'])),
            fact_samples.kernel_thread(3, 'kswapd0', str(cpus['host']))),
        guests=tuple(guests),
        interrupts=tuple(
            fact_samples.interrupt(number, 'x', str(cpus['host']),
                                   str(next(iter(cpus['host']))),
                                   device=device.address)
            for number, device in enumerate(host.pci_devices)),
        default_interrupt_cpus=cpus['host'], workqueue_cpus=cpus['host'],
        irqbalance=fact_samples.facts.Irqbalance(
            9, cpus['dedicated'] | cpus['poll']),
        free_pages={(node.id, size): pages for node in host.nodes
                    for size, pages in node.huge_pages.items()},
        nova_conf=fact_samples.facts.NovaConf((), planned.nova))


class PropertyTestCase(unit_base.TestCase):

    @unit_base.settings(50)
    @hypothesis.given(obedient())
    def test_obedient(self, host):
        """Nothing is said of a host that is as it is to be."""
        planned, seen = host
        self.assertEqual((), fact_samples.find(seen, planned))

    def evidence(self, seen, *codes):
        return [(one.code, piece) for one in fact_samples.find(seen)
                if one.code in codes for piece in one.evidence]

    @unit_base.settings(100)
    @hypothesis.given(processes())
    def test_processes(self, them):
        """Each thread of user space that may be where it must not, once."""
        told = self.evidence(fact_samples.right_facts(processes=them),
                             'H301', 'H302')
        astray = {
            thread.tid: 'H301' if ALL.issubset(thread.cpus) else 'H302'
            for process in them for thread in process.threads
            if thread.may_move and not thread.name.startswith('pmd') and
            any(cpu in TAKEN for cpu in thread.cpus)}
        self.assertEqual(astray, {piece.tid: code for code, piece in told})
        self.assertEqual(len(astray), len(told))

    @unit_base.settings(100)
    @hypothesis.given(processes())
    def test_mends(self, them):
        """Done as told, nothing is left to tell."""
        seen = fact_samples.right_facts(processes=them)
        commands = [command for one in fact_samples.find(seen)
                    if one.code in ('H301', 'H302')
                    for command in one.remediation]
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
                        thread = replace(thread, cpus=fact_samples.cpus(cpus))
                threads.append(thread)
            moved.append(replace(process, threads=tuple(threads)))
        self.assertEqual([], self.evidence(fact_samples.right_facts(
            processes=tuple(moved)), 'H301', 'H302'))

    @unit_base.settings(100)
    @hypothesis.given(interrupts())
    def test_interrupts(self, them):
        """Each interrupt that may arrive where it must not, once."""
        told = self.evidence(fact_samples.right_facts(interrupts=them),
                             'H401', 'H402')
        astray = {
            one.number: 'H402' if one.managed else 'H401' for one in them
            if any(cpu in TAKEN for cpu in one.effective_cpus or one.cpus)}
        self.assertEqual(astray,
                         {piece.interrupt: code for code, piece in told})
        self.assertEqual(len(astray), len(told))

    @unit_base.settings(100)
    @hypothesis.given(guests())
    def test_overlap(self, them):
        """vCPUs on one CPU, and guests on one core, against all pairs."""
        seen = fact_samples.right_facts(guests=them)
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

    @unit_base.settings(50)
    @hypothesis.given(processes(), interrupts(), guests())
    def test_sentences(self, first, second, third):
        """Whatever is found, people can read it."""
        for one in fact_samples.find(fact_samples.right_facts(
                processes=first, interrupts=second, guests=third)):
            for text in (one.message, one.why, one.advice, one.subject):
                self.assertTrue(text and not text.endswith('.'), text)
                self.assertNotIn('CpuSet', text)
            self.assertIn(one.code, host_check_run.RULES)
