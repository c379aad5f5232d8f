# SPDX-License-Identifier: Apache-2.0
"""Instances of one size on hosts of different sizes."""

from oslotest import base

from nova_pinning.instance_bench.report import across_hosts
from nova_pinning.instance_bench.report import document
from nova_pinning.instance_bench.report import page
from nova_pinning.instance_bench.report import report_part
from nova_pinning.tests.unit.instance_bench.report import report_scenes


def _summary(cpus, run=None, **conditions):
    return (run or report_scenes.overhead()).summary(cpus=cpus, **conditions)


class TestTable(base.BaseTestCase):

    def test_two_hosts(self):
        found = across_hosts.table([
            _summary(112, report_scenes.overhead(by_size=1.2)), _summary(16)])
        # Each of 4 sizes of floating and pinned containers and guests, and of
        # pinned processes, on both.
        self.assertEqual(4 * 5 * 2, len(found.rows))
        size, cpus, share, ratio = zip(*(
            row[3:] for row in found.rows
            if row[1:3] == ('cn (namespaces)', 'vanilla')))
        self.assertEqual(('2', '2', '4', '4', '8', '8', '16', '16'), size)
        self.assertEqual(('16', '112') * 4, cpus)
        self.assertEqual(('1.0', '0.14'), share[-2:])
        # 1 + 0.6 * (0.05 + 0.6 / 2), and with twice of what sizes cost.
        self.assertTrue(ratio[0].startswith('1.21'), ratio)
        self.assertTrue(ratio[1].startswith('1.39'), ratio)

    def test_nothing_to_compare(self):
        self.assertIsNone(across_hosts.table([_summary(16)]))
        # Two runs of hosts of one size, or of unlike guests.
        self.assertIsNone(across_hosts.table([_summary(16), _summary(16)]))
        self.assertIsNone(across_hosts.table([
            _summary(16), _summary(8, report_scenes.levels())]))
        self.assertIsNone(across_hosts.table([
            _summary(16), _summary(0)]))

    def test_emulated_guests_are_another_platform(self):
        found = across_hosts.table([_summary(112), _summary(
            16, emulated=True, versions={'accelerator': 'tcg'})])
        self.assertEqual({'bm (process)', 'cn (namespaces)'},
                         {row[1] for row in found.rows})

    def test_where_it_is_shown(self):
        parts = [report_part.Part(f'{cpus}.jsonl', _summary(cpus))
                 for cpus in (16, 112)]
        title = 'One size on hosts of different sizes'
        self.assertIn(title, page.render(parts, '1'))
        self.assertNotIn(title, page.render(parts[:1], '1'))
        shown = document.report_document(parts)['hosts_of_different_sizes']
        self.assertEqual({'16', '112'}, {row['host CPUs'] for row in shown})
        self.assertEqual([], document.report_document(parts[:1])[
            'hosts_of_different_sizes'])
