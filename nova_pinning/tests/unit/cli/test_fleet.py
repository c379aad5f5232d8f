# SPDX-License-Identifier: Apache-2.0


import argparse
import dataclasses
import io
import json
import sys
from unittest import mock

import ddt
import fixtures
import zstandard

from nova_pinning.cli import fleets
from nova_pinning.document import packed
from nova_pinning.fleet import document
from nova_pinning.fleet import problems
from nova_pinning.host import hostfile_writer
from nova_pinning.model import hostclass
from nova_pinning.presentation import findings_text
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.fleet import fleet_samples
from nova_pinning.tests.unit.host import test_device_offer


class _FleetTestCase(cli_case.TestCase):

    def fleet(self, **changes):
        """Write a snapshot; returns its path."""
        path = str(self.dir / 'fleet.json.zst')
        document.write(path,
                       dataclasses.replace(fleet_samples.tidy(), **changes))
        return path

    def odd_fleet(self):
        """A snapshot with a guest that appears twice."""
        guests = fleet_samples.tidy().guests
        return self.fleet(guests=(*guests, dataclasses.replace(
            guests[0], uuid='copy', name='')))


@ddt.ddt
class TestShowFleet(_FleetTestCase):

    @ddt.data(40, 80, 100, 200)
    def test_width(self, columns):
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', str(columns)))
        done = self.run_command('fleet', 'show', self.fleet())
        self.assertEqual((0, ''), (done.status, done.err))
        for line in done.out.splitlines():
            self.assertLessEqual(len(line), columns, line)
            self.assertEqual(line.rstrip(), line)

    def test_table(self):
        done = self.run_command('fleet', 'show', self.fleet())
        shown = ' '.join(done.out.split())
        for words in ('4 hosts with', 'shape two-socket-96-pci, seed 1',
                      '2 x 46 dedicated', '2 L3', '4 of 10de:20b5',
                      'dedicated-4', 'Nothing odd was found.'):
            self.assertIn(words, shown)

    def test_odd(self):
        done = self.run_command('fleet', 'show', self.odd_fleet())
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('Odd: 1 error', done.out)
        self.assertIn('fleet check tells', done.out)

    def test_limit(self):
        with mock.patch.object(findings_text, 'LIMIT', 1):
            done = self.run_command('fleet', 'show', self.fleet())
        self.assertIn('and 1 more kinds (-f json has all)', done.out)
        self.assertIn('more flavors (-f json has all)', done.out)

    def test_nothing_in_it(self):
        done = self.run_command('fleet', 'show', self.fleet(
            hosts=(), guests=()))
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertEqual('0 hosts with 0 guests', done.out.splitlines()[0])
        self.assertNotIn('class', done.out)

    def test_hosts_of_no_kind(self):
        host = dataclasses.replace(
            fleet_samples.tidy().hosts[0], cells=(), host_class=None,
            is_enabled=False)
        done = self.run_command('fleet', 'show', self.fleet(
            hosts=(host,), guests=()))
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('1 (1 disabled)', done.out)

    def test_json(self):
        done = self.run_command('fleet', 'show', self.fleet(), '-f', 'json')
        found = json.loads(done.out)
        self.assertEqual((1, 4), (found['version'], found['hosts']))

    def test_standard_input(self):
        text = document.dumps(fleet_samples.tidy())
        with mock.patch.object(sys, 'stdin', mock.Mock(
                buffer=io.BytesIO(text.encode()))):
            done = self.run_command('fleet', 'show', '-')
        self.assertEqual((0, ''), (done.status, done.err))
        with mock.patch.object(sys, 'stdin', mock.Mock(
                buffer=io.BytesIO(zstandard.compress(text.encode())))):
            again = self.run_command('fleet', 'show', '-')
        self.assertEqual(done, again)
        with mock.patch.object(sys, 'stdin', mock.Mock(
                buffer=io.BytesIO(text[:-9].encode()))):
            done = self.run_command('fleet', 'show', '-')
        self.assertEqual(2, done.status)
        self.assertIn('error: standard input:', done.err)


