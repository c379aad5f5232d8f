# SPDX-License-Identifier: Apache-2.0


import json
import os
import sys

import ddt
import fixtures

from nova_pinning.bridge.importer import request_specs
from nova_pinning.fleet import document
from nova_pinning.fleet import generate
from nova_pinning.scheduler import record
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.cli import test_explain
from nova_pinning.tests.unit.explain import explain_cases

SERVER = '0b9f6ac1-50b3-4a3c-9d6a-7d4c1f6f3b52'
REQUEST = 'req-4f2b8a9e-61c7-4d3a-b0f5-2e9d7c1a8b64'
_REFUSED = {
    'HostClassFilter': (record.RecordedCause(
        'host-class', 12, 'shared-00001',
        'a shared host, a dedicated guest'),),
    'PinnedTopologyFilter': (
        record.RecordedCause(
            'free-cpus', 46, 'dedicated-00001',
            'cell 0 has 4 free dedicated CPUs, 24 needed; cell 1 has 16 free '
            'dedicated CPUs, 24 needed'),
        record.RecordedCause('no-topology', 2, 'bare-00001', ''))}


def _refusal(instance=SERVER, request_id=REQUEST, minute=0, refused=_REFUSED):
    return record.NoHost(
        instance, request_id, f'2026-08-14T09:{minute:02}:31.204Z',
        'enterprise.6xlarge', 'controller-1', refused)


