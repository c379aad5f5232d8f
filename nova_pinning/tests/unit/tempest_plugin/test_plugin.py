# SPDX-License-Identifier: Apache-2.0
"""Tests of what tempest loads."""

import dataclasses
import pathlib
import subprocess
import sys
from unittest import mock

from oslo_config import cfg
from tempest.lib import exceptions

from nova_pinning.tempest_plugin import cloud
from nova_pinning.tempest_plugin import config
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tempest_plugin import pinning_test
from nova_pinning.tempest_plugin import plugin
from nova_pinning.tests.unit.tempest_plugin import guest_samples
from nova_pinning.tests.unit import unit_base

IMPORT = """
import sys
from nova_pinning.tempest_plugin import {module}
sys.exit('nova' in sys.modules)
"""
PURE = ('checks', 'config', 'hosts', 'guest_look', 'machine', 'process',
        'runner', 'topology')
SERVER = guest_samples.UUID


class ImportTest(unit_base.TestCase):

    def _check(self, code):
        done = subprocess.run(
            [sys.executable, '-c', code], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.assertEqual(0, done.returncode, done.stdout)

    def test_without_nova(self):
        self._check(IMPORT.format(module=', '.join(PURE)))

    def test_tests_without_nova(self):
        tests = pathlib.Path(pinning_test.__file__).parent / 'tests'
        names = sorted(path.stem for path in tests.glob('test_*.py'))
        self.assertGreater(len(names), 5)
        code = IMPORT.replace(
            'from nova_pinning.tempest_plugin import',
            'from nova_pinning.tempest_plugin.tests import')
        self._check(code.format(module=', '.join(names)))


class PluginTest(unit_base.TestCase):

    def test_tests(self):
        directory, top = plugin.NovaPinningTempestPlugin().load_tests()
        self.assertTrue(pathlib.Path(directory, 'test_affinity.py').exists())
        self.assertTrue(pathlib.Path(top, 'nova_pinning').is_dir())

    def test_options(self):
        conf = cfg.ConfigOpts()
        made = plugin.NovaPinningTempestPlugin()
        made.register_opts(conf)
        conf(['--config-file', '/dev/null'])
        self.assertEqual({option.dest for option in config.OPTIONS},
                         set(conf.pinning))
        self.assertEqual([('pinning', config.OPTIONS)], made.get_opt_lists())


class BaseTest(unit_base.TestCase):
    """The tests' own means, on servers that are not as they should be."""

    def setUp(self):
        super().setUp()

        class Case(pinning_test.PinningTest):
            def runTest(self):
                pass

        self.host = hosts.ComputeHost('a', 'uuid-a', guest_samples.SETS,
                                      frozenset(),
                                      {'PCPU': 6, 'VCPU': 8})
        self.case = Case()
        self.case.hosts = {'a': self.host}
        self.case.been_on = {}
        self.specs = {}
        self.case.os_admin = mock.Mock()
        self.case.servers = mock.Mock()
        self.case.servers.show_server.return_value = {
            'server': {'OS-EXT-SRV-ATTR:host': 'a', 'status': 'ACTIVE',
                       'flavor': {'extra_specs': self.specs}}}
        self.guest, kept = guest_samples.dedicated()
        self._patch('kept', lambda server_id: kept)
        self._patch('machine_of', lambda host: guest_samples.MACHINE)
        self._patch('look_at', lambda host, server_id: self.guest)
        self.allocated = {'uuid-a': {'PCPU': 2}}
        patch = mock.patch.object(
            cloud, 'allocated', lambda clients, server_id: self.allocated)
        patch.start()
        self.addCleanup(patch.stop)

    def _patch(self, name, value):
        patch = mock.patch.object(self.case, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def test_good(self):
        seen = self.case.check(SERVER)
        self.assertEqual(self.host, seen.host)
        self.assertEqual([SERVER], self.case.guests_on(self.host))

    def test_stale_pin(self):
        self.guest = guest_samples.change_xml(self.guest, vcpu_pins={
            0: guest_samples.cpus('2'), 1: guest_samples.cpus('3')})
        error = self.assertRaises(AssertionError, self.case.check, SERVER)
        self.assertIn('vCPU 0 is pinned to 2, for nova it is on 4',
                      str(error))

    def test_not_there(self):
        self.guest = None
        error = self.assertRaises(AssertionError, self.case.check, SERVER)
        self.assertIn(f'a does not know {SERVER}', str(error))

    def test_allocated_elsewhere_too(self):
        other = hosts.ComputeHost('b', 'uuid-b', guest_samples.SETS,
                                  frozenset(), {})
        self.case.hosts['b'] = other
        self.allocated['uuid-b'] = {'PCPU': 2}
        self.assertRaises(AssertionError, self.case.check, SERVER)

    def test_another_amount_allocated(self):
        for amount in (0, 1, 3):
            self.allocated['uuid-a'] = {'PCPU': amount}
            self.assertRaises(AssertionError, self.case.check, SERVER)

    def test_shared_guest(self):
        """It has no dedicated CPU, or it is wrong."""
        self.guest, kept = guest_samples.shared()
        self._patch('kept', lambda server_id: kept)
        self.assertRaises(AssertionError, self.case.check, SERVER)
        self.allocated['uuid-a'] = {'VCPU': 2}
        self.case.check(SERVER)

    def test_emulator_policy_of_the_flavor(self):
        self.specs['hw:emulator_threads_policy'] = 'isolate'
        error = self.assertRaises(AssertionError, self.case.check, SERVER)
        self.assertIn('not on one dedicated CPU', str(error))

    def test_isolated_emulator_threads_are_allocated(self):
        self.specs['hw:emulator_threads_policy'] = 'isolate'
        self._patch('assert_clean', lambda complaints: None)
        self.assertRaises(AssertionError, self.case.check, SERVER)
        self.allocated['uuid-a'] = {'PCPU': 3}
        self.case.check(SERVER)

    def test_cpus_given_back_late(self):
        """What the host gets back in a while is waited for."""
        given = [{'PCPU': 4, 'VCPU': 8}, {'PCPU': 6, 'VCPU': 7},
                 {'PCPU': 6, 'VCPU': 8}]
        self._whole(given)
        self.assertEqual([], given)

    def test_cpus_never_given_back(self):
        error = self.assertRaises(
            AssertionError, self._whole, [{'PCPU': 4, 'VCPU': 8}] * 9)
        self.assertIn("now it has {'PCPU': 4, 'VCPU': 8}", str(error))

    def _whole(self, given):
        """Call assert_whole while Placement gives these free amounts."""
        def read_host(clients, host):
            return dataclasses.replace(host, free=given.pop(0))

        def call_until_true(function, seconds, pause):
            return any(function() for _second in range(5))

        self._patch('_assert_claimable', lambda host: None)
        with mock.patch.object(cloud, 'read_host', read_host), \
                mock.patch.object(
                    pinning_test.test_utils, 'call_until_true',
                    call_until_true):
            self.case.assert_whole(self.host)

    def test_allocation_left_behind(self):
        self.case.servers.show_server.side_effect = exceptions.NotFound
        self.assertRaises(AssertionError, self.case.delete, SERVER)

    def test_domain_left_behind(self):
        self.case.check(SERVER)
        self.case.servers.show_server.side_effect = exceptions.NotFound
        self.allocated = {}
        error = self.assertRaises(AssertionError, self.case.delete, SERVER)
        self.assertIn(f'a still has {SERVER}', str(error))

    def test_nothing_left_behind(self):
        self.case.check(SERVER)
        self.case.servers.show_server.side_effect = exceptions.NotFound
        self.allocated, self.guest = {}, None
        self.case.delete(SERVER)

    def test_hosts_for_a_test(self):
        self.assertEqual([self.host], self.case.pick(dedicated=6))

    def test_too_few_hosts(self):
        error = self.assertRaises(
            self.case.skipException, self.case.pick, dedicated=2, shared=1,
            count=2, what='with two NUMA nodes')
        self.assertEqual(
            '2 dedicated hosts with 2 free dedicated CPUs and 1 free shared '
            'CPUs, with two NUMA nodes, are needed; there are 1', str(error))

    def test_no_host_of_the_class(self):
        self.assertRaises(self.case.skipException, self.case.pick, shared=1)

    def test_log(self):
        log = self.create_tempfiles([('log', '\n'.join([
            f'No host for instance {SERVER}. F refused 1 host: x (a)',
            'No host for instance other. F refused 1 host: y (a)', '']))])[0]
        pinning = mock.Mock(scheduler_log_command=f'cat {log}')
        with mock.patch.object(pinning_test, 'CONF',
                               mock.Mock(pinning=pinning)):
            self.case.assert_logged(SERVER, 'F refused', 'x (a)')
            self.assertRaises(AssertionError, self.case.assert_logged,
                              SERVER, 'F refused', 'y (a)')
