# SPDX-License-Identifier: Apache-2.0
"""The audit of a large cloud: how long it takes, and how much memory."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from benchmarks.speed import commands
from benchmarks.speed import judging
from benchmarks import tables

#: Servers on hosts of the other class, which have to be found.
MISPLACED = 40
#: How much more memory than for the smallest cloud is still the same.
MEMORY_FACTOR = 1.25


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One cloud to be audited.

    :param limit_s: the bar, wall-clock time from start to end; None for a
        cloud that only shows what there is to compare with
    :param request_ms: how long the stub waits before each answer
    :param server_ms: and for each server in it, as nova's API takes
    """

    name: str
    title: str
    hosts: int
    servers: int
    limit_s: float | None = None
    request_ms: float = 0
    server_ms: float = 0


CASES = (
    Case('audit-small', '2,000 hosts, 5,000 servers', 2000, 5000),
    Case('audit', '2,000 hosts, 50,000 servers', 2000, 50000, limit_s=120),
    Case('audit-slow', 'the same, 50 ms + 4 ms a server', 2000, 50000,
         limit_s=120, request_ms=50, server_ms=4),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What an audit took.

    :param memory_mib: the most that the command held at once
    :param findings: violations that it found, of ``MISPLACED``
    """

    case: Case
    seconds: float
    memory_mib: float
    findings: int

    @property
    def verdict(self) -> judging.Verdict:
        """The verdict on what it found, and on the time of its one run."""
        if self.findings != MISPLACED:
            return judging.Verdict.WRONG
        if self.case.limit_s is None:
            return judging.Verdict.NONE
        return judging.of_time((self.seconds, self.seconds), self.case.limit_s)


def is_flat(outcomes: Sequence[Outcome]) -> bool:
    """Whether ten times the servers take no more memory to speak of."""
    used = [outcome.memory_mib for outcome in outcomes]
    return not used or max(used) <= MEMORY_FACTOR * min(used)


@contextlib.contextmanager
def _stub(case: Case) -> Iterator[int]:
    """A stub of a cloud, in its own process.

    :returns: its port
    """
    with subprocess.Popen(
            [sys.executable, '-m', 'benchmarks.speed.stubcloud',
             f'--hosts={case.hosts}', f'--servers={case.servers}',
             f'--misplaced={MISPLACED}', f'--request-ms={case.request_ms}',
             f'--server-ms={case.server_ms}'],
            cwd=pathlib.Path(__file__).parents[2], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        try:
            yield int(process.stdout.readline())
        finally:
            # It ends with its input.
            process.stdin.close()


def measure(case: Case, *options: str) -> Outcome:
    """Audit one cloud.

    :param options: more of the command's own
    :raises commands.CommandFailed: if the command fails
    """
    with _stub(case) as port, tempfile.TemporaryDirectory() as directory:
        root = f'http://127.0.0.1:{port}'
        clouds = pathlib.Path(directory, 'clouds.json')
        # JSON is YAML.
        clouds.write_text(json.dumps({'clouds': {'stub': {
            'auth_type': 'none', 'auth': {},
            'compute_endpoint_override': f'{root}/v2.1',
            'placement_endpoint_override': f'{root}/placement'}}}))
        environment = {
            key: value for key, value in os.environ.items()
            if not key.startswith('OS_')} | {
                'OS_CLOUD': 'stub', 'OS_CLIENT_CONFIG_FILE': str(clouds),
                'PYTHONWARNINGS': 'ignore'}
        # Status 1: there is something to find.
        done = commands.ProcessRun.of(
            [sys.executable, '-m', 'openstackclient.shell', 'pinning',
             'segregation', 'check', '--format', 'json', *options],
            (0, 1), environment)
        try:
            findings = json.loads(done.stdout)['findings']
        except ValueError:
            raise commands.CommandFailed(
                f'the audit said {done.stdout[:500]!r}') from None
    return Outcome(case, done.seconds, done.peak_mib, len(findings))


def table(outcomes: Iterable[Outcome]) -> tables.FigureTable:
    """What audits took."""
    return tables.FigureTable(
        [('audit', 'time', 'memory', 'bar', 'verdict'),
         *((outcome.case.title, f'{outcome.seconds:.1f} s',
            f'{outcome.memory_mib:.0f} MiB',
            f'< {outcome.case.limit_s:g} s' if outcome.case.limit_s else '-',
            outcome.verdict) for outcome in outcomes)],
        'One run each of "openstack pinning segregation check" against a stub '
        'of both APIs in its own process, over loopback HTTP: wall-clock time '
        'from start to end, and the most memory that the command held. Where '
        'a row names times, the stub waits so long before each answer, and '
        'for each server in it.')


def run(cases: Sequence[Case], step: Callable[[str], None]) -> list[Outcome]:
    """Audit all clouds in turn.

    :param step: called with the name of each that is done
    """
    outcomes = []
    for case in cases:
        outcomes.append(measure(case))
        step(case.name)
    return outcomes
