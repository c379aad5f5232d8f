# SPDX-License-Identifier: Apache-2.0
"""What the tests of commands have in common."""

import contextlib
import dataclasses
import io
import logging
import pathlib
import re

import fixtures

from nova_pinning.admission import outcome
from nova_pinning.cli import shell
from nova_pinning.tests.unit import unit_base

ETC = pathlib.Path(__file__).parents[4] / 'etc' / 'nova-pinning'
CATALOGUE = str(ETC / 'flavors.yaml')
HOST = str(ETC / 'hosts' / 'xeon-80-dedicated.yaml')
CELLS = outcome.Doubt(outcome.DoubtKind.CELLS, 'it has no host file')
_WROTE = re.compile('^wrote (/.*)\n', re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """How a command ended.

    :param err: what stands on the error output besides
    :param wrote: the files that it says it has written
    """

    status: int
    out: str
    err: str
    wrote: tuple[str, ...]


def imported(fleet):
    """A fleet as the compute API alone tells of it."""
    return dataclasses.replace(fleet, enabled_filters=(), hosts=tuple(
        dataclasses.replace(
            host, cells=(), l3_domains=(),
            inventories=host.root_inventories, gaps=(CELLS,))
        for host in fleet.hosts))


class TestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        # Tables are as wide as this says.
        self.useFixture(fixtures.EnvironmentVariable('COLUMNS', '80'))
        self.dir = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def write(self, name, text):
        """Write a file; returns its path as text."""
        path = self.dir / name
        path.write_text(text)
        return str(path)

    def run_command(self, *argv, program=shell.main):
        """Run nova-pinning, or another program, in this process."""
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level
        out, err = io.StringIO(), io.StringIO()
        try:
            with (contextlib.redirect_stdout(out),
                  contextlib.redirect_stderr(err)):
                try:
                    status = program(argv)
                except SystemExit as end:
                    status = end.code
        finally:
            # cliff adds handlers of its own.
            root.handlers[:] = handlers
            root.setLevel(level)
        said = err.getvalue()
        return Done(status, out.getvalue(), _WROTE.sub('', said),
                    tuple(_WROTE.findall(said)))