@ddt.ddt
class TestCheckFleet(_FleetTestCase):

    def test_nothing(self):
        done = self.run_command('fleet', 'check', self.fleet())
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertRegex(done.out, '^nothing found in 4 hosts with .* guests')

    def test_table(self):
        done = self.run_command('fleet', 'check', self.odd_fleet())
        self.assertEqual((1, ''), (done.status, done.err))
        for words in ('F303 error: two guests on one CPU (1)',
                      '- host dedicated-00001: CPU', 'copy', 'remedy: migrate',
                      '1 error in 4 hosts with'):
            self.assertIn(words, done.out)

    def test_json(self):
        done = self.run_command('fleet', 'check', self.odd_fleet(),
                                '--format', 'json')
        self.assertEqual(1, done.status)
        found = json.loads(done.out)
        self.assertEqual({'error': 1, 'warning': 0, 'note': 0},
                         found['totals'])
        finding, = found['findings']
        self.assertEqual(('F303', 'dedicated-00001'),
                         (finding['code'], finding['host']))
        self.assertIn('copy', finding['guests'])

    @ddt.data(('note', 1), ('warning', 0), ('error', 0))
    @ddt.unpack
    def test_fail_on(self, severity, status):
        host = dataclasses.replace(fleet_samples.tidy().hosts[0],
                                   host_class=None)
        path = self.fleet(hosts=(host,), guests=())
        done = self.run_command('fleet', 'check', path, '--fail-on', severity)
        self.assertEqual(status, done.status)

    def test_formats(self):
        done = self.run_command('fleet', 'check', self.odd_fleet(),
                                '--format', 'prometheus')
        self.assertEqual(1, done.status)
        self.assertIn('nova_pinning_fleet_violations{code="F303",'
                      'severity="error"} 1.0\n', done.out)
        self.assertIn('nova_pinning_fleet_hosts 4.0\n', done.out)

    def test_bad_input(self):
        for path, message in (
                (self.write('a.json', '{"version": 1'), 'cut off'),
                (self.write('b.json.zst', 'text'), 'cannot be unpacked'),
                (str(self.dir), 'Is a directory'),
                (str(self.dir / 'none'), 'No such file')):
            done = self.run_command('fleet', 'check', path)
            self.assertEqual((2, ''), (done.status, done.out))
            self.assertIn(f'error: {path}', done.err)
            self.assertIn(message, done.err)


@ddt.ddt
class TestGenerateFleet(_FleetTestCase):

    def _generate(self, *more):
        return self.run_command('fleet', 'generate', '--hosts', '3', *more)

    def test_generate(self):
        path = str(self.dir / 'one.json.zst')
        done = self._generate(
            '--shape', 'epyc-nps4', '--seed', '5', '--filled', '50%',
            '--shared', '0.34', '--churn', '1', '--mix', '4:1,8x2:2',
            '-o', path)
        self.assertEqual((0, '', ''), (done.status, done.out, done.err))
        self.assertEqual((path,), done.wrote)
        fleet = document.read(path)
        self.assertEqual(
            ['dedicated-00001', 'dedicated-00002', 'shared-00001'],
            [host.name for host in fleet.hosts])
        self.assertEqual({'dedicated-4', 'dedicated-8x2'}, {
            guest.flavor for guest in fleet.guests if guest.topology})

    def test_standard_output(self):
        done = self._generate()
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertEqual(3, len(document.loads(done.out).hosts))
        self.assertEqual(done.out, self._generate().out)

    def test_like_a_plan(self):
        done = self._generate('--like', cli_case.HOST)
        self.assertEqual((0, ''), (done.status, done.err))
        fleet = document.loads(done.out)
        self.assertEqual((), fleet.guests)
        self.assertEqual(
            [('xeon-80-dedicated-00001', hostclass.HostClass.DEDICATED)],
            [(host.name, host.host_class) for host in fleet.hosts][:1])
        self.assertEqual(3, len(fleet.hosts))
        self.assertEqual(76, len(fleet.hosts[0].dedicated_cpus))
        self.assertFalse(fleet.rules.pci_in_placement)

    def test_like_a_plan_with_groups_of_devices(self):
        plan = self.write('plan.yaml', hostfile_writer.dump(
            test_device_offer.grouped()))
        fleet = document.loads(self._generate('--like', plan).out)
        self.assertTrue(fleet.rules.pci_in_placement)
        self.assertIn('h100-switch-3', fleet.pci_aliases)
        self.assertEqual(12, sum(
            pool.total for pool in fleet.hosts[2].pci_pools))
        for host in fleet.hosts:
            self.assertEqual({host.name}, {
                child.name.partition('_')[0] for child in host.children})

    @ddt.data(('--filled', '101%'), ('--filled', '80'), ('--shared', 'x'),
              ('--like', 'x', '--shape', 'epyc-nps4'),
              ('--shared', '20%', '--like', 'x'),
              ('--shape', 'x'), ('--seed', '-1'), ('--hosts', '0'),
              ('--churn', '-1'), ('--churn', 'nan'), ('--filled', 'nan'))
    def test_bad_options(self, options):
        done = self._generate(*options)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(options[0], done.err)

    def test_bad_mix(self):
        done = self._generate('--mix', '4:x')
        self.assertEqual(2, done.status)
        self.assertIn("error: --mix: '4:x' is not a size", done.err)

    def test_size_that_no_host_takes(self):
        for mix, size in (('4,500:3', '500 vCPUs in 1 cell;'),
                          ('6x3', '6 vCPUs in 3 cells;')):
            done = self._generate('--mix', mix)
            self.assertEqual((2, ''), (done.status, done.out))
            self.assertIn(f'error: --mix: no host of shape two-socket-80 has '
                          f'room for a guest of {size}', done.err)
        # Of which there are none.
        self.assertEqual(0, self._generate(
            '--mix', '500', '--shared', '100%').status)

    def test_less_is_sold_than_asked_for(self):
        done = self._generate('--mix', '38', '--filled', '60%')
        self.assertEqual(0, done.status)
        self.assertIn('warning: 50.0% of the dedicated CPUs are sold, not '
                      '60%', done.err)
        done = self._generate('--mix', '38', '--filled', '50%')
        self.assertEqual((0, ''), (done.status, done.err))

    def test_too_large_to_be_read_again(self):
        with mock.patch.object(packed.write, '__defaults__', (2000,)):
            done = self._generate()
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('could not be read again', done.err)

    def test_output_is_looked_at_first(self):
        with mock.patch(
                'nova_pinning.fleet.generate.generate_fleet') as generate:
            done = self._generate('-o', str(self.dir / 'no' / 'where'))
        self.assertEqual(2, done.status)
        self.assertIn('cannot be written', done.err)
        generate.assert_not_called()


