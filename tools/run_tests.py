# SPDX-License-Identifier: Apache-2.0
"""Run the test suites and end with one line that adds them up.

All suites run, whatever the others say, two at a time: functional tests wait
for what nova does in its own time, and leave CPUs to the rest meanwhile. The
last line counts the tests of the suites; before it stands again what failed.
The exit status is zero only if every suite succeeded, with tests that passed
and none that failed.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import io
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

import subunit
import testtools

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from minicloud import progress  # noqa: E402

SUITES = {
    'unit': 'nova_pinning/tests/unit',
    'functional': 'nova_pinning/tests/functional',
    # What has to work with every release that nova-scheduler may be of.
    'scheduler': 'nova_pinning/tests/unit/scheduler',
    'fit': 'nova_pinning/tests/unit/fit',
    # What asks nova for anything else.
    'bridge': 'nova_pinning/tests/unit/bridge',
    # What asks cliff.
    'cli': 'nova_pinning/tests/unit/cli',
}
# Tests of clouds wait now and then, so there is one more than CPUs.
PROCESSES = {'functional': (os.cpu_count() or 1) + 1}
OTHERS = {
    'fuzz': 'python -m nova_pinning.tests.oracle.fuzz --cases 1200 --seed 1 '
            '--no-shrink',
    'claims': 'python -m nova_pinning.tests.oracle.claims --cases 1000 '
              '--seed 1 --no-shrink',
    'bench': 'python -m benchmarks.speed --quick',
}
# Fuzzes are among the unit tests, and programs where those do not run.
DEFAULT = ('functional', 'unit')

# What subunit calls the ways a test can end, in our three words.
OUTCOMES = {
    'success': 'passed',
    'xfail': 'passed',
    'fail': 'failed',
    'uxsuccess': 'failed',
    'unknown': 'failed',
    'inprogress': 'failed',
    'skip': 'skipped',
}

#: Lines of a failure that are shown again in the end, where its cause is.
LAST_LINES = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Results:
    """What became of the tests of a run.

    :param counts: how many 'passed', 'failed' and were 'skipped'
    :param by_test: 'passed', 'failed' or 'skipped' by its name
    :param failed: the tracebacks of those that failed, by their names
    :param skipped: why others were skipped, by their names
    """

    counts: collections.Counter = dataclasses.field(
        default_factory=collections.Counter)
    by_test: dict[str, str] = dataclasses.field(default_factory=dict)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)

    def add(self, test):
        """Take note of a test, as testtools.StreamToDict describes it."""
        # 'exists' tells of a test that was listed but not run.
        if test['status'] == 'exists':
            return
        outcome = OUTCOMES[test['status']]
        self.counts[outcome] += 1
        self.by_test[test['id']] = outcome
        details = test['details']
        if outcome == 'failed':
            self.failed[test['id']] = '\n'.join(
                detail.as_text().strip() for name, detail in details.items()
                if name.startswith('traceback'))
        elif outcome == 'skipped':
            self.skipped[test['id']] = (
                details['reason'].as_text() if 'reason' in details else '')

    def update(self, other):
        self.counts.update(other.counts)
        self.by_test.update(other.by_test)
        self.failed.update(other.failed)
        self.skipped.update(other.skipped)

    def show(self):
        """Print the end of each failure, then all names and the counts."""
        for name, traceback in self.failed.items():
            print(f'\n{name}')
            for line in traceback.splitlines()[-LAST_LINES:]:
                print(f'    {line}')
        if self.failed:
            print('\nfailed:', *self.failed, sep='\n  ')
        print(f'\n{self.totals()}')

    def totals(self):
        return ', '.join(f'{self.counts[word]} {word}'
                         for word in ('passed', 'failed', 'skipped'))


class Other(testtools.StreamResult):
    """Prints what comes with the tests of a stream but belongs to none."""

    def status(self, test_id=None, file_bytes=None, **_values):
        if test_id is None and file_bytes:
            print(bytes(file_bytes).decode(errors='replace'), end='')


def read(stream, take):
    """Go through the tests of a subunit stream as they come.

    :param take: called with each test, as testtools.StreamToDict has it
    """
    result = testtools.CopyStreamResult(
        [testtools.StreamToDict(take), Other()])
    result.startTestRun()
    subunit.ByteStreamToStreamResult(stream, 'stdout').run(result)
    result.stopTestRun()


def results(stestr):
    """Return the Results of the last run in a stestr repository."""
    last = subprocess.run(
        [*stestr, 'last', '--subunit'], cwd=ROOT, stdout=subprocess.PIPE)
    found = Results()
    read(io.BytesIO(last.stdout), found.add)
    return found


@contextlib.contextmanager
def doing(title, command, say, shown):
    """Tell what is done, and now and then how far it is, while it lasts.

    :param say: returns how far
    :param shown: the minicloud.progress.Progress that tells
    """
    print(f'\n{shlex.join(command)}')
    with shown.doing(title, say):
        yield


def run_suite(title, test_path, shown, *options, before=(), **values):
    """Run a suite.

    :param shown: the minicloud.progress.Progress that tells how far it is
    :param options: of nova_pinning.tests.pool
    :param before: words before the command
    :param values: of subprocess.Popen
    :returns: its Results, and whether there are any
    """
    # run_machines has another program run the tests, to see what they look at.
    python = values.get('env', {}).get('PYTHON', sys.executable)
    command = [*shlex.split(python), '-m', 'nova_pinning.tests.pool',
               test_path, *options]
    found = Results()

    def take(test):
        found.add(test)
        if OUTCOMES.get(test['status']) == 'failed':
            print(f'\n{title}: {test["id"]} failed')
            for name, detail in test['details'].items():
                print(f'{name}:\n{detail.as_text()}', flush=True)

    with (subprocess.Popen([*before, *command], cwd=ROOT,
                           stdout=subprocess.PIPE, **values) as process,
          doing(title, command, lambda: found.totals() if found.counts
                else 'loading the tests', shown)):
        read(process.stdout, take)
    print(f'{title}: {found.totals() if found.counts else "nothing ran"}',
          flush=True)
    # A process that ends badly counts as a test that failed.
    return found, bool(found.counts) and not found.failed


def run_other(title, command, shown):
    """Run a program of which only the last line matters if it succeeds.

    :returns: whether it did
    """
    with doing(title, command, str, shown):
        done = subprocess.run(command, cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        print(done.stdout)
        print(f'{title}: failed', flush=True)
        return False
    print(*done.stdout.splitlines()[-1:], flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(
        description='Unit tests, functional tests and short fuzzes, with '
                    'their totals. To run some tests only, see ./run py3 and '
                    './run functional.')
    parser.add_argument(
        '--long', action='store_true',
        help='all examples of each test, and others each time')
    parser.add_argument(
        '--suite', action='append', choices=[*SUITES, *OTHERS],
        help=f'one of several; without it: {", ".join(DEFAULT)}')
    options = parser.parse_args()
    if options.long:
        os.environ.pop('CI', None)
    else:
        os.environ['CI'] = 'true'
    totals = Results()
    with (tempfile.TemporaryDirectory() as scratch,
          progress.Progress('') as shown,
          concurrent.futures.ThreadPoolExecutor(2) as pool):
        # Each test has a home of its own, where every command that it starts
        # would look through all packages for entry points.
        os.environ['XDG_CACHE_HOME'] = scratch

        def run(suite):
            if suite in OTHERS:
                return run_other(suite, shlex.split(OTHERS[suite]), shown)
            of_suite, is_good = run_suite(
                suite, SUITES[suite], shown,
                '--concurrency', str(PROCESSES.get(suite, 0)))
            totals.update(of_suite)
            return is_good and of_suite.counts['passed'] > 0

        good = all(list(pool.map(run, options.suite or DEFAULT)))
    totals.show()
    return 0 if good else 1


if __name__ == '__main__':
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
