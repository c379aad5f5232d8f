# SPDX-License-Identifier: Apache-2.0
"""Run the short forms of experiments on this machine, and judge them.

First of all the self-test, which says what the machine's intervals are worth;
then others on the host itself, in containers, and in guests under a libvirt
that a minicloud brings. What is judged are directions that hold on any
machine, by "bench report --claims". The exit status is zero only if everything
was measured, no claim is refuted and no affinity was other than asked for;
what is inconclusive is told, and not taken for passed.
"""

import argparse
import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys

from minicloud import hosts
from minicloud import settings
from nova_pinning.cli import bench_image
from nova_pinning.instance_bench.workloads import workload_catalogue

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tools'))

import run_tempest  # noqa: E402

PROGRAM = pathlib.Path(sys.executable).parent / 'nova-pinning'
WORKLOADS = ('sysbench-cpu', 'sysbench-cpu-fixed', 'handover', 'lock',
             'bursts', 'iperf3', 'iperf3-reverse', 'sockperf')
OUTPUT = ROOT / 'bench-output'

#: The compute host whose libvirt runs guests, and its CPUs; no server is on
#: it.
GUEST_HOST = 'pinning-1'
HOSTS = {GUEST_HOST: 'dedicated:1'}
#: The CPU that the layout of two CPUs has for the host.
CONTROLLER_CPUS = '0'


@dataclasses.dataclass(frozen=True)
class Proof:
    """An experiment on a platform.

    :param only: the cases, as --only takes them; the machine is too small
        for the others to differ from these, or they take too long
    :param beside: further platforms, such as that of the baseline
    """

    experiment: str
    platform: str
    only: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def name(self):
        return f'{self.experiment}-{self.platform}'


PAIRS = ('scenario=guest of 2 CPUs', 'workload=handover', 'workload=lock')
IDLE = ('scenario=one enterprise, idle host',
        'scenario=one shared, idle host',
        'scenario=enterprise among bursty ones',
        'scenario=shared among bursty ones, 1 vCPU for each CPU')
NEIGHBOURS = ('workload=sysbench-cpu', 'scenario=none', 'scenario=cpu',
              'scenario=memory')

TOOLS = ('workload=iperf3', 'workload=iperf3-reverse', 'workload=sockperf')
NETWORK = (*TOOLS,
           'network_cpus=same-cache', 'network_cpus=vcpus',
           'emulator_threads=share', 'emulator_threads=vcpus')

SELF_TEST = Proof('self-test', 'bm')
PROOFS = (
    SELF_TEST,
    Proof('enterprise-vs-shared', 'cn'),
    Proof('smp-mutex', 'cn'),
    Proof('cpu-priority', 'cn'),
    Proof('overhead-ladder', 'cn', ('workload=sysbench-cpu',)),
    Proof('latency', 'bm', ('workload=cyclictest',)),
    Proof('neighbours', 'cn', NEIGHBOURS),
    Proof('smp-mutex', 'vm', PAIRS),
    Proof('cpu-weights', 'vm'),
)
#: What takes longer than there is time for; run by name.
LONGER = (
    Proof('enterprise-vs-shared', 'vm', IDLE),
    Proof('network-placement', 'vm', NETWORK),
    # The agent goes by a plan, which leaves two CPUs nothing to share: this
    # is the network without it.
    Proof('network-cache', 'vm', TOOLS),
    Proof('platform-overhead', 'cn', ('size=2',), beside=('bm',)),
    Proof('multitask', 'cn'),
    # Of cores with a thread each it says that there is nothing to measure.
    Proof('siblings', 'cn'),
)


def way_in(directory):
    """Return the words that run a command where guests are.

    ``minicloud exec`` does so too, but each time starts a Python, which would
    run beside what is measured.

    :param directory: pathlib.Path, of the minicloud
    """
    bind(directory, {int(CONTROLLER_CPUS)})
    state = settings.State(directory)
    cloud = state.load()
    host, = (host for host in cloud.hosts if host.name == GUEST_HOST)
    return hosts.of(state, cloud, host).enter([])


def bind(directory, cpus):
    """Bind processes that know of a directory, with what they start later.

    The services of a host that sells dedicated CPUs keep off these.

    :param directory: pathlib.Path, as their command lines or environments
        have it
    :param cpus: set of CPU ids
    """
    name = os.fsencode(directory)
    for process in pathlib.Path('/proc').glob('[0-9]*'):
        if process.name == str(os.getpid()):
            continue
        with contextlib.suppress(OSError):
            if name in (process / 'cmdline').read_bytes() or (
                    name in (process / 'environ').read_bytes()):
                for task in (process / 'task').iterdir():
                    os.sched_setaffinity(int(task.name), cpus)


