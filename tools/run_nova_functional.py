# SPDX-License-Identifier: Apache-2.0
"""Run nova's own functional tests with nova's filter, and then with ours.

The tests are those that nova's wheel has; tests/nova_functional says which,
and puts our filters in place of nova's. Each test that ends otherwise with
ours than with nova's is shown with its cause. The exit status is zero only if
tests passed and all these causes are known.
"""

import argparse
import collections
import csv
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import run_tests

ROOT = run_tests.ROOT
TEST_PATH = 'nova_pinning/tests/nova_functional'
PACKAGE = 'nova.tests.functional.'
TABLE = ROOT / 'doc' / 'source' / 'contributor' / 'nova-functional.csv'

BASELINE = 'nova'
#: What may be run, with the head of its column.
FILTERS = {
    BASELINE: "Nova's filter",
    'ours': 'PinnedTopologyFilter',
    'classes': 'HostClassFilter too',
}

#: Why tests end otherwise than with nova's filter: choices of FILTERS, names
#: of tests, causes.
CAUSES: tuple[tuple[tuple[str, ...], str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """A test that ended otherwise than with nova's filter.

    :param choice: of FILTERS
    :param cause: '' where nobody knows
    """

    choice: str
    name: str
    nova: str
    ours: str
    cause: str

    def __str__(self):
        return (f'{self.name}\n    {self.nova} with nova\'s filter, '
                f'{self.ours} with "{self.choice}": '
                f'{self.cause or "no known cause"}')


class Outcomes:
    """How each test of a run ended.

    :ivar by_test: 'passed', 'failed' or 'skipped' by its name
    :ivar results: run_tests.Results
    """

    def __init__(self):
        self.by_test = {}
        self.results = run_tests.Results()

    def add(self, test):
        """Take note of a test, as testtools.StreamToDict describes it."""
        self.results.add(test)
        if test['status'] != 'exists':
            self.by_test[test['id']] = run_tests.OUTCOMES[test['status']]

    def put_right(self, again):
        """Take what passed when it was run once more as passed.

        :param again: Outcomes
        :returns: the names of these tests
        """
        passed = [name for name in self.results.failed
                  if again.by_test.get(name) == 'passed']
        for name in passed:
            self.by_test[name] = 'passed'
            del self.results.failed[name]
        self.results.counts['failed'] -= len(passed)
        self.results.counts['passed'] += len(passed)
        return passed

    def counts(self):
        """Count them by module, which is named below PACKAGE."""
        counts = collections.defaultdict(collections.Counter)
        for name, outcome in self.by_test.items():
            counts[module(name)][outcome] += 1
        return counts


def module(name):
    """Return the module that a test is in, named below PACKAGE."""
    # Names end with the class and the test, with examples in brackets.
    return name.partition('(')[0].rsplit('.', 2)[0].removeprefix(PACKAGE)


def run(choice, regex, concurrency, scratch):
    """Run the tests, and once more those that failed.

    Nova's harness gives up after so many seconds, which on a busy machine are
    too few.

    :param choice: of FILTERS
    :returns: Outcomes
    """
    print(f'\n{FILTERS[choice]}:', flush=True)
    outcomes = _run(choice, scratch / choice, [
        '--concurrency', str(concurrency), *([regex] if regex else [])])
    if outcomes.results.failed:
        names = scratch / f'{choice}-failed'
        names.write_text('\n'.join(outcomes.results.failed) + '\n')
        again = _run(choice, scratch / f'{choice}-again', [
            '--concurrency', '1', '--load-list', str(names)])
        for name in outcomes.put_right(again):
            print(f'passed when run once more: {name}')
    outcomes.results.show()
    return outcomes


def _run(choice, repository, options):
    repository.mkdir()
    stestr = ['stestr', '--repo-url', str(repository)]
    subprocess.run(
        [*stestr, '--test-path', TEST_PATH, 'run', '--abbreviate', *options],
        cwd=ROOT, env={**os.environ, 'NOVA_PINNING_FILTERS': choice})
    outcomes = Outcomes()
    run_tests.replay(stestr, outcomes.add)
    return outcomes


def cause(choice, name):
    """Return why a test ends otherwise, '' if nobody knows."""
    return next((why for choices, pattern, why in CAUSES
                 if choice in choices and re.search(pattern, name)), '')


def differences(runs):
    """Compare runs with that of nova's filter.

    :param runs: Outcomes by choice of FILTERS
    """
    if BASELINE not in runs:
        return []
    nova = runs[BASELINE].by_test
    found = []
    for choice, outcomes in runs.items():
        for name in sorted(nova.keys() | outcomes.by_test.keys()):
            before = nova.get(name, 'not run')
            after = outcomes.by_test.get(name, 'not run')
            if before != after:
                found.append(Difference(
                    choice, name, before, after, cause(choice, name)))
    return found


def rows(runs):
    """Yield the rows of the table, its head first and its totals last."""
    counts = {choice: outcomes.counts() for choice, outcomes in runs.items()}
    yield ['Module', *(FILTERS[choice] for choice in runs)]
    for name in sorted({name for by in counts.values() for name in by}):
        yield [name, *(_words(by[name]) for by in counts.values())]
    yield ['together', *(_words(outcomes.results.counts)
                         for outcomes in runs.values())]


def _words(counts):
    return ', '.join(f'{counts[word]} {word}' for word in
                     ('passed', 'failed', 'skipped') if counts[word])


def write(path, runs):
    with path.open('w', newline='') as file:
        csv.writer(file, lineterminator='\n').writerows(rows(runs))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('regex', nargs='?',
                        help='run only the tests whose names match')
    parser.add_argument('--filters', action='append', choices=FILTERS,
                        help='one of several; without it: nova and ours')
    parser.add_argument('--concurrency', type=int, default=0, metavar='N',
                        help='processes at a time (default: one for each CPU)')
    parser.add_argument('--write', action='store_true',
                        help='replace the table in the documentation')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='nova-') as scratch:
        runs = {choice: run(choice, options.regex, options.concurrency,
                            pathlib.Path(scratch))
                for choice in options.filters or (BASELINE, 'ours')}
    if options.write:
        write(TABLE, runs)
    print()
    for row in rows(runs):
        print(*row, sep=' | ')
    found = differences(runs)
    for difference in found:
        print(f'\n{difference}')
    known = all(difference.cause for difference in found)
    have_passed = all(
        outcomes.results.counts['passed'] for outcomes in runs.values())
    return 0 if known and have_passed else 1


if __name__ == '__main__':
    sys.exit(main())
