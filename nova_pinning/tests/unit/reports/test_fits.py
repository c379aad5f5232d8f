#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

from nova_pinning import model
from nova_pinning.reports import fits
from nova_pinning.tests.unit import base

_FIT = model.Fit((
    model.CellFit(2, ((0, 4), (1, 5)), (6,), 2048), model.CellFit(0)))


class TestFits(base.TestCase):

    def test_lines(self):
        self.assertEqual([
            'guest cell 0 on host cell 2, in pages of 2 MiB, emulator '
            'threads on 6',
            'vCPU->CPU: 0->4, 1->5',
            'guest cell 1 on host cell 0'], list(fits.lines(_FIT)))

    def test_floating(self):
        self.assertEqual(
            ['its vCPUs float over the shared CPUs of the host'],
            list(fits.lines(model.Fit(()))))

    def test_as_list(self):
        self.assertEqual([
            {'host_cell': 2, 'pins': {'0': 4, '1': 5}, 'emulator_cpus': [6],
             'page_size_kib': 2048},
            {'host_cell': 0, 'pins': {}, 'emulator_cpus': [],
             'page_size_kib': None}], fits.as_list(_FIT))
