# SPDX-License-Identifier: Apache-2.0

import ddt
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.host import words


@ddt.ddt
class TestWords(oslotest.BaseTestCase):

    @ddt.data(('', 'no CPU'), ('3', 'CPU 3'), ('3-5,8', 'CPUs 3-5,8'))
    @ddt.unpack
    def test_cpus(self, cpus, expected):
        self.assertEqual(expected, words.cpus(cpuset.CpuSet.parse(cpus)))

    @ddt.data((0, 'guest', '0 guests'), (1, 'process', '1 process'),
              (2, 'process', '2 processes'))
    @ddt.unpack
    def test_count(self, number, noun, expected):
        self.assertEqual(expected, words.count(number, noun))

    @ddt.data(('a', 'a'), ('ab', 'a and b'), ('abc', 'a, b and c'))
    @ddt.unpack
    def test_listed(self, names, expected):
        self.assertEqual(expected, words.listed(tuple(names)))

    @ddt.data((0.0, '0 µs'), (6.8e-05, '68 µs'), (1.29e-05, '12.9 µs'),
              (0.0125, '12.5 ms'), (0.9996, '1,000 ms'), (1.0, '1 s'),
              (3.02345, '3.02 s'), (1234.5, '1,234 s'))
    @ddt.unpack
    def test_duration(self, seconds, text):
        self.assertEqual(text, words.duration(seconds))
