# SPDX-License-Identifier: Apache-2.0
"""A command of the user's as a workload, and as many rounds as there is time.
"""

import subprocess
import tempfile
import time

from nova_pinning import errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import schedule

NAME = 'mine'
_WHERE = errors.Location('--command')
#: Fewer rounds have hardly an interval.
_LEAST_ROUNDS = 3
_MOST_SAID = 300
# Beside two others on its CPU it takes so much longer.
_SLOWER = 3


def workload(command: str, seconds: float) -> bench_model.Workload:
    """What is measured is how long the command takes.

    :param command: for /bin/sh, as it is: braces in it are no parameters
    :param seconds: that it takes alone, for estimates
    """
    return bench_model.Workload(
        name=NAME, workload_class=bench_model.WorkloadClass.CPU,
        about='A command of your own, and how long it takes.',
        command=command.replace('{', '{{').replace('}', '}}'), figures=(
            bench_model.WorkloadFigure(
                name='time', unit='s', better=bench_model.Better.LOWER,
                pattern=None),), seconds=_SLOWER * seconds)


def seconds(command: str, deadline_seconds: float) -> float:
    """How long it takes on this host, alone.

    :raises errors.InputError: if it fails, or does not end in time
    """
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix='nova-pinning-bench-') as work:
        try:
            done = subprocess.run(
                ['/bin/sh', '-c', command], cwd=work, text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, errors='replace', check=False,
                timeout=deadline_seconds)
        except subprocess.TimeoutExpired:
            raise errors.InputError(
                f'has not ended after {deadline_seconds:g} s', _WHERE,
                'give it less to do, or more time with --deadline') from None
    if done.returncode:
        raise errors.InputError(
            f'ended with status {done.returncode}: '
            + (' '.join(done.stderr[-_MOST_SAID:].split())
               or 'without a word'),
            _WHERE, 'it is run in an empty directory; name files by their '
            'whole paths')
    return time.monotonic() - begun


def window_seconds(planned: bench_model.Results) -> float:
    """A window into which two runs go, beside whatever others."""
    return max(planned.experiment.window_seconds, 2 * max(
        workload.seconds for workload in planned.workloads.values()))


def rounds(planned: bench_model.Results, minutes: float) -> int:
    """How many rounds there is time for.

    :param planned: of any number of rounds
    :raises errors.InputError: if there are too few
    """
    units = schedule.units(planned, lambda case: True)
    one = sum(unit.seconds for unit in units) / planned.experiment.rounds
    found = int(60 * minutes / one) if one else _LEAST_ROUNDS
    if found < _LEAST_ROUNDS:
        raise errors.InputError(
            f'a round of {planned.experiment.name} takes about '
            f'{one / 60:.1f} minutes, and {_LEAST_ROUNDS} are needed',
            errors.Location('--minutes'),
            f'give it {_LEAST_ROUNDS * one / 60 + 1:.0f} minutes, a shorter '
            '--window, or less to do')
    return found
