# SPDX-License-Identifier: Apache-2.0
"""What is run inside a guest around a command, whatever gets it there.

What the command prints is kept in memory until it ends, so that what moves it
does not run beside the command.
"""

from collections.abc import Callable
import itertools
import os
import time

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import polling
from nova_pinning.instance_bench.platforms import process

#: Empty when an instance starts; commands run there.
WORK = '/var/tmp/nova-pinning-bench'
#: Where the image has the programs of this project.
PROGRAMS = '/usr/local/lib/nova-pinning-bench'
#: What of an output is kept: its end, since the last match counts. libvirt
#: passes on no longer answer of an agent than 4 MiB, in base64.
MOST_STDOUT = 2 * 1024 * 1024
MOST_STDERR = 256 * 1024

_HANDSHAKES = 5
# By how much a clock may run fast or slow while it is kept right.
_SLEW = 0.001
_LOOK_SECONDS = 0.1
# The first line says how the command ended. The status of all of it is 0 when
# everything has been printed.
_SCRIPT = """
export HOME=/root LC_ALL=C
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p "$1" && cd "$1" && mkdir "$2" || exit 1
/bin/sh -c "$3" </dev/null >"$2/stdout" 2>"$2/stderr"
echo $?
tail -c {stdout} "$2/stdout" && tail -c {stderr} "$2/stderr" >&2 &&
rm -r "$2"
""".format(stdout=MOST_STDOUT, stderr=MOST_STDERR)

_numbers = itertools.count(1)


def script(command: str) -> list[str]:
    """The argument vector that runs a command of /bin/sh inside."""
    directory = f'/dev/shm/nova-pinning-bench-{os.getpid()}-{next(_numbers)}'
    return ['/bin/sh', '-c', _SCRIPT, 'bench', WORK, directory, command]


def outcome(name: str, status: int, stdout: str,
            stderr: str) -> platform_interface.CommandOutcome:
    """Read what the script has printed.

    :param name: of the instance, for errors
    :param status: of the script
    :raises bench_errors.InstanceError: if the script has not come to its end
    """
    head, _newline, printed = stdout.partition('\n')
    if status or not head.isdecimal():
        raise bench_errors.InstanceError(
            f'{name}: a command was cut off, or could not be started: '
            f'{process.said(stderr)}',
            'the guest needs space in /dev/shm')
    return platform_interface.CommandOutcome(
        status=process.exit_status(int(head)), stdout=printed, stderr=stderr)


def wait(job: platform_interface.RunningJob, seconds: float,
         name: str) -> platform_interface.CommandOutcome:
    """How a command ends.

    :param name: of what runs, for errors
    :raises bench_errors.InstanceError: if it does not end in so many seconds
    """
    for _look in polling.looks(seconds, _LOOK_SECONDS):
        ended = job.poll()
        if ended is not None:
            return ended
    raise bench_errors.InstanceError(f'{name} within {seconds:g} s')


def handshake(name: str,
              ask: Callable[[], float]) -> instance_clock.ClockReading:
    """A guest's clock and ours: of a few handshakes the quickest.

    One during which our own clock was set is not taken.

    :param name: of the instance, for errors
    :param ask: what the guest's clock says, in seconds since the epoch
    :raises bench_errors.InstanceError: if none can be taken, and what ``ask``
        raises
    """
    readings = []
    for _number in range(_HANDSHAKES):
        began, before = time.monotonic(), time.time()
        inside = ask()
        after, passed = time.time(), time.monotonic() - began
        if 0 <= after - before and (
                abs(after - before - passed) <= _SLEW * (1 + passed)):
            readings.append(instance_clock.ClockReading(
                before=before, inside=inside, after=after))
    if not readings:
        raise bench_errors.InstanceError(
            f'{name}: the clock of this host is being set, so that its own '
            'cannot be compared with it', 'let it be set slowly, see chrony')
    return min(readings, key=lambda reading: reading.uncertainty)
