# SPDX-License-Identifier: Apache-2.0
"""The audit of a large cloud: how long it takes, and how much memory."""

import argparse
from collections.abc import Sequence
import dataclasses
import json
import os
import pathlib
import sys
import tempfile

from benchmarks import runner
from benchmarks.speed import commands
from benchmarks.speed import stubcloud

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


def measure(case: Case) -> tuple[commands.ProcessRun, int]:
    """Audit one cloud.

    :returns: the run, and how many violations it found
    :raises runner.BenchmarkError: if the command fails
    """
    cloud = stubcloud.StubCloud(case.hosts, case.servers, MISPLACED)
    with (stubcloud.serving(cloud, case.request_ms / 1000,
                            case.server_ms / 1000) as port,
          tempfile.TemporaryDirectory() as directory):
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
             'segregation', 'check', '--format', 'json'],
            (0, 1), environment)
        try:
            findings = json.loads(done.stdout)['findings']
        except ValueError:
            raise runner.BenchmarkError(
                f'the audit said {done.stdout[:500]!r}') from None
    return done, len(findings)


def summarise(case: Case, run: commands.ProcessRun, findings: int,
              most_mib: float) -> runner.Outcome:
    """What an audit took.

    :param most_mib: memory that it may take
    """
    return runner.outcome(
        case.name, case.title, {
            'seconds': runner.Figure(run.seconds, '{:.1f} s', case.limit_s),
            'memory_mib': runner.Figure(
                run.peak_mib, '{:.0f} MiB', most_mib)},
        () if findings == MISPLACED else [
            f'found {findings} violations where there are {MISPLACED}'])


def measure_all(cases: Sequence[Case], _options: argparse.Namespace,
                step: runner.Step) -> list[runner.Outcome]:
    """Audit all clouds in turn: more servers must not take more memory."""
    done = []
    for case in cases:
        done.append((case, *measure(case)))
        step(case.name)
    most_mib = MEMORY_FACTOR * min(run.peak_mib for _case, run, _ in done)
    return [summarise(*audit, most_mib) for audit in done]


GROUP = runner.Group(
    key='audits', cases=CASES, measure=measure_all,
    # Most of its time is waited.
    is_quick=lambda case: not case.request_ms,
    headings=('audit', 'time', 'memory', 'bar'),
    explain=lambda _outcomes, _options: (
        'One run each of "openstack pinning segregation check" against a stub '
        'of both APIs in another process, over loopback HTTP: wall-clock time '
        'from start to end, and the most memory that the command held. Where '
        'a row names times, the stub waits so long before each answer, and '
        'for each server in it.'))
