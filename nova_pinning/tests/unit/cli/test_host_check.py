# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host check."""

import contextlib
import json
import os
import pathlib
import re

import ddt
import fixtures

from nova_pinning.bridge.offline import nova_conf_reader
from nova_pinning import errors
from nova_pinning.host.check import cpu_watch
from nova_pinning.host.check import facts
from nova_pinning.host.check import gathering
from nova_pinning.host import hostfile_writer
from nova_pinning.host import own_threads
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.host.check import fact_samples
from nova_pinning.tests.unit.host import host_samples

STRAY = fact_samples.process(555, 'backup', '1,3')
CONF = fact_samples.right_facts().nova_conf
UNREADABLE = nova_conf_reader.UnreadableError(
    'cannot be read: Permission denied', errors.Location('/etc/nova/x.conf'))


class _TestCase(cli_case.TestCase):
    """The command, on a machine that is as each test has it."""

    def setUp(self):
        super().setUp()
        self.seen = fact_samples.right_facts()
        self.plan = self.write('plan.yaml',
                               hostfile_writer.dump(fact_samples.planned()))
        # Some nova-compute may run on this machine.
        self.running, find = nova_conf_reader.NovaConfSource(
            pathlib.Path('/')), (nova_conf_reader.find)
        self._mock(nova_conf_reader, 'find', lambda tree: (
            self.running if tree.is_live else find(tree)))
        self.load = self._mock(nova_conf_reader, 'load', return_value=CONF)
        self.gather = self._mock(gathering, 'gather', self._gather)
        self.watch = self._mock(cpu_watch, 'watch', self._watch)
        self.keeping_to = self._mock(
            own_threads, 'keeping_to', lambda cpus: contextlib.nullcontext(''))
        self.runs, self.is_cut = (), False

    def _mock(self, module, name, *function, **values):
        return self.useFixture(fixtures.MockPatchObject(
            module, name, side_effect=function[0] if function else None,
            **values)).mock

    def _gather(self, tree, planned, pids, conf, conf_error):
        return fact_samples.replace(self.seen, nova_conf=conf,
                                    nova_conf_error=conf_error)

    def _watch(self, tree, cpus, seconds, tell):
        tell(seconds)
        return cpu_watch.Watched(cpus, float(seconds), 3, self.runs,
                                 is_cut=self.is_cut)

    def _check(self, *arguments):
        return self.run_command('host', 'check', self.plan, *arguments)

    def _add_stray(self):
        self.seen = fact_samples.replace(self.seen, processes=(
            *self.seen.processes, STRAY))


@ddt.ddt
class TestCheck(_TestCase):

    def test_right_host(self):
        done = self._check()
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertEqual(
            'nothing found on host small, in 10 processes, 23 threads, 3 '
            'interrupts, 3 guests\n', done.out.replace('\n  ', ' '))
        self.watch.assert_not_called()

    def test_findings(self):
        self._add_stray()
        done = self._check()
        self.assertEqual((1, ''), (done.status, done.err))
        self.assertIn('H302 error: ', done.out)
        self.assertIn('      taskset -pc 0,4 555\n', done.out)

    @ddt.data(('note', 1), ('warning', 0), ('error', 0))
    @ddt.unpack
    def test_fail_on(self, least, status):
        self.seen = fact_samples.replace(
            self.seen, workqueue_cpus=fact_samples.cpus('0-7'))
        done = self._check('--fail-on', least)
        self.assertEqual(status, done.status)
        self.assertIn('1 note on host', done.out)

    def test_json(self):
        self._add_stray()
        done = self._check('--format', 'json')
        content = json.loads(done.out)
        self.assertEqual(['H302'], [
            one['code'] for one in content['findings']])
        self.assertEqual((1, 'small', 0), (
            content['version'], content['host'], content['watched_seconds']))
        self.assertEqual(
            {'processes': 11, 'threads': 24, 'interrupts': 3, 'guests': 3},
            content['looked_at'])
        self.assertEqual(3, len(content['free_pages']))

    @ddt.data(('table', 'H302 error: '), ('json', '"code": "H302"'),
              ('prometheus', 'violations{code="H302",severity="error"} 1.0'))
    @ddt.unpack
    def test_output(self, form, text):
        self._add_stray()
        done = self._check('-f', form)
        self.assertEqual((1, ''), (done.status, done.err))
        self.assertIn(text, done.out)

    def test_limit(self):
        self.seen = fact_samples.replace(self.seen, guests=tuple(
            fact_samples.shared_guest(pid, f'x{pid}', '1-2')
            for pid in range(90, 110)))
        done = self._check()
        more = re.findall(r'\n  and (\d+) more \(-f json has all\)\n',
                          done.out)
        self.assertTrue(more)
        self.assertEqual(20 * len(more) - sum(map(int, more)),
                         done.out.count('  - guest x'))

    def test_no_plan(self):
        done = self.run_command('host', 'check', cli_case.HOST)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(f'nova-pinning host plan {cli_case.HOST}', done.err)

    @ddt.data(['--watch', '0'], ['--watch', 'x'], ['--pid', '0'],
              ['--fail-on', 'all'], ['-f', 'yaml'])
    def test_bad_options(self, options):
        done = self._check(*options)
        self.assertEqual((2, ''), (done.status, done.out))

    def test_guests(self):
        done = self._check('--pid', '1000', '--pid', '2000')
        self.assertEqual(0, done.status)
        self.assertEqual([1000, 2000], self.gather.call_args.args[2])
        done = self._check('--pid', '1000', '--pid', '4711')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('4711', done.err)

    def test_root(self):
        self._check('--root', str(self.dir))
        self.assertEqual(self.dir, self.gather.call_args.args[0].root)
        # The CPUs of this machine have nothing to do with those.
        self.keeping_to.assert_not_called()

    def test_not_a_machine(self):
        self.gather.side_effect = errors.InputError('no machine')
        done = self._check()
        self.assertEqual((2, ''), (done.status, done.out))


