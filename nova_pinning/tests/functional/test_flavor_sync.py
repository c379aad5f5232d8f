# SPDX-License-Identifier: Apache-2.0
"""openstack pinning flavor ..., as people run it, against nova's own API."""

import json
import os
import pty
import signal
import subprocess
import threading
from unittest import mock

import ddt
from nova import context
from nova import objects
import yaml

from nova_pinning.flavors import flavor_cloud
from nova_pinning.flavors import sync
from nova_pinning.model import nova_release
from nova_pinning.osc import applying
from nova_pinning.tests.functional import flavorsync
from nova_pinning.tests.functional import functional_base

CATALOGUE = """
version: 2
name: ours
families:
  enterprise:
    class: dedicated
    sizes:
      large: {vcpus: 2, memory: 512MiB}
      xlarge: {vcpus: 4, memory: 1GiB}
  shared:
    class: shared
    access: {projects: [p1]}
    sizes:
      large: {vcpus: 2, memory: 512MiB}
"""


class CommandTestCase(flavorsync.SyncTestCase):

    COMMAND = ('pinning', 'flavor')

    @classmethod
    def start(cls, nova):
        nova.start_host('host', functional_base.small_host())
        return {}

    def setUp(self):
        super().setUp()
        self.catalogue(CATALOGUE)

    def catalogue(self, text):
        [self.path] = self.create_tempfiles([('flavors', text)], '.yaml')

    def arguments(self):
        return ['--os-auth-type', 'none', '--os-endpoint', self.api.url]

    def asked(self):
        """The requests, without the search for the API's version."""
        return [request for request in self.api.requests
                if request[1].rstrip('/') != '/v2.1']


