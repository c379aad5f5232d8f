# SPDX-License-Identifier: Apache-2.0
"""openstack pinning flavor check, without a cloud."""

import contextlib
import io
import json
from unittest import mock

import ddt
import fixtures
from oslotest import base as oslotest

from nova_pinning.flavors import flavor_model
from nova_pinning.osc import flavor
from nova_pinning.tests.unit.flavors import check_samples
from nova_pinning.tests.unit.flavors import fake_flavor_cloud

SOUND = check_samples.flavor(
    {**check_samples.DEDICATED, 'hw:sound_model': 'virtio'})


@ddt.ddt
class TestCheckFlavors(oslotest.BaseTestCase):

    def run_command(self, microversion, *arguments):
        """Run it against a cloud whose compute API ends at 2.N.

        :returns: (exit status, output, error output)
        """
        self.useFixture(fixtures.FakeLogger())
        app = mock.Mock()
        app.client_manager.pinning = self.cloud = mock.Mock(**{
            'flavors.return_value': (SOUND,),
            'microversion.return_value': microversion})
        self.cloud.name = 'north'
        command = flavor.CheckFlavors(app, None)
        output, error = io.StringIO(), io.StringIO()
        with (contextlib.redirect_stdout(output),
              contextlib.redirect_stderr(error)):
            parser = command.get_parser('check')
            status = command.run(parser.parse_args(list(arguments)))
        return status, output.getvalue(), error.getvalue()

    @ddt.data(
        (96, ['2024.1', '2024.2'], 'error'),
        (100, ['2025.1', '2025.2'], 'warning'),
        (103, ['2026.1'], None),
        (95, ['2024.1'], 'error'))
    @ddt.unpack
    def test_what_the_api_tells(self, microversion, releases, severity):
        _status, output, error = self.run_command(microversion, '-f', 'json')
        found = json.loads(output)
        self.assertEqual(releases, found['releases'])
        self.assertEqual('', error)
        self.assertIn(f'ends at version 2.{microversion}',
                      found['remarks'][0])
        self.assertEqual(severity, next(
            (one['severity'] for one in found['findings']
             if one['code'] == 'N101'), None))

    @ddt.data((None, 'does not say which versions'), (110, 'newer than'))
    @ddt.unpack
    def test_a_release_that_is_not_known(self, microversion, words):
        _status, output, error = self.run_command(microversion, '-f', 'json')
        found = json.loads(output)
        self.assertEqual([], found['releases'])
        self.assertIn(f'warning: {found["remarks"][0]}\n', error)
        self.assertIn(words, error)
        self.assertNotIn('N1', [one['code'][:2]
                                for one in found['findings']])

    def test_a_release_that_is_named(self):
        status, output, error = self.run_command(100, '--release', '2025.1')
        self.assertEqual((1, ''), (status, error))
        self.assertIn('N101 error', output)
        self.cloud.microversion.assert_not_called()

    def test_table(self):
        _status, output, _error = self.run_command(100)
        self.assertIn('does not tell 2025.1 from 2025.2; name the release '
                      'with --release', ' '.join(output.split()))
        self.assertIn('the cloud runs 2025.1 or 2025.2',
                      ' '.join(output.split()))


@ddt.ddt
class TestRefusals(oslotest.BaseTestCase):
    """What nova-api would not take keeps a flavor as it is."""

    CATALOGUE = """
version: 2
name: ours
%s
families:
  f:
    sizes: {a: {vcpus: 1, memory: 1GiB, extra_specs: {%s}}}
"""
    BAD = '"hw:numa_mempolicy": strict'

    @ddt.data(
        # Nothing that is there already is sent again.
        ('', BAD, {'hw:numa_mempolicy': 'strict'}, ''),
        ('', BAD, {'hw:numa_mempolicy': 'preferred'},
         'N001: nova refuses hw:numa_mempolicy=strict'),
        ('nova_release: "2025.1"', '"hw:sound_model": virtio', {},
         'N101: nova 2025.1 does not know hw:sound_model=virtio'),
        ('nova_release: "2026.2"', '"hw:sound_model": virtio', {}, ''))
    @ddt.unpack
    def test_dry_run(self, release, wanted, there, obstacle):
        [path] = self.create_tempfiles(
            [('flavors', self.CATALOGUE % (release, wanted))], '.yaml')
        cloud = fake_flavor_cloud.FakeCloud([flavor_model.Flavor(
            name='f.a', id='1', vcpus=1, memory_mib=1024,
            extra_specs={'hw:cpu_policy': 'shared'} | there)])
        output = io.StringIO()
        with (mock.patch.object(flavor.ApplyFlavors, 'cloud', cloud),
              contextlib.redirect_stdout(output)):
            command = flavor.ApplyFlavors(mock.Mock(), None)
            parser = command.get_parser('apply')
            status = command.run(parser.parse_args(
                [path, '--adopt', '--dry-run', '--format', 'json']))
        self.assertEqual(1, status)
        [change] = json.loads(output.getvalue())['changes']
        self.assertEqual('adopt', change['action'])
        self.assertEqual(obstacle, change['obstacle'][:len(obstacle) or None])


class TestConfirmation(oslotest.BaseTestCase):

    CATALOGUE = """
version: 2
name: ours
families:
  f:
    sizes: {a: {vcpus: 1, memory: 1GiB, extra_specs: {"hw:boot_menu": "true"}}}
"""

    def test_servers_come_and_go_while_it_is_asked(self):
        [path] = self.create_tempfiles([('flavors', self.CATALOGUE)], '.yaml')
        cloud = fake_flavor_cloud.FakeCloud([flavor_model.Flavor(
            name='f.a', id='1', vcpus=1, memory_mib=1024,
            extra_specs={'pinning:catalogue': 'ours'})])

        def answer(_cloud, _form):
            cloud.used.add('1')
            return True

        with (mock.patch.object(flavor.ApplyFlavors, 'cloud', cloud),
              mock.patch.object(flavor.applying, 'is_agreed', answer),
              contextlib.redirect_stdout(io.StringIO())):
            command = flavor.ApplyFlavors(mock.Mock(), None)
            status = command.run(
                command.get_parser('apply').parse_args([path]))
        self.assertEqual(0, status)
        self.assertIn('hw:boot_menu', cloud.stored['1'].extra_specs)
