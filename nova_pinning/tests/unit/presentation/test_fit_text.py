# SPDX-License-Identifier: Apache-2.0

from nova_pinning import model
from nova_pinning.presentation import fit_text
from nova_pinning.tests.unit import unit_base

_FIT = model.Fit((
    model.CellFit(2, ((0, 4), (1, 5)), (6,), 2048), model.CellFit(0)))


class TestFits(unit_base.TestCase):

    def test_lines(self):
        self.assertEqual([
            'guest cell 0 on host cell 2, in pages of 2 MiB, emulator '
            'threads on 6',
            'vCPU->CPU: 0->4, 1->5',
            'guest cell 1 on host cell 0'], list(fit_text.lines(_FIT)))

    def test_floating(self):
        self.assertEqual(
            ['its vCPUs float over the shared CPUs of the host'],
            list(fit_text.lines(model.Fit(()))))

    def test_as_list(self):
        self.assertEqual([
            {'host_cell': 2, 'pins': {'0': 4, '1': 5}, 'emulator_cpus': [6],
             'page_size_kib': 2048},
            {'host_cell': 0, 'pins': {}, 'emulator_cpus': [],
             'page_size_kib': None}], fit_text.as_list(_FIT))
