# SPDX-License-Identifier: Apache-2.0
"""Where a guest lies, as a plan's document has it."""

import dataclasses
from typing import Annotated

from nova_pinning.document import codec
from nova_pinning.document import cpu_sequence
from nova_pinning.document import terms
from nova_pinning import model

_Sequence = Annotated[tuple[int, ...], codec.Form(
    Annotated[str, codec.Limit(
        title='a sequence of CPUs such as 4-7,44-47', maxLength=262144,
        pattern='^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$')],
    cpu_sequence.text_of, cpu_sequence.parse)]


@dataclasses.dataclass(slots=True)
class WrittenCell:
    """A cell of a guest.

    :param cell: the host's
    :param vcpus: those that are pinned
    :param cpus: the host CPU of each of these vCPUs, in their order
    """

    cell: terms.Node
    vcpus: _Sequence = ()
    cpus: _Sequence = ()
    emulator_cpus: _Sequence = ()
    page_size_kib: Annotated[int, codec.Limit(
        title='a page size in KiB', minimum=1)] | None = None

    def __post_init__(self) -> None:
        if len(self.vcpus) != len(self.cpus):
            raise codec.MisfitError(
                f'has {len(self.cpus)} CPUs for {len(self.vcpus)} vCPUs',
                'cpus')


def _written(fit: model.Fit) -> tuple[WrittenCell, ...]:
    return tuple(map(_written_cell, fit.cells))


def _written_cell(cell: model.CellFit) -> WrittenCell:
    vcpus, cpus = zip(*cell.pins) if cell.pins else ((), ())
    return WrittenCell(cell.host_cell, vcpus, cpus, cell.emulator_cpus,
                       cell.page_size_kib)


def _read(cells: tuple[WrittenCell, ...]) -> model.Fit:
    return model.Fit(tuple(
        model.CellFit(cell.cell, tuple(zip(cell.vcpus, cell.cpus)),
                      cell.emulator_cpus, cell.page_size_kib)
        for cell in cells))


#: How a ``model.Fit`` is written.
FORM = codec.Form(
    Annotated[tuple[WrittenCell, ...], codec.Limit(minItems=1, maxItems=1024)],
    _written, _read)
