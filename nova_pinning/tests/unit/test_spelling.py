# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_pinning.spelling."""

import ddt
from oslotest import base

from nova_pinning import spelling


@ddt.ddt
class TestSpelling(base.BaseTestCase):

    @ddt.data(
        ('hostclasfilter', ['HostClassFilter']),
        ('CPU-Policy', ['cpu_policy']),
        ('cpu', ['cpus', 'cpu_policy']), ('', []), ('memory', []))
    @ddt.unpack
    def test_nearest(self, word, expected):
        self.assertEqual(expected, spelling.nearest(
            word, ('HostClassFilter', 'cpu_policy', 'cpus'),
            least_alike=0.45))

    def test_did_you_mean(self):
        self.assertEqual('did you mean eth1 or eth0?',
                         spelling.did_you_mean('eth', ('eth0', 'eth1', 'lo')))
        self.assertEqual('did you mean eth1?', spelling.did_you_mean(
            'eth', ('eth0', 'eth1'), 1))
        self.assertEqual('', spelling.did_you_mean('eth', ('lo',)))

    @ddt.data(
        ('hw:cpu_polcy', 'hw:cpu_policy'), ('hw:CPU-policy', 'hw:cpu_policy'),
        ('hw:mem_pagesize', 'hw:mem_page_size'),
        ('hw:vif_multiqueue', 'hw:vif_multiqueue_enabled'),
        ('hw:cpu_threads_policy', 'hw:cpu_thread_policy'),
        ('hw:numa_mem', 'hw:numa_mem.0'))
    @ddt.unpack
    def test_slip(self, word, name):
        self.assertTrue(spelling.is_slip(word, name))

    @ddt.data(('hw:cpu_model', 'hw:usb_model'),
              ('hw:numa_mempolicy', 'hw:numa_mem.0'),
              ('hw:cpu_cores', 'hw:cpu_max_threads'))
    @ddt.unpack
    def test_another_name(self, word, name):
        self.assertFalse(spelling.is_slip(word, name))

    @ddt.data(('pm', True), ('pmux', True), ('pnu', True), ('pum', True),
              ('pmu', True), ('', False), ('upm', False), ('pmxy', False))
    @ddt.unpack
    def test_edit(self, word, expected):
        self.assertEqual(expected, spelling.is_edit(word, 'pmu'))

    @ddt.data(
        ('Zürich 東京', 'Zürich 東京'), ('a\x1b[31m\x9b', 'a?[31m?'),
        ('\u202egpj\u2069', '?gpj?'), ('a\nb\t\udcff', 'a\nb??'))
    @ddt.unpack
    def test_printable(self, text, expected):
        self.assertEqual(expected, spelling.printable(text, '\n'))