@ddt.ddt
class TestCommands(functional_base.OneCloud, CommandTestCase):

    def test_from_nothing_to_done(self):
        before = self.state()
        output, _error = self.call_command('apply', self.path, '--dry-run',
                                           status=1)
        self.assertIn('create enterprise.large\n  + vcpus: 2\n', output)
        self.assertIn('  + hw:cpu_policy: dedicated\n', output)
        self.assertIn('3 to create', output)
        self.assertEqual(before, self.state())

        output, error = self.call_command('apply', self.path, '--yes')
        self.assertIn('created shared.large\n3 created\n', output)
        self.assertEqual('', error)
        state = self.state()
        self.assertEqual(['p1'], state['shared.large']['access'])
        self.assertEqual('dedicated', state['enterprise.large'][
            'extra_specs']['hw:cpu_policy'])
        for name in before:
            self.assertEqual(before[name], state[name])

        output, _error = self.call_command('apply', self.path, '--dry-run',
                                           '--format', 'json')
        self.assertEqual({'unchanged'}, {
            change['action'] for change in json.loads(output)['changes']})

        self.catalogue(CATALOGUE.replace('vcpus: 4', 'vcpus: 3').replace(
            'large: {vcpus: 2', 'small: {vcpus: 2'))
        output, _error = self.call_command(
            'apply', self.path, '--yes', '--keep-unlisted', '--format',
            'json')
        self.assertEqual(
            [('enterprise.small', 'create', 'done'),
             ('enterprise.xlarge', 'replace', 'done'),
             ('shared.small', 'create', 'done')],
            [(result['name'], result['action'], result['status'])
             for result in json.loads(output)['results']])
        output, _error = self.call_command('apply', self.path, '--yes')
        self.assertIn('retired enterprise.large\nretired shared.large\n'
                      '2 retired\n', output)
        self.assertEqual(
            {*before, 'enterprise.small', 'enterprise.xlarge',
             'shared.small'}, set(self.state()))

    def test_a_bad_catalogue(self):
        self.catalogue(CATALOGUE.replace('512MiB', '512 apples'))
        _output, error = self.call_command('apply', self.path, status=2)
        self.assertIn(f'error: {self.path}:', error)
        self.assertIn('apples', error)
        self.assertEqual([], self.asked())

    def test_nobody_to_ask(self):
        output, error = self.call_command(
            'apply', '--brief', self.path, status=2)
        # What it would have asked about is shown all the same.
        self.assertTrue(output.startswith('create enterprise.large\ncreate '),
                        output)
        self.assertIn('3 to create', output)
        self.assertIn('--yes', error)
        self.assertEqual({'GET'}, {method for method, *_ in self.asked()})
        self.call_command('apply', self.path, '--yes')
        self.call_command('apply', self.path)

    def test_a_cloud_that_is_not_there(self):
        arguments = self.command('apply', self.path, '--dry-run')
        arguments[arguments.index(self.api.url)] = 'http://127.0.0.1:9/v2.1'
        done = subprocess.run(
            [*arguments[:1], '-c', 'import time, runpy, sys; '
             'time.sleep = lambda s: None; sys.argv[0] = "openstack"; '
             'runpy.run_module("openstackclient.shell", '
             'run_name="__main__")', *arguments[3:]],
            env=self.environment(), capture_output=True, text=True)
        self.assertEqual(1, done.returncode)
        self.assertIn('error: cloud 127.0.0.1:9: ', done.stderr)
        self.assertNotIn('Traceback', done.stderr)

    def test_export_and_adopt(self):
        for name, specs in (('m1.small', {}),
                            ('m1.tiny.specs', {'hw:numa_nodes': '1'})):
            self.nova.create_flavor(name, 1, 512, specs)
        before = self.state()
        output, _error = self.call_command('export', '--name', 'taken-over')
        self.catalogue(output)
        output, _error = self.call_command('apply', self.path, '--yes',
                                           status=1)
        self.assertIn('conflict m1.small: it exists and belongs to no '
                      'catalogue; --adopt takes it over', output)
        self.assertEqual(before, self.state())

        self.call_command('apply', self.path, '--yes', '--adopt')

        after = self.state()
        for one in after.values():
            self.assertEqual('taken-over',
                             one['extra_specs'].pop('pinning:catalogue'))
            self.assertEqual('m1', one['extra_specs'].pop(
                'pinning:family').partition('.')[0])
        self.assertEqual(before, after)
        self.call_command('apply', self.path, '--dry-run')

        output, _error = self.call_command('export', 'm1.tiny.specs')
        self.assertEqual('taken-over', yaml.safe_load(output)['name'])
        _output, error = self.call_command('export', 'm1.smal', status=2)
        self.assertIn('m1.small', error)

    def test_servers_are_in_the_way(self):
        self.call_command('apply', self.path, '--yes')
        flavor = self.state()['enterprise.large']
        server = self.nova.boot('guest', flavor['id'])
        self.assert_active([server])
        self.catalogue(CATALOGUE.replace(
            'large: {vcpus: 2, memory: 512MiB}\n      xl',
            'large: {vcpus: 1, memory: 512MiB}\n      xl'))

        output, _error = self.call_command('apply', self.path, '--dry-run',
                                           status=1)
        self.assertIn('is used by 1 server (guest (', output)
        output, _error = self.call_command('apply', self.path, '--yes',
                                           status=1)
        self.assertIn('left enterprise.large as it is: it (id '
                      f'{flavor["id"]}) is used by 1 server (guest (', output)
        self.assertEqual(flavor, self.state()['enterprise.large'])

        self.nova.delete(server)
        self.call_command('apply', self.path, '--yes')
        self.assertEqual(1, self.state()['enterprise.large']['vcpus'])

    def test_an_extra_spec_that_nova_does_not_take(self):
        self.call_command('apply', self.path, '--yes')
        before = self.state()
        changed = CATALOGUE.replace(
            'xlarge: {vcpus: 4, memory: 1GiB}',
            'xlarge: {vcpus: 4, memory: 2GiB, extra_specs: '
            '{"hw:numa_mempolicy": strict}%s}')
        self.catalogue(changed % '')
        output, _error = self.call_command('apply', self.path, '--dry-run',
                                           status=1)
        self.assertIn(
            'replace enterprise.xlarge: nova cannot change memory_mib in '
            'place; N001: nova refuses hw:numa_mempolicy=strict', output)
        output, _error = self.call_command('apply', self.path, '--yes',
                                           status=1)
        self.assertIn('left enterprise.xlarge as it is: N001', output)

        # Where nova is another one than here, it is asked itself.
        self.catalogue(changed % ', ignore: {N001: ours takes it}')
        for _run in range(2):
            output, _error = self.call_command('apply', self.path, '--yes',
                                               status=1)
            self.assertIn('failed to replace enterprise.xlarge: POST',
                          output)
            self.assertIn('400', output)
            self.assertEqual(before, self.state())

    def test_servers_that_keep_their_extra_specs(self):
        self.call_command('apply', self.path, '--yes')
        flavor = self.state()['enterprise.large']
        self.assert_active([self.nova.boot('guest', flavor['id'])])
        self.catalogue(CATALOGUE.replace(
            'class: dedicated',
            'class: dedicated\n    extra_specs: {"hw:watchdog_action": none}'))

        output, _error = self.call_command('apply', self.path, '--dry-run',
                                           status=1)
        self.assertIn('update enterprise.large: 1 server (guest (', output)
        output, _error = self.call_command('apply', self.path, '--yes')
        self.assertIn('updated enterprise.large: 1 server (guest (', output)
        self.assertIn('resize each to another flavor and back', output)

        before = self.state()
        self.catalogue(CATALOGUE.replace('class: dedicated', 'class: shared'))
        output, _error = self.call_command('apply', self.path, '--yes',
                                           status=1)
        self.assertIn('left enterprise.large as it is: its class would change '
                      'from dedicated to shared while it is used by 1 server',
                      output)
        self.assertEqual(before['enterprise.large'],
                         self.state()['enterprise.large'])
        self.assertIn('updated enterprise.xlarge\n', output)

    def test_check(self):
        self.call_command('apply', self.path, '--yes')
        output, _error = self.call_command('check', '--format', 'json',
                                           'enterprise', status=1)
        found = json.loads(output)
        self.assertEqual(2, found['flavors'])
        # As far as the API tells.
        self.assertIn(str(nova_release.of_nova_version(found['nova'])),
                      found['releases'])
        self.assertIn('the compute API of cloud', found['remarks'][0])
        self.assertIn(f'cloud {self.api.url[7:-5]}',
                      found['findings'][0]['source'])
        output, _error = self.call_command('check', status=1)
        self.assertIn('enterprise.large', output)
        _output, error = self.call_command('check', '--image-property', 'x',
                                           status=2)
        self.assertIn('--image-property', error)


