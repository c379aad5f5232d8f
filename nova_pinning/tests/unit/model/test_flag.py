# SPDX-License-Identifier: Apache-2.0
"""Yes and no, held against what nova makes of them."""

import hypothesis
from hypothesis import strategies as st
from oslo_utils import strutils
from oslotest import base as oslotest

from nova_pinning.model import flag
from nova_pinning.tests.unit import unit_base

_WORDS = strutils.TRUE_STRINGS + strutils.FALSE_STRINGS


def _as_nova(text):
    try:
        return strutils.bool_from_string(text, strict=True)
    except ValueError:
        return None


@st.composite
def _texts(draw):
    """A word, most of the time one that nova takes, somehow spelt."""
    word = draw(st.one_of(st.sampled_from(_WORDS), st.text(max_size=5)))
    spelt = draw(st.sampled_from([str, str.upper, str.title]))(word)
    return draw(st.sampled_from(['{}', ' {}', '{}\n', '{}{}'])).format(
        spelt, spelt)


class TestParse(oslotest.BaseTestCase):

    def test_words(self):
        for word in _WORDS:
            self.assertIs(_as_nova(word), flag.parse(word))
        self.assertIs(True, flag.parse(' True'))
        self.assertIsNone(flag.parse('maybe'))
        self.assertIsNone(flag.parse(''))

    @unit_base.settings(300)
    @hypothesis.given(_texts())
    def test_as_nova(self, text):
        self.assertIs(_as_nova(text), flag.parse(text))
