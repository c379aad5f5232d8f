# SPDX-License-Identifier: Apache-2.0
"""Run nova's own functional tests with nova's filter, and then with ours.

The tests are those that nova's wheel has; tests/nova_functional says which,
and puts our filters in place of nova's. Each test that ends otherwise with
ours than with nova's is shown. The exit status is zero only if tests passed
and there is none of these.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import run_tests

from minicloud import progress

TEST_PATH = 'nova_pinning/tests/nova_functional'

BASELINE = 'nova'
#: What may be run, with its title.
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


def run(choice, regex, concurrency, scratch):
    """Run the tests, and once more those that failed.

    Nova's harness gives up after so many seconds, which on a busy machine are
    too few.

    :param choice: of FILTERS
    :returns: run_tests.Results
    """
    results = _run(choice, FILTERS[choice], [
        '--concurrency', str(concurrency), *([regex] if regex else [])])
    if results.failed:
        names = scratch / f'{choice}-failed'
        names.write_text('\n'.join(results.failed) + '\n')
        again = _run(choice, f'{FILTERS[choice]} again', [
            '--concurrency', '1', '--load-list', str(names)])
        for name in put_right(results, again):
            print(f'passed when run once more: {name}')
    results.show()
    return results


def _run(choice, title, options):
    with progress.Progress('') as shown:
        results, _is_good = run_tests.run_suite(
            title, TEST_PATH, shown, *options,
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('regex', nargs='?',
                        help='run only the tests whose names match')
    parser.add_argument('--filters', action='append', choices=FILTERS,
                        help='one of several; without it: nova and ours')
    parser.add_argument('--concurrency', type=int, default=0, metavar='N',
                        help='processes at a time (default: one for each CPU)')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='nova-') as scratch:
        runs = {choice: run(choice, options.regex, options.concurrency,
                            pathlib.Path(scratch))
                for choice in options.filters or (BASELINE, 'ours')}
    print()
    for choice, results in runs.items():
        print(f'{FILTERS[choice]}: {results.totals()}')
    found = differences(runs)
    for difference in found:
        print(f'\n{difference}')
    have_passed = all(results.counts['passed'] for results in runs.values())
    return 0 if have_passed and not found else 1


if __name__ == '__main__':
    sys.exit(main())
