# SPDX-License-Identifier: Apache-2.0
"""The contributor guide's table of all that writes."""

import ast
import csv
import importlib.metadata
import pathlib
import re

from oslotest import base as oslotest

TESTS = pathlib.Path(__file__).parents[1]
TABLE = TESTS.parents[1] / 'doc/source/contributor/commands-that-write.csv'
#: Options of commands that write a file or ask before they change a cloud.
WRITING = {'output', 'svg', 'fleet_after', 'yes', 'dry_run'}
GROUPS = {'nova_pinning.cli': 'nova-pinning ',
          'openstack.pinning.v1': 'openstack '}


def rows():
    with TABLE.open(newline='') as lines:
        return list(csv.DictReader(lines))


class TestTable(oslotest.BaseTestCase):

    def test_every_command_that_writes_is_in_it(self):
        told = {name for row in rows()
                for name in re.findall('``(.*?)``', row['Command'])}
        for group, prefix in GROUPS.items():
            for entry in importlib.metadata.entry_points(group=group):
                name = prefix + entry.name.replace('_', ' ')
                parser = entry.load()(None, None).get_parser(name)
                options = {action.dest for action in parser._actions}
                if options & WRITING:
                    self.assertIn(name, told)

    def test_the_tests_are_there(self):
        for row in rows():
            self.assertTrue(row['Shown by'], row)
            for test in row['Shown by'].split():
                module, _, name = test.partition(':')
                path = TESTS.joinpath(*module.split('.')).with_suffix('.py')
                # Functional tests cannot be imported beside unit tests.
                nodes = ast.parse(path.read_text()).body
                for part in name.split('.'):
                    found = [node.body for node in nodes
                             if getattr(node, 'name', '') == part]
                    self.assertEqual(1, len(found), test)
                    nodes = found[0]
