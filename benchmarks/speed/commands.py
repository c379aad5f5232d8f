# SPDX-License-Identifier: Apache-2.0
"""How long people wait for a command, and the bar for each."""

import argparse
from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import functools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Self

from benchmarks import judging
from benchmarks import runner
from benchmarks.speed import measure as speed_measure
from nova_pinning.fleet import document
from nova_pinning.fleet import generate
from nova_pinning.tests import novadatabase

_HERE = pathlib.Path(__file__).parent
_ETC = _HERE.parents[1] / 'etc' / 'nova-pinning'
_PROGRAM = (sys.executable, '-m', 'nova_pinning.cli.shell')

#: So many sizes of three shipped families, and the four of one that has its
#: own, make a thousand flavors.
_MANY_SIZES = 332
#: Hosts of each snapshot, by the word that stands for it.
_FLEETS = {'FLEET': 5000, 'SMALL_FLEET': 1000}
_NOVA_HOSTS, _NOVA_GUESTS = 5000, 10


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """One command to be timed.

    :param limit_s: the bar, wall-clock time from start to end; None for a
        command that only shows what there is to compare with
    :param arguments: of the program; BIG stands for the big catalogue's file,
        FLEET for a snapshot of 5,000 hosts with about 50,000 guests,
        SMALL_FLEET for one of 1,000 hosts with about 8,500,
        NOVA_CONF for a nova.conf with databases, in SQLite files, of 5,000
        hosts with 50,000 guests, OUTPUT for a file to write
    :param statuses: exit statuses that do not mean failure
    :param is_long: left out of the quick form unless it is asked for
    :param limit_mib: the bar for its memory, None for none
    """

    name: str
    title: str
    limit_s: float | None
    arguments: tuple[str, ...]
    statuses: tuple[int, ...] = (0,)
    is_long: bool = False
    limit_mib: float | None = None


_CATALOGUE = str(_ETC / 'flavors.yaml')
_HOST = str(_ETC / 'hosts' / 'xeon-80-dedicated.yaml')

COMMANDS = (
    Command('python', 'python itself', None, (sys.executable, '-c', 'pass')),
    Command('nova', 'python and nova, imported', None,
            (sys.executable, '-c', 'import nova.virt.libvirt.driver')),
    Command('flavor-show', 'flavor show', 0.4,
            (*_PROGRAM, 'flavor', 'show', _CATALOGUE)),
    Command('help', 'flavor show --help', 0.4,
            (*_PROGRAM, 'flavor', 'show', '--help')),
    Command('guest-show', 'guest show', 4,
            (*_PROGRAM, 'guest', 'show', '--flavor',
             f'{_CATALOGUE}:enterprise.2xlarge', '--host-file', _HOST)),
    Command('host-plan', 'host plan --class both, 2,048 CPUs', 5,
            (*_PROGRAM, 'host', 'plan', str(_HERE / 'host.yaml'),
             '--class', 'both'), is_long=True),
    Command('flavor-check', 'flavor check, 1,000 flavors', 10,
            (*_PROGRAM, 'flavor', 'check', 'BIG'), statuses=(0, 1),
            is_long=True),
    Command('capacity', 'capacity, 5,000 hosts and 40 flavors', 10,
            (*_PROGRAM, 'capacity', 'FLEET', '--flavor',
             str(_HERE / 'flavors.yaml')), is_long=True),
    Command('upgrade-check', 'upgrade check, 1,000 hosts', 10,
            (*_PROGRAM, 'upgrade', 'check', 'SMALL_FLEET', '--from', '2025.1',
             '--to', '2026.1'), statuses=(1,)),
    Command('rebalance-plan', 'rebalance plan, 1,000 hosts', 20,
            (*_PROGRAM, 'rebalance', 'plan', 'SMALL_FLEET', '--for', '16',
             '--moves', '50', '--seconds', '15'), is_long=True),
    Command('rebalance-drain', 'rebalance plan --drain, 1,000 hosts', 20,
            (*_PROGRAM, 'rebalance', 'plan', 'SMALL_FLEET', '--drain',
             'dedicated-00001', '--drain', 'dedicated-00002'), is_long=True),
    Command('import', 'fleet import nova, 5,000 hosts', 120,
            (*_PROGRAM, 'fleet', 'import', 'nova', '--config-file',
             'NOVA_CONF', '--output', 'OUTPUT'), is_long=True,
            limit_mib=2048),
    Command('exporter', 'exporter --once, 5,000 hosts', 60,
            (*_PROGRAM, 'exporter', '--config-file', 'NOVA_CONF', '--once'),
            is_long=True, limit_mib=1536),
)


def big_catalogue(directory: pathlib.Path) -> str:
    """Write the shipped families, with sizes by rule: 1,000 flavors."""
    sizes = ', '.join(str(2 * number + 2) for number in range(_MANY_SIZES))
    series = ('sizes:\n  standard:\n'
              f'    vcpus: [{sizes}]\n    memory_per_vcpu: 2GiB\n')
    shipped = (_ETC / 'flavors.yaml').read_text()
    start = shipped.index('\nsizes:\n') + 1
    end = shipped.index('\nfamilies:\n') + 1
    path = directory / 'big.yaml'
    path.write_text(shipped[:start] + series + shipped[end:])
    return str(path)


