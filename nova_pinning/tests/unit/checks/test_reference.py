# SPDX-License-Identifier: Apache-2.0
"""The pages that list all rules."""

import importlib.util
import pathlib

from nova_pinning.checks import reference
from nova_pinning.host import levers
from nova_pinning.tests.unit.checks import samples
from nova_pinning.tests.unit import unit_base
from nova_pinning.upgrade import register
from nova_pinning.upgrade import register_page

TOOL = (pathlib.Path(__file__).parents[4] / 'tools'
        / 'write_check_references.py')


class TestReference(unit_base.TestCase):

    def test_sections(self):
        page = reference.page(samples.RULES)
        self.assertTrue(page.endswith('''

Numbers
-------

X101: odd number
~~~~~~~~~~~~~~~~

*Error*: it breaks.

Remedy: make it even.

In a catalogue: write it even.

X102: large number
~~~~~~~~~~~~~~~~~~

*Warning*: it takes long.

Remedy: take a smaller one.

Moving ones
-----------

X201: number that moved
~~~~~~~~~~~~~~~~~~~~~~~

*Note*: it hurts.

Remedy: hold it.
'''), page)

    def test_up_to_date(self):
        if not TOOL.is_file():
            self.skipTest('not run from a checkout')
        spec = importlib.util.spec_from_file_location('tool', TOOL)
        tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tool)
        for name, rules in tool.REGISTRIES.items():
            self.assertEqual(
                reference.page(rules), (tool.DIRECTORY / name).read_text(),
                f'{name} is stale: run tools/write_check_references.py')
        self.assertEqual(
            tool.snapshot_schema(),
            (tool.DIRECTORY / tool.SNAPSHOT).read_text(),
            f'{tool.SNAPSHOT} is stale: run tools/write_check_references.py')
        self.assertEqual(
            levers.page(), (tool.DIRECTORY / tool.LEVERS).read_text(),
            f'{tool.LEVERS} is stale: run tools/write_check_references.py')
        self.assertEqual(
            register_page.page(register.shipped()),
            (tool.DIRECTORY / tool.DEFECTS).read_text(),
            f'{tool.DEFECTS} is stale: run tools/write_check_references.py')
        self.assertEqual(
            register_page.moves_table(register.shipped()),
            tool.MOVES.read_text(),
            f'{tool.MOVES} is stale: run tools/write_check_references.py')
        self.assertEqual(
            tool.scheduler_metrics(), tool.METRICS.read_text(),
            f'{tool.METRICS} is stale: run tools/write_check_references.py')