class Runner:
    """Runs proofs, by the command that people use.

    :param scratch: pathlib.Path, where results are written
    :param image: pathlib.Path, the image of the benchmarks
    """

    def __init__(self, scratch, image):
        self.scratch = scratch
        self.image = image
        #: What way_in() says, once there is a cloud.
        self.enter = ()

    def results(self, proof):
        return self.scratch / f'{proof.name}.jsonl'

    def command(self, proof):
        """Return the command line of a proof."""
        command = [str(PROGRAM), 'bench', 'run', proof.experiment, '--short',
                   '--output', str(self.results(proof)),
                   '--platform', proof.platform]
        for platform in proof.beside:
            command += ['--platform', platform]
        for only in proof.only:
            command += ['--only', only]
        if proof.platform != 'vm':
            return command
        # The commands that reach into guests would run on the CPU of the one
        # that has its own CPU. What enters the host must not end before what
        # it has started.
        return ['env', '--ignore-signal=INT', *self.enter, 'env',
                '--default-signal=INT', 'taskset', '-c', CONTROLLER_CPUS,
                *command, '--image', str(self.image)]

    def run(self, proof):
        """Run a proof, and return the command's exit status."""
        child = subprocess.Popen(
            self.command(proof), stdin=subprocess.DEVNULL,
            start_new_session=True)
        try:
            return child.wait()
        except BaseException:
            # It ends what it has started.
            os.killpg(child.pid, signal.SIGINT)
            child.wait()
            raise


def is_in_guests(proof):
    return proof.platform == 'vm'


def prove(proofs, runner, output, bring_up):
    """Run proofs, and write the report.

    :param output: pathlib.Path of the page
    :param bring_up: called before the first that needs the cloud; others go
        first, since its services want CPUs too
    :returns: what was not measured, or does not hold, in words
    """
    failures = []
    written = []
    is_up = False
    for proof in sorted(proofs, key=is_in_guests):
        print(f'\n{proof.name}', flush=True)
        if is_in_guests(proof) and not is_up:
            bring_up()
            is_up = True
        status = runner.run(proof)
        if status:
            failures.append(f'{proof.name}: bench run ended with {status}')
        if runner.results(proof).exists():
            written.append(runner.results(proof))
    own = runner.results(SELF_TEST)
    status = subprocess.call([
        str(PROGRAM), 'bench', 'report', '--claims', '--output', str(output),
        *(('--self-test', str(own)) if own in written else ()),
        *map(str, written)]) if written else 0
    if status:
        failures.append(f'bench report --claims ended with {status}')
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('name', nargs='*',
                        help='run only these: EXPERIMENT-PLATFORM, such as '
                             'smp-mutex-cn; or one that takes longer: '
                             + ', '.join(proof.name for proof in LONGER))
    parser.add_argument('--output', type=pathlib.Path,
                        default=OUTPUT / 'experiments',
                        help='directory for the results and report.html')
    parser.add_argument('--image', type=pathlib.Path,
                        default=OUTPUT / 'image',
                        help='directory of the image of guests; made if it '
                             'is not there, which takes minutes')
    run_tempest.add_cloud_options(parser)
    options = parser.parse_args()
    known = {proof.name: proof for proof in (*PROOFS, *LONGER)}
    if unknown := set(options.name) - set(known):
        parser.error(f'there is no {", ".join(sorted(unknown))}; there are '
                     f'{", ".join(known)}')
    proofs = [known[name] for name in options.name] or PROOFS
    options.output.mkdir(parents=True, exist_ok=True)
    for path in options.output.glob('*.jsonl'):
        path.unlink()
    if any(map(is_in_guests, proofs)):
        shipped = workload_catalogue.shipped()
        bench_image.build_missing(
            options.image, [shipped[name] for name in WORKLOADS])
    runner = Runner(options.output.resolve(), options.image.resolve())
    with contextlib.ExitStack() as stack:

        def bring_up():
            cloud, _scratch = stack.enter_context(
                run_tempest.running_cloud(options, HOSTS, ''))
            runner.enter = way_in(cloud.state)

        failures = prove(proofs, runner, options.output / 'report.html',
                         bring_up)
    print('', *failures, f'the report is {options.output}/report.html',
          sep='\n')
    return 1 if failures else 0


if __name__ == '__main__':
    # So that an end from outside is not the end of all order.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    sys.exit(main())
