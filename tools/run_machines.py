# SPDX-License-Identifier: Apache-2.0
"""Run the unit tests where a test that judges its machine would fail.

All of them run twice at the same time, beside busy processes: as a user who
may do little, who lives far away and has no home; and as root, from whom the
optional Debian packages are hidden. On the way it is noted which modules have
tests that look at the machine: those that open something below /sys or /proc,
or start a program. These run again with each dump of a machine, of which a
private mount namespace has /sys and what there is of /proc.

Only root can have a namespace, so others do without users, packages and dumps.
Ends in status 1 if a test failed.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import sys
import tempfile

import run_tests

from minicloud import progress
from nova_pinning.tests import machines


def run(setting, shown, *options):
    return run_tests.run_suite(
        setting.title, run_tests.SUITES['unit'], shown, *options,
        before=setting.before(), env=os.environ | setting.environment)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('tests', nargs='*', metavar='REGEX',
                        help='run only tests that match')
    parser.add_argument('--dumps', metavar='REGEX',
                        help='run only tests that match, only with dumps')
    parser.add_argument('--busy', type=int, default=8, metavar='PROCESSES',
                        help='that run beside them (default: %(default)s)')
    arguments = parser.parse_args()
    os.environ['CI'] = 'true'
    for name in [name for name in os.environ if name.startswith('LC_')]:
        del os.environ[name]
    with (tempfile.TemporaryDirectory() as name, machines.busy(arguments.busy),
          progress.Progress('') as shown,
          concurrent.futures.ThreadPoolExecutor() as pool):
        scratch = pathlib.Path(name)
        seen = scratch / 'seen'
        seen.mkdir()
        for directory in (scratch, seen):
            directory.chmod(0o777)
        settings = [] if arguments.dumps else list(machines.whole(seen))
        outcomes = list(pool.map(
            lambda one: run(one, shown, '--concurrency=1',
                            *arguments.tests), settings))
        modules = sorted({line for path in seen.iterdir()
                          for line in path.read_text().split()})
        if settings:
            print(f'{len(modules)} modules look at the machine:', *modules,
                  sep='\n  ')
        tests = arguments.dumps or f'^({"|".join(map(re.escape, modules))})[.]'
        for setting in machines.dumps() if arguments.dumps or modules else ():
            settings.append(setting)
            outcomes.append(run(
                setting, shown,
                # Python counts the CPUs of the dump, which may be hundreds.
                f'--concurrency={len(os.sched_getaffinity(0))}', tests))
    totals = run_tests.Results()
    for results, _is_good in outcomes:
        totals.update(results)
    totals.show()
    for setting, (results, _is_good) in zip(settings, outcomes):
        print(f'{setting.title}: {results.totals()}')
    return 0 if all(is_good for _results, is_good in outcomes) else 1


if __name__ == '__main__':
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
