# SPDX-License-Identifier: Apache-2.0
"""How OpenStackClient finds the commands, and what a cloud is called."""

import argparse
import ast
import importlib.metadata
import subprocess
import sys
import types

import ddt
from osc_lib.command import command
from oslotest import base as oslotest

from nova_pinning.cli import checking
from nova_pinning.osc import plugin


class Config(types.SimpleNamespace):

    def get_auth_args(self):
        return self.auth

    def get_region_name(self):
        return self.region


@ddt.ddt
class TestPlugin(oslotest.BaseTestCase):

    @ddt.data(
        ('north', 'north', {}, None),
        ('north/r1', 'north', {}, 'r1'),
        ('keystone.example:5000/r1', 'envvars',
         {'auth_url': 'https://keystone.example:5000/v3'}, 'r1'),
        ('127.0.0.1:80', 'defaults',
         {'endpoint': 'http://127.0.0.1:80/v2.1'}, None),
        ('without a name', None, {}, None),
    )
    @ddt.unpack
    def test_name(self, expected, name, auth, region):
        connection = types.SimpleNamespace(
            config=Config(name=name, auth=auth, region=region))
        cloud = plugin.make_client(
            types.SimpleNamespace(sdk_connection=connection))
        self.assertEqual(expected, cloud.name)

    def test_entry_points(self):
        version = plugin.DEFAULT_API_VERSION
        found = importlib.metadata.entry_points(
            group=f'openstack.{plugin.API_NAME}.v{version}')
        self.assertEqual(
            {'pinning_flavor_apply', 'pinning_flavor_check',
             'pinning_flavor_export', 'pinning_fleet_import',
             'pinning_host_list', 'pinning_host_set',
             'pinning_rebalance_apply', 'pinning_rebalance_plan',
             'pinning_reserve_apply', 'pinning_segregation_apply',
             'pinning_segregation_check'},
            {one.name for one in found})
        for one in found:
            made = one.load()(None, None)
            self.assertIsInstance(made, command.Command)
            self.assertTrue(type(made).__doc__)

    def test_checks_have_one_set_of_options(self):
        """Of both programs."""
        wanted = argparse.ArgumentParser()
        checking.add_options(wanted)
        checks = [
            one for group in (
                f'openstack.{plugin.API_NAME}.v{plugin.DEFAULT_API_VERSION}',
                'nova_pinning.cli')
            for one in importlib.metadata.entry_points(group=group)
            if one.name.endswith('_check')]
        self.assertEqual(6, len(checks))
        for one in checks:
            parser = one.load()(None, None).get_parser(one.name)
            for flag, action in wanted._option_string_actions.items():
                self.assertEqual(
                    action.help,
                    parser._option_string_actions[flag].help, one.name)

    def test_other_commands_do_not_pay_for_it(self):
        """OpenStackClient loads all commands before it runs one."""
        code = ('import sys, importlib.metadata, osc_lib.command.command\n'
                'before = set(sys.modules)\n'
                'import nova_pinning.osc.plugin\n'
                'for one in importlib.metadata.entry_points('
                'group="openstack.pinning.v1"):\n'
                '    one.load()\n'
                'print(sorted(name for name in set(sys.modules) - before '
                'if "." in name or name not in sys.stdlib_module_names))')
        done = subprocess.run([sys.executable, '-c', code], check=True,
                              capture_output=True, text=True)
        self.assertEqual(
            ['nova_pinning', 'nova_pinning.compat', 'nova_pinning.errors',
             'nova_pinning.extras', 'nova_pinning.osc',
             'nova_pinning.osc.commands', 'nova_pinning.osc.plugin'],
            ast.literal_eval(done.stdout))