def nova_conf(directory: pathlib.Path) -> str:
    """Fill databases of nova; returns the nova.conf that leads to them."""
    nova = novadatabase.NovaDatabase(directory)
    nova.create_tables()
    nova.add_mappings()
    nova.fill(_NOVA_HOSTS, _NOVA_GUESTS)
    nova.close()
    # So that it does for the exporter, too.
    nova.write_conf(f'[pinning_exporter]\nnova_conf = {nova.conf}\n')
    return str(nova.conf)


def _fleet(word: str, directory: pathlib.Path) -> str:
    """Hosts with eight to nine guests each, as churn leaves them."""
    path = str(directory / f'{word}.json.zst')
    document.write(path, generate.generate_fleet(
        _FLEETS[word], 'two-socket-80', 1, filled=0.85,
        mix='2:10,4:20,8:30,16:20,32x2:10', churn=1.0))
    return path


#: What makes the file that a word stands for, in a directory.
_MAKERS: Mapping[str, Callable[[pathlib.Path], str]] = {
    'BIG': big_catalogue,
    'NOVA_CONF': nova_conf,
    'OUTPUT': lambda directory: str(directory / 'output.json.zst'),
    **{word: functools.partial(_fleet, word) for word in _FLEETS}}


@contextlib.contextmanager
def _files(commands: Iterable[Command]) -> Iterator[dict[str, str]]:
    """The files that commands need, by the words that stand for them."""
    words = {word for command in commands for word in command.arguments}
    with tempfile.TemporaryDirectory() as directory:
        yield {word: make(pathlib.Path(directory))
               for word, make in _MAKERS.items() if word in words}


def measure(commands: Sequence[Command], options: argparse.Namespace,
            step: runner.Step) -> list[runner.Outcome]:
    """Run all commands in turn, so many times each.

    One run before that is not counted: it fills the caches.

    :raises runner.BenchmarkError: if a command ends with a status that it
        should not
    """
    runs: dict[str, list[ProcessRun]] = {
        command.name: [] for command in commands}
    with _files(commands) as files:
        for number in range(rounds(options) + 1):
            for command in commands:
                run = ProcessRun.of(
                    [files.get(word, word) for word in command.arguments],
                    command.statuses)
                if number:
                    runs[command.name].append(run)
                step(command.name)
    return [summarise(command, runs[command.name]) for command in commands]


def rounds(options: argparse.Namespace) -> int:
    """How often each command is run."""
    return speed_measure.plan_of(options).command_rounds


def summarise(command: Command,
              runs: 'Sequence[ProcessRun]') -> runner.Outcome:
    """What a command took, run after run."""
    seconds = [run.seconds for run in runs]
    peak_mib = max(run.peak_mib for run in runs)
    median = statistics.median(seconds)
    interval = judging.bootstrap(lambda rng: statistics.median(
        rng.choices(seconds, k=len(seconds))))
    return runner.Outcome(
        name=command.name, bars=[
            judging.below(figure, limit, unit.format)
            for figure, limit, unit in (
                (interval, command.limit_s, '{:.3g} s'),
                ((peak_mib,) * 2, command.limit_mib, '{:,.0f} MiB'))
            if limit is not None],
        cells=(command.title, f'{median:.2f} s', f'{max(seconds):.2f} s',
               f'{peak_mib:,.0f} MiB'))


@dataclasses.dataclass(frozen=True, slots=True)
class ProcessRun:
    """What a process took, from its start to its end.

    :param peak_mib: the most memory that it held at once
    """

    seconds: float
    peak_mib: float

    @classmethod
    def of(cls, arguments: Sequence[str],
           statuses: Container[int] = (0,)) -> Self:
        """Run a command line.

        :raises runner.BenchmarkError: if it ends with none of these statuses
        """
        with tempfile.TemporaryFile('w+') as stderr:
            start = time.monotonic()
            process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=stderr)
            _pid, status, used = os.wait4(process.pid, 0)
            seconds = time.monotonic() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode not in statuses:
                stderr.seek(0)
                raise runner.BenchmarkError(
                    f'{" ".join(arguments)} ended with status '
                    f'{process.returncode}: {stderr.read().strip()[-500:]}')
            return cls(seconds, used.ru_maxrss / 1024)


def explain(_outcomes: Sequence[runner.Outcome],
            options: argparse.Namespace) -> str:
    """Say what the figures of the table are."""
    return (
        'Wall-clock time of whole processes, from start to end, all of them '
        f'in turn: medians of {rounds(options)} rounds after one that fills '
        'the caches, and the slowest; memory is the most that one held.')


GROUP = runner.Group(
    cases=COMMANDS, measure=measure,
    is_quick=lambda command: not command.is_long,
    headings=('command', 'time', 'slowest', 'memory', 'bar'),
    explain=explain)