class TestPeople(functional_base.OneCloud, CommandTestCase):
    """On a terminal."""

    def run_on_terminal(self, answer):
        """Apply, and answer the question.

        :returns: the exit status and all that was on the terminal
        """
        leader, follower = pty.openpty()
        self.addCleanup(os.close, leader)
        process = subprocess.Popen(
            self.command('apply', self.path), env=self.environment(),
            stdin=follower, stdout=follower, stderr=follower)
        os.close(follower)
        shown = b''
        while True:
            try:
                more = os.read(leader, 65536)
            except OSError:
                break
            shown += more
            if answer and b'[y/N] ' in shown:
                answer = os.write(leader, answer) and None
        return process.wait(), shown.decode()

    def test_yes(self):
        status, shown = self.run_on_terminal(b'y\n')
        self.assertEqual(0, status, shown)
        self.assertIn('3 created', shown)
        self.assertIn('enterprise.large', self.state())

    def test_changed_while_the_question_stood_there(self):
        self.call_command('apply', self.path, '--yes')
        before = self.state()
        self.catalogue(CATALOGUE.replace('vcpus: 4', 'vcpus: 3'))

        def change_meanwhile(cloud, form):
            objects.Flavor.get_by_name(
                context.get_admin_context(), 'enterprise.xlarge').destroy()
            return True

        with mock.patch.object(applying, 'is_agreed', change_meanwhile):
            shown = self.call_command('apply', self.path, status=1)
        self.assertIn('run the command again', '\n'.join(shown))
        del before['enterprise.xlarge']
        self.assertEqual(before, self.state())


