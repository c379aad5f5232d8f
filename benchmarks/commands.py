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

"""How long people wait for a command, and the bar for each."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import pathlib
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

_ETC = pathlib.Path(__file__).parents[1] / 'etc' / 'nova-pinning'
_PROGRAM = (sys.executable, '-m', 'nova_pinning.cli.main')

#: So many sizes of three shipped families, and the four of one that has its
#: own, make a thousand flavors.
_MANY_SIZES = 332


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """One command to be timed.

    :param limit_s: the bar, wall-clock time from start to end; None for a
        command that only shows what there is to compare with
    :param arguments: of the program; BIG stands for the big catalogue's file
    :param statuses: exit statuses that are no failure
    """

    name: str
    title: str
    limit_s: float | None
    arguments: tuple[str, ...]
    statuses: tuple[int, ...] = (0,)

    @property
    def bar(self) -> str:
        """The bar in words."""
        return '-' if self.limit_s is None else f'< {self.limit_s:g} s'


_CATALOGUE = str(_ETC / 'flavors.yaml')
_HOST = str(_ETC / 'hosts' / 'xeon-80-dedicated.yaml')

COMMANDS = (
    Command('python', 'python itself', None,
            (sys.executable, '-c', 'pass')),
    Command('nova', 'python and nova, imported', None,
            (sys.executable, '-c', 'import nova.virt.libvirt.driver')),
    Command('flavor-show', 'flavor show', 0.4,
            (*_PROGRAM, 'flavor', 'show', _CATALOGUE)),
    Command('flavor-diff', 'flavor diff', 0.4,
            (*_PROGRAM, 'flavor', 'diff', _CATALOGUE, _CATALOGUE)),
    Command('help', 'flavor show --help', 0.4,
            (*_PROGRAM, 'flavor', 'show', '--help')),
    Command('guest-show', 'guest show', 4,
            (*_PROGRAM, 'guest', 'show', '--flavor',
             f'{_CATALOGUE}:enterprise.2xlarge', '--host', _HOST)),
    Command('flavor-check', 'flavor check, 1,000 flavors', 10,
            (*_PROGRAM, 'flavor', 'check', 'BIG'), statuses=(0, 1)),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """What one command took, in seconds, run after run."""

    command: Command
    seconds: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return statistics.median(self.seconds)

    @property
    def met(self) -> bool:
        """Whether the bar is met, where there is one."""
        return (self.command.limit_s is None
                or self.median_s < self.command.limit_s)

    @property
    def verdict(self) -> str:
        """The verdict in one word."""
        if self.command.limit_s is None:
            return '-'
        return 'met' if self.met else 'MISSED'


class CommandFailed(Exception):
    """A command ended with another status than it should."""


def big_catalogue() -> str:
    """The shipped families, with sizes by rule that make 1,000 flavors."""
    sizes = ', '.join(str(2 * number + 2) for number in range(_MANY_SIZES))
    series = ('sizes:\n  standard:\n'
              f'    vcpus: [{sizes}]\n    memory_per_vcpu: 2GiB\n')
    shipped = (_ETC / 'flavors.yaml').read_text()
    start = shipped.index('\nsizes:\n') + 1
    end = shipped.index('\nfamilies:\n') + 1
    return shipped[:start] + series + shipped[end:]


@contextlib.contextmanager
def _catalogue_file() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, 'flavors.yaml')
        path.write_text(big_catalogue())
        yield str(path)


def measure(commands: Sequence[Command], rounds: int,
            step: Callable[[str], None]) -> list[Timing]:
    """Run all commands in turn, so many times each.

    One run before that is not counted: it fills the caches.

    :param step: called with the name of each command that is done
    :raises CommandFailed: if a command ends with a status that it should not
    """
    seconds: dict[str, list[float]] = {one.name: [] for one in commands}
    with _catalogue_file() as big:
        for number in range(rounds + 1):
            for command in commands:
                elapsed = _run(command, big)
                if number:
                    seconds[command.name].append(elapsed)
                step(command.name)
    return [Timing(command, tuple(seconds[command.name]))
            for command in commands]


def _run(command: Command, big: str) -> float:
    arguments = [big if word == 'BIG' else word for word in command.arguments]
    start = time.monotonic()
    done = subprocess.run(arguments, capture_output=True, text=True)
    elapsed = time.monotonic() - start
    if done.returncode not in command.statuses:
        raise CommandFailed(
            f'{" ".join(arguments)} ended with status {done.returncode}: '
            f'{done.stderr.strip()[-500:]}')
    return elapsed


def table(timings: Iterable[Timing], line: str = '-') -> list[str]:
    """The table's lines: a rule, headings, a rule, rows, a rule."""
    grid = [('command', 'time', 'slowest', 'bar', 'verdict')]
    grid += [(one.command.title, f'{one.median_s:.2f} s',
              f'{max(one.seconds):.2f} s', one.command.bar, one.verdict)
             for one in timings]
    return lines(grid, line)


def lines(grid: Sequence[Sequence[str]], line: str) -> list[str]:
    """A table of these cells: a rule, headings, a rule, rows, a rule."""
    widths = [max(map(len, column)) for column in zip(*grid)]
    rule = '  '.join(line * width for width in widths)
    rows = ['  '.join(cell.ljust(width)
                      for cell, width in zip(row, widths)).rstrip()
            for row in grid]
    return [rule, rows[0], rule, *rows[1:], rule]


def explain(rounds: int) -> str:
    """Say what the figures of the table are."""
    return ('Wall-clock time of whole processes, from start to end, all of '
            f'them in turn: medians of {rounds} rounds after one that fills '
            'the caches, and the slowest.')


def as_rst(timings: Sequence[Timing], rounds: int) -> list[str]:
    """The table for the documentation."""
    return [*table(timings, line='='), '',
            *textwrap.wrap(explain(rounds), 79), '']
