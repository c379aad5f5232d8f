# SPDX-License-Identifier: Apache-2.0
"""A fit, for people and for machines."""

from collections.abc import Iterator
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning import model


def lines(outcome: model.Fit) -> Iterator[str]:
    """Each guest cell with its host cell and pins, sentences without end."""
    for number, cell in enumerate(outcome.cells):
        text = f'guest cell {number} on host cell {cell.host_cell}'
        if cell.page_size_kib:
            size = quantities.shown_page_size(cell.page_size_kib)
            text += f', in pages of {size}'
        if cell.emulator_cpus:
            text += (', emulator threads on '
                     f'{cpuset.CpuSet(cell.emulator_cpus)}')
        yield text
        if cell.pins:
            yield 'vCPU->CPU: ' + ', '.join(
                f'{vcpu}->{cpu}' for vcpu, cpu in cell.pins)
    if not outcome.cells:
        yield 'its vCPUs float over the shared CPUs of the host'


def as_list(outcome: model.Fit) -> list[dict[str, Any]]:
    """The guest's cells, in their order."""
    return [{
        'host_cell': cell.host_cell,
        'pins': {str(vcpu): cpu for vcpu, cpu in cell.pins},
        'emulator_cpus': list(cell.emulator_cpus),
        'page_size_kib': cell.page_size_kib,
    } for cell in outcome.cells]
