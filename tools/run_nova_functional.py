# SPDX-License-Identifier: Apache-2.0
"""Run nova's own functional tests with nova's filter, and then with ours.

The tests are those that nova's wheel has; tests/nova_functional says which,
and puts our filters in place of nova's. Each test that ends otherwise with
ours than with nova's is shown. The exit status is zero only if tests passed
and there is none of these.
"""

import argparse
import collections
import csv
import os
import pathlib
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


def put_right(results, again):
    """Take what passed when it was run once more as passed.

    :param again: run_tests.Results
    :returns: the names of these tests
    """
    passed = [name for name in results.failed
              if again.by_test.get(name) == 'passed']
    for name in passed:
        results.by_test[name] = 'passed'
        del results.failed[name]
    results.counts['failed'] -= len(passed)
    results.counts['passed'] += len(passed)
    return passed


def counts_by_module(results):
    counts = collections.defaultdict(collections.Counter)
    for name, outcome in results.by_test.items():
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
    :returns: run_tests.Results
    """
    results = _run(choice, FILTERS[choice], scratch, [
        '--concurrency', str(concurrency), *([regex] if regex else [])])
    if results.failed:
        names = scratch / f'{choice}-failed'
        names.write_text('\n'.join(results.failed) + '\n')
        again = _run(choice, f'{FILTERS[choice]} again', scratch, [
            '--concurrency', '1', '--load-list', str(names)])
        for name in put_right(results, again):
            print(f'passed when run once more: {name}')
    results.show()
    return results


def _run(choice, title, scratch, options):
    results, _is_good = run_tests.run_stestr(
        title, TEST_PATH, scratch, *options,
        env={**os.environ, 'NOVA_PINNING_FILTERS': choice})
    return results


def differences(runs):
    """Tell which tests ended otherwise than with nova's filter.

    :param runs: run_tests.Results by choice of FILTERS
    """
    if BASELINE not in runs:
        return []
    nova = runs[BASELINE].by_test
    return [f"{name}\n    {before} with nova's filter, {after} with "
            f'"{choice}"'
            for choice, results in runs.items()
            for name in sorted(nova.keys() | results.by_test.keys())
            if (before := nova.get(name, 'not run')) != (
                after := results.by_test.get(name, 'not run'))]


def rows(runs):
    """Yield the rows of the table, its head first and its totals last."""
    counts = {choice: counts_by_module(results)
              for choice, results in runs.items()}
    yield ['Module', *(FILTERS[choice] for choice in runs)]
    for name in sorted({name for by in counts.values() for name in by}):
        yield [name, *(_words(by[name]) for by in counts.values())]
    yield ['together', *(_words(results.counts)
                         for results in runs.values())]


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
    have_passed = all(results.counts['passed'] for results in runs.values())
    return 0 if have_passed and not found else 1


if __name__ == '__main__':
    sys.exit(main())
