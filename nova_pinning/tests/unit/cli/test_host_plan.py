# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host plan."""

import functools
from unittest import mock

import ddt

from nova_pinning.cli import host_plan
from nova_pinning import errors
from nova_pinning.host import host_loader
from nova_pinning.host import plan_model
from nova_pinning.simulation import cache_forecast
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.host import host_samples


@ddt.ddt
class TestPlanHost(cli_case.TestCase):

    def _plan(self, *more, host=cli_case.HOST):
        return self.run_command('host', 'plan', host, *more)

    def test_document_of_another_kind(self):
        fleet = str(self.dir / 'fleet.json')
        self.run_command('fleet', 'generate', '--hosts', '1', '-o', fleet)
        done = self._plan(host=fleet)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertEqual(f'error: {fleet}:1:1: is a fleet snapshot where a '
                         'host file belongs\n', done.err)

    def test_output(self):
        done = self._plan('--host-cpus', '4', '--for', '8')
        self.assertEqual(0, done.status)
        path = self.dir / 'plan.yaml'
        path.write_text(done.out)
        planned = host_loader.load(path)
        self.assertEqual('0-1,40-41', str(planned.plan.host_cpus))
        written = self._plan('--host-cpus', '4', '--for', '8', '-o',
                             str(self.dir / 'other.yaml'))
        self.assertEqual('', written.out)
        self.assertEqual(done.err, written.err)
        self.assertEqual(done.out, (self.dir / 'other.yaml').read_text())
        self.assertEqual(planned, host_loader.load(self.write(
            'a.json', self._plan(
                '--host-cpus', '4', '--for', '8', '-f', 'json').out)))

    def test_summary(self):
        """Nine guests, and eight with the next best choice."""
        text = self._plan('--host-cpus', '4', '--for', '8').err
        for line in ('host            4  0-1,40-41   0: 4',
                     '8 vCPUs      9          4      9         9         8',
                     'choice 3: 8 guests of 8 vCPUs instead of 9',
                     'Left when the mix is full: 4 CPUs of node 0',
                     'warning stranded-cpus: '):
            self.assertIn(line, text)
        # Nothing is at the end of a line but what is said.
        self.assertEqual([line.rstrip() for line in text.splitlines()],
                         text.splitlines())

    def _caches(self, sizes, threads, *more):
        """A plan with --caches of a host of 4 caches of 4 cores."""
        cpus = 16 * threads
        host = self.write('host.yaml', f"""
version: 1
name: small
cpu: {{threads_per_core: {threads}, numbering: split, cores_per_l3: 4}}
nodes: [{{id: 0, socket: 0, cpus: 0-{cpus - 1}, memory: 64GiB}}]
""")
        # The simulated hosts are few.
        with mock.patch.object(cache_forecast, 'study', functools.partial(
                cache_forecast.study, guests_at_full=30)):
            return self._plan('--for', sizes, '--host-cpus', str(threads),
                              '--caches', *more, host=host)

    def test_caches(self):
        """What to do is in the plan, too."""
        done = self._caches('2:60,4:30,16:10', 2)
        self.assertEqual(0, done.status, done.err)
        lines = done.err[done.err.index('\nL3 caches\n') + 1:].splitlines()
        self.assertEqual(['1.', 'as', 'found', '1'],
                         lines[2].split()[:4])
        self.assertEqual(['2.', 'L3', '4', '6', '100.0%'],
                         lines[3].split()[:5])
        # vCPUs, the fewest caches, and of each setting empty, full and cells.
        self.assertRegex(done.err, r'\n16 +2 +4 / .*  2 / \S+ x2')
        self.assertEqual('Proposed: 2.', done.err.strip()[-12:])
        plan = host_loader.load(self.write('plan.yaml', done.out)).plan
        warning = next(warning for warning in plan.warnings
                       if warning.code == 'l3-scattered')
        self.assertIn('a NUMA node of each L3 cache', warning.advice)
        self.assertIn('hw:numa_nodes=2 of 16 vCPUs', warning.advice)
        reason, = (reason.text for reason in plan.reasons
                   if reason.subject == 'l3_caches')
        self.assertIn('of 2 vCPUs on 1 and 1.00 (fewest: 1)', reason)

    def test_caches_that_nobody_asked_about(self):
        done = self._plan(host=str(
            cli_case.ETC / 'hosts' / 'epyc-256-nps1.yaml'))
        self.assertIn('l3_caches: a node has 8', done.err)
        self.assertNotIn('l3_caches: ', self._plan().err)

    def test_caches_where_there_is_nothing_to_do(self):
        """Guests of all CPUs lie on all caches, whatever is set."""
        done = self._caches('15x1', 1)
        self.assertIn('Proposed: 1.', done.err)
        self.assertNotIn('l3-scattered', done.err)
        # That of 15 vCPUs in 3 cells is not asked for.
        self.assertIn('L3: a guest of 15 vCPUs in 1 cell does',
                      ' '.join(done.err.split()))

    def test_caches_without_pinned_guests(self):
        done = self._plan('--class', 'shared', '--caches')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('has no plan for pinned guests', done.err)

    def test_other_choices_by_their_numbers(self):
        done = self._plan('--host-cpus', '4', '--choice', '2')
        path = self.write('plan.yaml', done.out)
        self.assertEqual(2, host_loader.load(path).plan.choice)
        for text in (done.err, self.run_command('host', 'show', path).out):
            self.assertIn('choice 1: ', text)
            self.assertIn('choice 3: ', text)
            self.assertNotIn('choice 2: ', text)

    @ddt.data(
        ('--class', 'both', '--shared-cpus', '8', '--cpu-allocation-ratio',
         '2.5', '--page-size', '2MiB', '--host-memory', '20GiB'),
        ('--class', 'shared', '--page-size', 'none'),
        ('--for', '8:70,16:30,48x2', '--poll-cpus', '4'))
    def test_options(self, options):
        done = self._plan(*options)
        self.assertEqual(0, done.status, done.err)
        planned = host_loader.load(self.write('plan.yaml', done.out))
        plan = planned.plan
        if 'both' in options:
            self.assertEqual(
                (8, 20, 2.5, host_samples.MIB_PAGES, 20 * host_samples.GIB),
                (len(planned.nova.shared_cpus), plan.offer.shared_vcpus,
                 planned.nova.cpu_allocation_ratio, plan.page_size_kib,
                 planned.nova.reserved_memory_mib))
        elif 'shared' in options:
            self.assertEqual((plan_model.Purpose.SHARED, None, 0), (
                plan.purpose, planned.nova.dedicated_cpus,
                plan.page_size_kib))
        else:
            self.assertEqual((4, [(8, 70, 1), (16, 30, 1), (48, 1, 2)]), (
                len(plan.poll_cpus), [(size.vcpus, size.weight, size.cells)
                                      for size in plan.sizes]))

    @ddt.data(
        *sorted(path.name for path in (cli_case.ETC / 'hosts').iterdir()))
    def test_shipped_hosts(self, name):
        done = self._plan(host=str(cli_case.ETC / 'hosts' / name))
        self.assertEqual(0, done.status, done.err)
        self.assertIsNotNone(
            host_loader.load(self.write('plan.yaml', done.out)).plan)

    def test_a_plan_is_planned_again(self):
        path = self.write('plan.yaml', self._plan('--class', 'both').out)
        first = self._plan('--class', 'both')
        again = self._plan('--class', 'both', host=path)
        self.assertEqual(first.out, again.out)
        self.assertEqual(
            'note: the plan in this file is made again: class, sizes, numbers '
            'of CPUs and\n'
            '  memory are those of the options; PCI aliases stay\n'
            + first.err, again.err)

    @ddt.data('a:1=nvme', 'a,b=nvme', 'a b=nvme')
    def test_alias_that_no_flavor_can_name(self, text):
        error = self.assertRaises(errors.InputError, list, (
            host_plan._named_devices([text], '--pci-alias', 'gpu=10de:20b5')))
        self.assertIn('no flavor can name', str(error))

    @ddt.data(('--for', '8:'), ('--for', '500'), ('--host-cpus', '0'),
              ('--host-cpus', '80'), ('--page-size', '3MiB'),
              ('--page-size', 'x'), ('--host-memory', 'x'),
              ('--host-memory', '900GiB'), ('--pci-alias', 'nvme'),
              ('--pci-alias', 'a=nvme'), ('--choice', '0'),
              ('--pci-group', 'a'), ('--pci-group', 'a=rack'),
              ('--pci-group', 'a=switch'), ('--mdev-type', 'nvidia-699'),
              ('--mdev-type', 'nvidia-699=gpu'),
              ('--choice', '20'), ('--cpu-allocation-ratio', '0'),
              ('--cpu-allocation-ratio', 'nan'),
              ('--cpu-allocation-ratio', 'x'), ('--host-memory', '0'),
              ('--poll-cpus', '200'),
              ('--class', 'shared', '--for', '8'),
              ('--class', 'shared', '--shared-cpus', '8'))
    def test_bad_options(self, options):
        done = self._plan(*options)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(options[-2], done.err)

    def test_how_many_choices_there_are(self):
        for number in ('4', '99', '5000'):
            text = self._plan('--host-cpus', '4', '--for', '8',
                              '--choice', number).err
            self.assertIn(f'there is no choice {number}', text)
            self.assertIn('this host has 3', text)

    def test_host_memory_without_a_unit(self):
        self.assertIn('1 MiB for the host is too little',
                      self._plan('--host-memory', '1').err)

    def test_no_ratio(self):
        self.assertIn("'x' is not a number above 0",
                      self._plan('--cpu-allocation-ratio', 'x').err)

    def test_no_place_for_the_plan(self):
        done = self._plan('-o', '/nowhere/plan.yaml')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('/nowhere/plan.yaml: ', done.err)

    def test_no_host(self):
        self.assertEqual(2, self._plan(host=str(self.dir / 'a')).status)