class TestCase(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.record = self.dir / 'record'
        self.record.mkdir()
        # What nova reads by default is not one of this test's business.
        self.useFixture(fixtures.MockPatch(
            'oslo_config.cfg.find_config_files', return_value=[]))
        self.useFixture(fixtures.MockPatch(
            'oslo_config.cfg.find_config_dirs', return_value=[]))

    def _keep(self, process, *refusals, limit=200):
        ring = record.RefusalRing(limit)
        for refusal in refusals:
            ring.add(refusal)
        value = json.loads(ring.text())
        value.update(process=process, host='controller-1',
                     since='2026-08-14T06:00:00.000Z')
        (self.record / f'nova-pinning-{process}.json').write_text(
            json.dumps(value))

    def _explain(self, *argv):
        return self.run_command('explain', *argv)

    def _explain_record(self, *argv):
        return self._explain('--record', str(self.record), *argv)

    def _json(self, *argv):
        done = self._explain_record('-f', 'json', *argv)
        self.assertEqual('', done.err)
        return done.status, json.loads(done.out)


@ddt.ddt
class TestWithoutFleet(TestCase):

    def test_without_nova(self):
        """No database is asked either."""
        self._keep(4171, _refusal())
        loaded = set(sys.modules)
        done = self._explain_record('--server', SERVER)
        self.assertEqual((1, ''), (done.status, done.err))
        self.assertFalse({name for name in set(sys.modules) - loaded
                          if name.split('.')[0] in ('nova', 'sqlalchemy')})
        shown = ' '.join(done.out.split())
        for text in (
                f'No host for {SERVER} at 2026-08-14T09:00:31.204Z',
                f'enterprise.6xlarge, {REQUEST}, by nova-scheduler on '
                'controller-1, process 4171',
                'HostClassFilter refused 12 hosts',
                'PinnedTopologyFilter refused 48 hosts',
                'host reports no NUMA topology bare-00001'):
            self.assertIn(text, shown)
        self.assertNotIn('before', shown)
        self.assertNotIn('Note', shown)
        for line in done.out.splitlines():
            self.assertLessEqual(len(line), 80)

    def test_rows(self):
        self._keep(4171, _refusal())
        done = self._explain_record(
            '--server', SERVER, '-f', 'value', '-c', 'filter', '-c', 'hosts')
        self.assertEqual(
            (1, 'HostClassFilter 12\nPinnedTopologyFilter 46\n'
                'PinnedTopologyFilter 2\n'), (done.status, done.out))
        done = self._explain_record('--server', 'req-unknown', '-f',
                                    'value')
        self.assertEqual((0, ''), (done.status, done.out))

    def test_page(self):
        """The page shows how that begins which is printed."""
        self._keep(4171, _refusal())
        done = self._explain_record('--server', SERVER)
        shown = ''.join(f'   {line}'.rstrip() + '\n'
                        for line in done.out.splitlines())
        _before, _call, told = test_explain.PAGE.read_text().rpartition(
            f'       --server {SERVER}\n')
        told, _end, _after = told.partition('   ...\n')
        self.assertIn(SERVER, told)
        self.assertTrue(shown.startswith(told), told)

    def test_a_reason_of_a_newer_release(self):
        self._keep(1, _refusal(refused={
            'NewFilter': (record.RecordedCause('quite-new', 1, 'a', 'b'),)}))
        self.assertIn('quite-new', self._explain_record(
            '--server', SERVER).out)

    def test_the_last_one_counts(self):
        """Of all processes, by the time."""
        self._keep(1, _refusal(minute=1), _refusal(minute=4))
        self._keep(2, _refusal(minute=2), _refusal(minute=5))
        self._keep(3, _refusal(minute=3), _refusal('other', minute=9))
        done = self._explain_record('--server', SERVER)
        self.assertIn('at 2026-08-14T09:05:31', done.out)
        self.assertIn('It found none 4 times before', done.out)
        status, found = self._json('--server', SERVER)
        self.assertEqual(1, status)
        self.assertEqual({
            'version': 1, 'remarks': [], 'refusal': {
                **record.as_dict(_refusal(minute=5)), 'process': 2,
                'earlier': 4}}, found)

    def test_by_request(self):
        self._keep(1, _refusal('other', 'req-2', 5), _refusal(minute=1),
                   _refusal('third', None, 6))
        _status, found = self._json('--server', REQUEST)
        self.assertEqual(SERVER, found['refusal']['instance'])
        _status, found = self._json('--server', 'req-2')
        self.assertEqual('other', found['refusal']['instance'])

    def test_none(self):
        self._keep(1, _refusal('other'), _refusal('third', 'req-3'), limit=1)
        for argv, about in ((('--server', SERVER), SERVER),
                            (('--server', 'req-9'), 'req-9')):
            done = self._explain_record(*argv)
            self.assertEqual((0, ''), (done.status, done.err))
            shown = ' '.join(done.out.split())
            for text in (
                    'Note: nova-scheduler on controller-1 remembers no '
                    f'refusal of {about}', 'back to 2026-08-14T06',
                    'oldest 1 are forgotten', 'another controller'):
                self.assertIn(text, shown)
            status, found = self._json(*argv)
            self.assertEqual((0, None), (status, found['refusal']))
            self.assertEqual(1, len(found['remarks']))

    def test_empty(self):
        _status, found = self._json('--server', SERVER)
        self.assertIn(f'no record to {self.record}', found['remarks'][0])

    def test_what_cannot_be_read(self):
        self._keep(1, _refusal())
        for name, text in (('foreign', '{"a": 1}'),
                           ('newer', '{"version": 2}'),
                           ('torn', '{"version": 1, "ho')):
            (self.record / f'nova-pinning-{name}.json').write_text(text)
        os.mkfifo(self.record / 'nova-pinning-pipe.json')
        status, found = self._json('--server', SERVER)
        self.assertEqual(1, status)
        self.assertEqual(SERVER, found['refusal']['instance'])
        notes = found['remarks']
        self.assertEqual(4, len(notes), notes)
        for note, text in zip(notes, (
                'has no version', 'this release reads version 1',
                'not a regular file', 'cut off')):
            self.assertIn('not looked at: ', note)
            self.assertIn(str(self.record), note)
            self.assertIn(text, note)
        self.assertIn('Note: not looked at',
                      self._explain_record('--server', SERVER).out)

    def test_as_nova_conf_says(self):
        self._keep(1, _refusal())
        path = self.write(
            'nova.conf', f'[pinning]\nmetrics_directory = {self.record}\n')
        done = self._explain('--config-file', path, '--server', SERVER)
        self.assertEqual(1, done.status, done.err)
        self.assertIn(f'No host for {SERVER}', done.out)

    @ddt.data(
        ((), 'metrics_directory is not set in nova.conf'),
        (('--config-file', 'gone'), '--record names the directory'),
        (('--record', 'gone'), 'gone: cannot be read: No such file'),
        (('--record', '/dev/null'), 'Not a directory'))
    @ddt.unpack
    def test_nothing_to_look_at(self, argv, said):
        done = self._explain('--server', SERVER, *argv)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(said, done.err)

    @ddt.data(
        (('--flavor', 'a'), 'FLEET: is needed for --flavor'),
        (('--flavor', 'a', '--record', 'd'), '--record: goes with --server'),
        (('fleet.json', '--flavor', 'a', '--record', 'd'), '--record: goes'),
        (('--record', 'd'), 'required'))
    @ddt.unpack
    def test_bad_input(self, argv, said):
        done = self._explain(*argv)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(said, done.err)

    def test_control_characters(self):
        self._keep(1, _refusal('\x1b[31mred'))
        done = self._explain_record('--server', '\x1b[31mred')
        self.assertEqual(1, done.status)
        self.assertNotIn('\x1b', done.out)


@ddt.ddt
class TestWithFleet(TestCase):
    """What the record says, and then what the fleet says today."""

    def setUp(self):
        super().setUp()
        self.fleet = str(self.dir / 'fleet.json')
        document.write(self.fleet, generate.generate_fleet(
            3, 'two-socket-80', 3, filled=0.5, shared=0.3))
        self.useFixture(fixtures.MockPatch(
            'nova_pinning.bridge.importer.request_specs.stored_request',
            return_value=request_specs.StoredRequest(
                server=SERVER, flavor=explain_cases.flavor(2),
                image_properties={'hw_cpu_policy': 'dedicated'})))

    @ddt.data(('--server', SERVER), ('--server', 'req-another'))
    def test_both(self, argv):
        """A request id leads to the server, of which others may be known."""
        self._keep(4171, _refusal())
        done = self._explain_record(self.fleet, *argv)
        self.assertEqual((0, ''), (done.status, done.err))
        first, then = done.out.split(' (2 vCPUs')
        self.assertIn(f'No host for {SERVER} at', first)
        self.assertIn('It fits', then)
        status, found = self._json(self.fleet, *argv)
        self.assertEqual((0, 4171), (status, found['refusal']['process']))
        self.assertTrue(found['hosts_fitting'])

    def test_none(self):
        self._keep(1)
        status, found = self._json(self.fleet, '--server', SERVER)
        self.assertEqual((0, None), (status, found['refusal']))
        self.assertIn('remembers no refusal of', found['remarks'][-1])
        self.assertIn('Note: nova-scheduler on', self._explain_record(
            self.fleet, '--server', SERVER).out)

    def test_nothing_to_look_at(self):
        """A note: there is more to say."""
        done = self._explain(self.fleet, '--server', SERVER)
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('is not set in nova.conf', ' '.join(done.out.split()))

    def test_a_file_that_is_not_there(self):
        done = self._explain(self.fleet, '--server', SERVER, '--config-file',
                             'gone')
        self.assertEqual((2, ''), (done.status, done.out))

    def test_no_such_directory(self):
        path = self.write('nova.conf', '[pinning]\nmetrics_directory = gone\n')
        done = self._explain(
            self.fleet, '--server', SERVER, '--config-file', path)
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('Note: gone: cannot be read', done.out)
        done = self._explain(
            self.fleet, '--server', SERVER, '--record', 'gone')
        self.assertEqual((2, ''), (done.status, done.out))

    def test_a_flavor(self):
        """Nobody has asked nova for it."""
        done = self._explain(self.fleet, '-f', 'json', '--flavor',
                             'dedicated-2')
        found = json.loads(done.out)
        self.assertEqual((None, []), (found['refusal'], found['remarks']))
