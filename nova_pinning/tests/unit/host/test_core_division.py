# SPDX-License-Identifier: Apache-2.0
"""Cores that are divided between uses, as all commands tell of them."""

import ddt
from oslotest import base

from nova_pinning import cpuset
from nova_pinning.host import core_division


def cpus(text):
    return cpuset.CpuSet.parse(text)


@ddt.ddt
class TestText(base.BaseTestCase):

    @ddt.data(
        ('1-3,5-7', '', ''), ('', '0-7', ''), ('0-7', '0-7', ''),
        # Cores that are whole, one for each use.
        ('1-2,5-6', '3,7', ''),
        ('4', '', '1 core divided between uses: of CPUs 0,4, 4 dedicated, '
                  '0 for the host; no core is dedicated as a whole'),
        ('1,2,6', '5', '1 core divided between uses: of CPUs 1,5, 1 '
                       'dedicated, 5 shared; whole cores are dedicated CPUs '
                       '2,6'),
        ('1-3', '5', '3 cores divided between uses: of CPUs 1-3,5-7, 1-3 '
                     'dedicated, 5 shared, 6-7 for the host; no core is '
                     'dedicated as a whole'))
    @ddt.unpack
    def test_text(self, dedicated, shared, expected):
        cores = [(core, core + 4) for core in range(4)]
        self.assertEqual(expected, core_division.text(
            cores, cpus(dedicated), cpus(shared)))

    def test_nothing_is_known_of_the_others(self):
        """A snapshot has the cores as nova knows them."""
        self.assertEqual('', core_division.text(
            [(1,), (2, 6)], cpus('1-2,6'), cpus('')))
