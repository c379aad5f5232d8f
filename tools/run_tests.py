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

"""Run the test suites and end with one line that adds them up.

All suites run, whatever the ones before them said. The last line counts the
tests of the stestr suites. The exit status is zero only if every suite
succeeded, something passed and nothing failed.
"""

import argparse
import collections
import io
import pathlib
import shlex
import subprocess
import sys
import tempfile

import subunit
import testtools

ROOT = pathlib.Path(__file__).resolve().parent.parent

STESTR = {
    'unit tests': 'nova_pinning/tests/unit',
    'functional tests': 'nova_pinning/tests/functional',
}
OTHERS = {
    'fuzz': 'python -m nova_pinning.tests.oracle.fuzz --cases 2000 --seed 1 '
            '--no-shrink',
}

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


def count(stestr):
    """Count the outcomes of the last run in a stestr repository.

    :returns: the counts, the names of the tests that failed, and why others
        were skipped, by their names
    """
    counts = collections.Counter()
    failed = []
    skipped = {}

    def note(test):
        # 'exists' tells of a test that was listed but not run.
        if test['status'] != 'exists':
            outcome = OUTCOMES[test['status']]
            counts[outcome] += 1
            if outcome == 'failed':
                failed.append(test['id'])
            elif outcome == 'skipped':
                reason = test['details'].get('reason')
                skipped[test['id']] = reason.as_text() if reason else ''

    last = subprocess.run(
        [*stestr, 'last', '--subunit'], cwd=ROOT, stdout=subprocess.PIPE)
    result = testtools.StreamToDict(note)
    result.startTestRun()
    subunit.ByteStreamToStreamResult(
        io.BytesIO(last.stdout), 'stdout').run(result)
    result.stopTestRun()
    return counts, failed, skipped


def run(title, command):
    print(f'\n{title}: {shlex.join(command)}', flush=True)
    return subprocess.run(command, cwd=ROOT).returncode == 0


def main():
    argparse.ArgumentParser(
        description='Unit tests, functional tests and a short fuzz, with '
                    'their totals. Takes no options: to run some tests only, '
                    'see ./run py3 and ./run functional.').parse_args()
    good = True
    totals = collections.Counter()
    failures = []
    with tempfile.TemporaryDirectory() as scratch:
        for title, test_path in STESTR.items():
            # A repository of its own, so that only this run is counted.
            repo = pathlib.Path(scratch, title.replace(' ', '-'))
            repo.mkdir()
            stestr = ['stestr', '--repo-url', str(repo)]
            good &= run(title, [*stestr, '--test-path', test_path, 'run'])
            counts, failed, _skipped = count(stestr)
            failures += failed
            if not counts:
                print(f'{title}: nothing ran', flush=True)
                good = False
            totals.update(counts)
    for title, command in OTHERS.items():
        if not run(title, shlex.split(command)):
            print(f'{title}: failed', flush=True)
            good = False
    good &= totals['passed'] > 0 and totals['failed'] == 0
    if failures:
        print('\nfailed:', *failures, sep='\n  ')
    print('\n' + ', '.join(
        f'{totals[word]} {word}' for word in ('passed', 'failed', 'skipped')))
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
