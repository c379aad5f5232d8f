# SPDX-License-Identifier: Apache-2.0
"""Words for people."""

import ddt
from oslotest import base as oslotest

from nova_pinning.host import words


@ddt.ddt
class TestWords(oslotest.BaseTestCase):

    @ddt.data((0, '0 s'), (89, '89 s'), (90, '2 min'), (3600, '60 min'),
              (5400, '1 h 30 min'), (7200, '2 h'), (360000, '100 h'))
    @ddt.unpack
    def test_span(self, seconds, text):
        self.assertEqual(text, words.span(seconds))

    @ddt.data((1, 'a'), (2, 'a and b'), (3, 'a, b and c'),
              (4, 'a, b, c and 1 more'), (5, 'a, b, c and 2 more'))
    @ddt.unpack
    def test_listed(self, number, text):
        self.assertEqual(text, words.listed('abcde'[:number], 3))
        self.assertEqual('a, b, c, d and e', words.listed('abcde'))
