# SPDX-License-Identifier: Apache-2.0
"""Run the short forms of experiments on this machine, and judge them.

First of all the self-test, which says what the machine's intervals are worth;
then others on the host itself and in containers and, by name, in guests of the
machine's own libvirt. What is judged are directions that hold on any machine,
by "bench report --claims". The exit status is zero only if everything was
measured, no claim is refuted and no affinity was other than asked for; what is
inconclusive is told, and not taken for passed.
"""

import argparse
import dataclasses
import pathlib
import signal
import subprocess
import sys

PROGRAM = pathlib.Path(sys.executable).parent / 'nova-pinning'
OUTPUT = pathlib.Path(__file__).resolve().parents[1] / 'bench-output'


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
)
#: Run by name, since they take longer or need libvirt.
OTHERS = (
    Proof('smp-mutex', 'vm', PAIRS),
    Proof('cpu-weights', 'vm'),
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


def command(proof, output, image):
    """Return the command line of a proof, the one that people use.

    :param output: pathlib.Path, the file for the results
    :param image: pathlib.Path, the image of the benchmarks
    """
    platforms = [word for platform in (proof.platform, *proof.beside)
                 for word in ('--platform', platform)]
    only = [word for case in proof.only for word in ('--only', case)]
    return [str(PROGRAM), 'bench', 'run', proof.experiment, '--short',
            '--output', str(output), *platforms, *only,
            *(('--image', str(image)) if proof.platform == 'vm' else ())]


def run(words):
    """Run a command, and return its exit status."""
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL,
                             start_new_session=True)
    try:
        return child.wait()
    except BaseException:
        # It ends what it has started.
        child.send_signal(signal.SIGINT)
        child.wait()
        raise


def prove(proofs, directory, image):
    """Run proofs, and write the report.

    :param directory: pathlib.Path, for the results and report.html
    :returns: what was not measured, or does not hold, in words
    """
    failures = []
    written = []
    own = ()
    for proof in proofs:
        print(f'\n{proof.name}', flush=True)
        results = directory / f'{proof.name}.jsonl'
        status = run(command(proof, results, image))
        if status:
            failures.append(f'{proof.name}: bench run ended with {status}')
        if results.exists():
            written.append(str(results))
            if proof is SELF_TEST:
                own = '--self-test', str(results)
    status = subprocess.call([
        str(PROGRAM), 'bench', 'report', '--claims', '--output',
        str(directory / 'report.html'), *own, *written]) if written else 0
    if status:
        failures.append(f'bench report --claims ended with {status}')
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('name', nargs='*',
                        help='run only these: EXPERIMENT-PLATFORM, such as '
                             'smp-mutex-cn; or others: '
                             + ', '.join(proof.name for proof in OTHERS))
    parser.add_argument('--output', type=pathlib.Path,
                        default=OUTPUT / 'experiments',
                        help='directory for the results and report.html')
    parser.add_argument('--image', type=pathlib.Path,
                        default=OUTPUT / 'image',
                        help='directory of the image of guests; made if it '
                             'is not there, which takes minutes')
    options = parser.parse_args()
    known = {proof.name: proof for proof in (*PROOFS, *OTHERS)}
    if unknown := set(options.name) - set(known):
        parser.error(f'there is no {", ".join(sorted(unknown))}; there are '
                     f'{", ".join(known)}')
    proofs = [known[name] for name in options.name] or PROOFS
    options.output.mkdir(parents=True, exist_ok=True)
    for path in options.output.glob('*.jsonl'):
        path.unlink()
    failures = prove(proofs, options.output, options.image)
    print('', *failures, f'the report is {options.output}/report.html',
          sep='\n')
    return 1 if failures else 0


if __name__ == '__main__':
    # So that an end from outside is not the end of all order.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    sys.exit(main())