class TestNovaConf(_TestCase):

    def test_several(self):
        self.running = nova_conf_reader.NovaConfSource(
            pathlib.Path('/'), pid='7', others=('8', '9'))
        self.assertIn('what others offer: nova-compute 8, 9: process 7 was '
                      'taken\n', self._check().out)

    def test_named(self):
        path = str(self.dir)
        self._check('--config-file', 'a', '--config-file', path,
                    '--config-file', 'b')
        source, *_rest = self.load.call_args.args
        self.assertEqual(('--config-file', 'a', '--config-dir', path,
                          '--config-file', 'b'), source.arguments)
        self.assertEqual(('/', os.getcwd()),
                         (str(source.root), source.directory))

    def test_not_named(self):
        self._check('--root', str(self.dir))
        source, *_rest = self.load.call_args.args
        self.assertEqual(((), self.dir), (source.arguments, source.root))

    def test_differs(self):
        self.load.return_value = fact_samples.replace(
            CONF, settings=host_samples.settings('1,3,5', '2,6'))
        done = self._check()
        self.assertEqual(1, done.status)
        self.assertIn('H10', done.out)

    def test_wrong(self):
        self.load.side_effect = errors.InputError('odd', errors.Location('x'))
        done = self._check()
        self.assertEqual(1, done.status)
        self.assertIn('x: odd', done.out)
        self.assertIn('H10', done.out)
        done = self._check('--config-file', 'x')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('x: odd', done.err)

    def test_unreadable(self):
        self.load.side_effect = UNREADABLE
        done = self._check()
        self.assertEqual(0, done.status)
        self.assertIn(
            '- what nova-compute offers: /etc/nova/x.conf: cannot be read: '
            'Permission denied', done.out.replace('\n    ', ' '))
        done = self._check('--config-file', 'x')
        self.assertEqual((2, ''), (done.status, done.out))


class TestWatch(_TestCase):

    def test_watch(self):
        self.runs = (
            cpu_watch.Run(STRAY, STRAY.threads[0], {1: 0.5, 3: 0.25}),)
        done = self._check('--watch', '5', '-f', 'json')
        self.assertEqual((1, ''), (done.status, done.err))
        self.assertEqual((fact_samples.cpus('1,3,5,7'), 5),
                         self.watch.call_args.args[1:])
        content = json.loads(done.out)
        [one] = content['findings']
        self.assertEqual(('H701', 'process backup'),
                         (one['code'], one['subject']))
        self.assertEqual(5.0, content['watched_seconds'])
        self.assertEqual({1: 0.5, 3: 0.25, 5: 0.0, 7: 0.0}, {
            each['cpu']: each['seconds']
            for each in content['foreign_seconds']})

    def test_guests_come_and_go(self):
        """Those that are there before or after count as guests."""
        guests = self.seen.guests
        # Pages of guests that are gone would be another finding.
        self.seen = fact_samples.replace(self.seen, guests=guests[:1],
                                         free_pages={})
        self.runs = tuple(
            cpu_watch.Run(
                fact_samples.process(guest.qemu.pid, 'qemu-kvm', '0-7'),
                guest.qemu.vcpus[0], {cpu: 1.0})
            for guest, cpu in zip(guests, (1, 3)))

        def later(*arguments, **options):
            self.seen = fact_samples.replace(self.seen, guests=guests[1:])
            return self._watch(*arguments, **options)

        self.watch.side_effect = later
        done = self._check('--watch', '5')
        self.assertEqual((0, ''), (done.status, done.err), done.out)
        self.assertIn('2 guests, watched for 5 s',
                      done.out.replace('\n  ', ' '))

    def test_interrupted(self):
        self.is_cut = True
        done = self._check('--watch', '5')
        self.assertEqual(0, done.status)
        self.assertIn('interrupted', done.err)
        self.assertIn('watched for 5 s', done.out)

    def test_keeps_to_host_cpus(self):
        done = self._check('--watch', '5')
        self.assertNotIn('not known', done.out)
        self.keeping_to.assert_called_once_with(fact_samples.cpus('0,4'))
        self.keeping_to.side_effect = lambda cpus: contextlib.nullcontext(
            'invalid argument')
        self.assertNotIn('invalid argument', self._check().out)
        done = self._check('--watch', '5')
        self.assertEqual(0, done.status)
        self.assertIn('invalid argument', done.out)

    def test_what_could_not_be_read(self):
        unread = facts.Unread('/proc', 'hidden', 'much')
        self.watch.side_effect = lambda *arguments, **options: (
            fact_samples.replace(self._watch(*arguments, **options),
                                 unread=(unread, unread)))
        done = self._check('--watch', '5')
        self.assertEqual(1, done.out.count('- much: /proc: hidden'))

    def test_a_dump_cannot_be_watched(self):
        done = self._check('--watch', '5', '--root', str(self.dir))
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(f'--root {self.dir}', done.err)