@ddt.ddt
class TestKilled(functional_base.OneCloud, CommandTestCase):

    @ddt.data((7, signal.SIGKILL), (9, signal.SIGINT))
    @ddt.unpack
    def test_half_way(self, at, signum):
        self.call_command('apply', self.path, '--yes')
        end = self.state()
        self.catalogue('{version: 2, name: ours, families: {none: '
                       '{sizes: {none: {vcpus: 1, memory: 1MiB}}}}}')
        self.call_command('apply', self.path, '--yes')
        self.catalogue(CATALOGUE)
        started = threading.Event()
        died = threading.Event()

        def kill(number):
            if number == at:
                started.wait()
                process.send_signal(signum)
                # The answer must not be there before the end is.
                died.wait(5 if signum == signal.SIGKILL else 0.5)

        self.api.restart(before=kill)
        process = subprocess.Popen(
            self.command('apply', self.path, '--yes'),
            env=self.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            # A shell has what it runs in the background ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        started.set()
        _output, error = process.communicate()
        died.set()
        if signum == signal.SIGINT:
            self.assertEqual(130, process.returncode)
            self.assertIn('run the command again to finish', error)
        else:
            self.assertEqual(-signal.SIGKILL, process.returncode)
        self.api.restart()
        self.assertNotEqual(end, self.state())

        self.call_command('apply', self.path, '--yes')

        self.assertEqual(end, self.state())


class TestTwoAtOnce(CommandTestCase):

    def test_apply(self):
        self.call_command('apply', self.path, '--yes')
        end = self.state()
        self.catalogue(CATALOGUE.replace('vcpus: ', 'vcpus: 1'))
        self.call_command('apply', self.path, '--yes')
        self.catalogue(CATALOGUE)

        runs = [subprocess.Popen(
            self.command('apply', self.path, '--yes'),
            env=self.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for _run in range(2)]

        for run in runs:
            output, _error = run.communicate()
            self.assertEqual(0, run.returncode, output)
        self.assertEqual(end, self.state())


class TestMany(CommandTestCase):

    def test_pages(self):
        self.nova.stage.flags(max_limit=10, group='api')
        admin = context.get_admin_context()
        for number in range(40):
            objects.Flavor(
                admin, name=f'foreign-{number}', flavorid=f'f{number}',
                memory_mb=1, vcpus=1, root_gb=0, ephemeral_gb=0, swap=0,
                rxtx_factor=1.0, is_public=True).create()
        sizes = {f's{number}': {'vcpus': 1, 'memory': f'{number + 1}MiB'}
                 for number in range(60)}
        self.catalogue(json.dumps({
            'version': 2, 'name': 'many',
            'families': {'many': {'class': 'dedicated', 'sizes': sizes}}}))

        output, _error = self.call_command('apply', self.path, '--yes')

        self.assertIn('\n60 created\n', output)
        self.assertEqual(100, len(self.state()))
        self.api.restart()
        output, _error = self.call_command('apply', self.path, '--dry-run')
        self.assertIn('60 unchanged', output)
        self.assertEqual(11, len(self.asked()))

        # All of them are somebody's, seen from another catalogue.
        live = self.connect().flavors(lambda flavor: False)
        self.assertEqual(100, len(live))
        self.assertEqual((), sync.plan((), live, 'another'))
        self.assertEqual(flavor_cloud.MICROVERSION, '2.86')