class _Terminal(io.StringIO):

    def isatty(self):
        return True


class TestHelpers(_FleetTestCase):

    def _warn(self, *arguments):
        err = io.StringIO()
        with mock.patch.object(sys, 'stderr', err):
            fleets.warn_of(*arguments)
        return err.getvalue().splitlines()

    def test_warnings(self):
        fleet = fleet_samples.tidy()
        found = problems.find(dataclasses.replace(
            fleet, hosts=tuple(dataclasses.replace(
                host, host_class=None, aggregates=('gone',))
                for host in fleet.hosts)))
        lines = self._warn(found, 'fleet.json')
        self.assertEqual(2, len(lines))
        self.assertEqual(
            'warning: F105: a host in an aggregate that is not listed: host '
            'dedicated-00001: in gone; and 3 more', lines[0])
        self.assertEqual('warning: nova-pinning fleet check fleet.json tells '
                         'more', lines[1])
        self.assertEqual(1, len(self._warn(found)))
        self.assertEqual([], self._warn((), 'fleet.json'))

    def test_load(self):
        err = io.StringIO()
        with mock.patch.object(sys, 'stderr', err):
            fleet = fleets.load(argparse.Namespace(fleet=self.odd_fleet()))
        self.assertIn('warning: F303', err.getvalue())
        self.assertEqual('copy', fleet.guests[-1].uuid)

    def _progress(self, patience, error=None):
        """What a terminal gets to see of a bar."""
        terminal = _Terminal()
        self.useFixture(fixtures.EnvironmentVariable('TERM', 'xterm'))
        with (mock.patch.object(sys, 'stderr', terminal),
              mock.patch.object(fleets, '_PATIENCE_SECONDS', patience)):
            with fleets.progress('counting') as tell:
                if not patience:
                    # The clock is done at once; its thread may not be.
                    self._timer.join()
                tell(0.5)
                if error:
                    raise error
        return terminal.getvalue()

    def _with_timer(self):
        real = fleets.threading.Timer

        def timer(*arguments):
            self._timer = real(*arguments)
            return self._timer

        return mock.patch.object(fleets.threading, 'Timer', timer)

    def test_bar(self):
        with self._with_timer():
            self.assertIn('counting', self._progress(0.0))
            self.assertEqual('', self._progress(1000.0))
            self.assertFalse(self._timer.is_alive())

    def test_bar_goes_with_an_error(self):
        with self._with_timer():
            self.assertRaises(ZeroDivisionError, self._progress, 0.0,
                              ZeroDivisionError())
        self.assertFalse(self._timer.is_alive())

    def test_no_terminal(self):
        err = io.StringIO()
        with (mock.patch.object(sys, 'stderr', err),
              mock.patch.object(fleets, '_PATIENCE_SECONDS', 0.0)):
            with fleets.progress('counting') as tell:
                tell(0.5)
        self.assertEqual('', err.getvalue())
