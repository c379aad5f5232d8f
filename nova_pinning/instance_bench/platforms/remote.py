# SPDX-License-Identifier: Apache-2.0
"""What is run inside a guest around a command, whatever gets it there.

It takes the guest's own time, by /proc/uptime, which nobody sets while a
command runs, and keeps what the command prints in memory, so that what moves
it does not run beside the command.
"""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import itertools
import os

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import platform_interface

#: Empty when an instance starts; commands run there.
WORK = '/var/tmp/nova-pinning-bench'
#: Where 'bench image build' puts the programs of this project.
PROGRAMS = '/usr/local/lib/nova-pinning-bench'
#: Of /proc/uptime, twice.
_CLOCK_SECONDS = 0.02
#: What of an output is kept: its end, since the last match counts. libvirt
#: passes on no longer answer of an agent than 4 MiB, in base64.
MOST_STDOUT = 2 * 1024 * 1024
MOST_STDERR = 256 * 1024

_SIGNALS = range(129, 193)
_TRIALS = 3
_TRIAL_LOOK_SECONDS = 0.02
_SCRIPT = """
read -r first _ </proc/uptime
export HOME=/root LC_ALL=C
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mkdir "$2" && echo $$ >"$2/pid" && mkdir -p "$1" && cd "$1" || exit 1
read -r begun _ </proc/uptime
/bin/sh -c "$3" </dev/null >"$2/stdout" 2>"$2/stderr"
status=$?
read -r ended _ </proc/uptime
echo "$status $begun $ended"
tail -c {stdout} "$2/stdout"
tail -c {stderr} "$2/stderr" >&2
rm -r "$2"
read -r last _ </proc/uptime
echo "
$first $last"
""".format(stdout=MOST_STDOUT, stderr=MOST_STDERR)
_STOP = """
for try in 1 2 3 4 5 6 7 8 9 10; do
    [ -d "$1" ] || exit 0
    [ -s "$1/pid" ] && break
    sleep 0.1
done
# Without a --, which the shell itself takes for a process.
kill -KILL "-$(cat "$1/pid")"
rm -r "$1"
"""

_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A command as it is run inside, in its own session.

    :param start: argument vector that runs the command
    :param stop: argument vector that ends all of its process group; status 0
        or not, nothing of it runs then
    """

    start: Sequence[str]
    stop: Sequence[str]


def script(command: str, work: str) -> Script:
    """What is run for a command of /bin/sh."""
    directory = f'/dev/shm/nova-pinning-bench-{os.getpid()}-{next(_numbers)}'
    return Script(
        start=('setsid', '--wait', '/bin/sh', '-c', _SCRIPT, 'bench', work,
               directory, command),
        stop=('/bin/sh', '-c', _STOP, 'bench', directory))


def outcome(
    name: str, stdout: str, stderr: str,
    outside_seconds: float = 0.0, slack_seconds: float = 0.0,
) -> platform_interface.CommandOutcome:
    """Read what the script has printed.

    What the script takes before and after the command is tolerated: on a busy
    machine that is far more than on an idle one.

    :param name: of the instance, for errors
    :param outside_seconds: what the command took by the clock here
    :param slack_seconds: by how much more than the command that may be
    :raises errors.InstanceError: if the script has not come to its end
    """
    head, _newline, rest = stdout.partition('\n')
    printed, _newline, tail = rest.rstrip('\n').rpartition('\n')
    try:
        status, begun, end = head.split()
        first, last = tail.split()
        number = int(status)
        seconds = float(end) - float(begun)
        around = float(last) - float(first) - seconds
    except ValueError:
        raise bench_errors.InstanceError(
            f'{name}: a command was cut off, or could not be started: '
            f'{" ".join(stderr.split()) or "it does not say why"}',
            'the guest needs setsid, and space in /dev/shm') from None
    return platform_interface.CommandOutcome(
        status=128 - number if number in _SIGNALS else number,
        stdout=printed, stderr=stderr, outside_seconds=outside_seconds,
        inside_seconds=seconds,
        tolerance_seconds=around + slack_seconds + _CLOCK_SECONDS)


def overhead_seconds(start: Callable[[str], platform_interface.RunningJob],
                     sleep: Callable[[float], None]) -> float:
    """What it takes to run nothing, of which the guest's clock sees nothing.

    :param start: runs a command inside
    :raises errors.InstanceError: if it cannot be run
    """
    most = 0.0
    for _number in range(_TRIALS):
        job = start(':')
        while (outcome := job.poll()) is None:
            sleep(_TRIAL_LOOK_SECONDS)
        most = max(most, outcome.outside_seconds
                   - (outcome.inside_seconds or 0.0))
    return most
