# SPDX-License-Identifier: Apache-2.0

import ddt
from oslotest import base as oslotest

from nova_pinning.document import size_mix
from nova_pinning import errors

_WHERE = errors.Location('--for')


@ddt.ddt
class TestParse(oslotest.BaseTestCase):

    @ddt.data(('8', [('8', 8, 0, 1)]),
              ('8:70, 32x2:30', [('8', 8, 0, 70), ('32x2', 32, 2, 30)]),
              ('16:2.5,small', [('16', 16, 0, 2.5), ('small', 0, 0, 1)]),
              ('4c8g:2', [('4c8g', 0, 0, 2)]),
              ('flavors.yaml:e.large:3', [('flavors.yaml:e.large', 0, 0, 3)]),
              ('vcpus=2 ram=1GiB hw:numa_cpus.0=0,1',
               [('vcpus=2 ram=1GiB hw:numa_cpus.0=0,1', 0, 0, 1)]))
    @ddt.unpack
    def test_sizes(self, text, expected):
        self.assertEqual(expected, [
            (share.what, share.vcpus, share.cells, share.weight)
            for share in size_mix.parse(text, _WHERE)])

    @ddt.data('', '8,', ',8', '0', '8:0', '8x0', '9x2', '8:x', '8,8:2', '-8',
              '8x2x2', ':3', '8.5', '200000', 'a:0')
    def test_none(self, text):
        error = self.assertRaises(
            errors.InputError, size_mix.parse, text, _WHERE)
        self.assertEqual('--for', str(error.where))

    def test_no_flavors(self):
        error = self.assertRaises(errors.InputError, size_mix.parse, 'small',
                                  _WHERE, takes_flavors=False)
        self.assertNotIn('flavor', error.advice)

    def test_whole_weights(self):
        for text, expected in (('8:70,16:30', [70, 30]),
                               ('8:2.5,16:1,4:0.2', [25, 10, 2])):
            self.assertEqual(expected, size_mix.whole_weights(
                size_mix.parse(text, _WHERE)))
