# SPDX-License-Identifier: Apache-2.0
"""Run the tests with each release of nova on each Python that both support.

    tox -e releases
    tox -e releases -- 2025.1 2026.1-py312

Each pair has an environment of tox of its own. What came out is added to the
table of the contributor guide, doc/source/contributor/releases.csv. The exit
status is 1 if anything failed.
"""

import argparse
import csv
import datetime
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / 'doc' / 'source' / 'contributor' / 'releases.csv'

#: The Pythons that each release says it runs on, and this project too.
PYTHONS = {
    '2024.1': ('3.11',),
    '2025.1': ('3.11', '3.12'),
    '2025.2': ('3.11', '3.12'),
    '2026.1': ('3.11', '3.12'),
    '2026.2': ('3.11', '3.12', '3.13'),
}
#: Of tools/run_tests.py. Of 2024.1 only the scheduler's part is supported.
SUITES = ('unit', 'functional', 'fuzz', 'claims', 'bench')
SCHEDULER_SUITES = ('scheduler', 'fit', 'fuzz', 'claims')
COLUMNS = ('release', 'Python', *SUITES, 'scheduler', 'fit', 'date')


def environments():
    """Names of the tox environments, with release and Python of each."""
    return {f'{release}-py{python.replace(".", "")}': (release, python)
            for release, pythons in PYTHONS.items() for python in pythons}


def executable(python):
    """Where it is; None if it does not start.

    What pyenv has on the path may not, and if it does, it stands for one
    elsewhere, which tox does not find by itself.
    """
    program = shutil.which(f'python{python}')
    if program is None:
        return None
    done = subprocess.run(
        [program, '-c', 'import sys; print(sys.executable)'],
        capture_output=True, text=True)
    return None if done.returncode else done.stdout.strip()


def cell(counts):
    """How a suite went: '5850 passed, 3 skipped'."""
    return ', '.join(f'{count} {word}' for word, count in sorted(
        counts.items()) if count) or '-'


def dated(row, today):
    """A row whose cells that are not of today say of when they are.

    :param row: of the table, {} for a new one
    :param today: ISO date
    """
    old = row.get('date', today)
    suites = set(COLUMNS) - {'release', 'Python', 'date'}
    return {name: f'{value} ({old})'
            if name in suites and old != today and value[-1] not in '-)'
            else value
            for name, value in row.items()}


def run(name, python, suites):
    """Run suites in one environment.

    :param python: the path of its Python
    :returns: counts of the tests by suite, none if it did not come so far,
        and whether it succeeded
    """
    with tempfile.TemporaryDirectory() as scratch:
        counts = pathlib.Path(scratch) / 'counts.json'
        done = subprocess.run(
            [sys.executable, '-m', 'tox', '-qq', '--discover', python,
             '-e', f'release-{name}', '--', '--counts', str(counts),
             *(f'--suite={suite}' for suite in suites)], cwd=ROOT)
        found = json.loads(counts.read_text()) if counts.exists() else {}
    return found, done.returncode == 0


def record(release, python, counts, suites):
    """Add what suites came to, and replace the table as a whole.

    Another run may have added to it since this one began.
    """
    directory = os.open(TABLE.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        rows = {}
        if TABLE.exists():
            with TABLE.open(newline='') as file:
                rows = {(row['release'], row['Python']): row
                        for row in csv.DictReader(file)}
        today = datetime.date.today().isoformat()
        rows[release, python] = {
            **dict.fromkeys(COLUMNS, '-'),
            **dated(rows.get((release, python), {}), today),
            'release': release, 'Python': python, 'date': today,
            **{suite: cell(counts.get(suite, {})) for suite in suites}}
        scratch = TABLE.with_suffix('.new')
        with scratch.open('w', newline='') as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator='\n')
            writer.writeheader()
            writer.writerows(rows[key] for key in sorted(rows))
        os.replace(scratch, TABLE)
    finally:
        os.close(directory)


def main():
    known = environments()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        'names', nargs='*', metavar='RELEASE[-PYTHON]',
        help=f'only these: {", ".join(known)}')
    parser.add_argument(
        '--suite', action='append', metavar='SUITE',
        help='one of several suites of tools/run_tests.py, not all of them')
    options = parser.parse_args()
    chosen = [name for name, (release, _python) in known.items()
              if not options.names or {name, release} & set(options.names)]
    if not chosen:
        parser.error(f'none of these is known: {", ".join(options.names)}')
    good = True
    for name in chosen:
        release, python = known[name]
        program = executable(python)
        if program is None:
            print(f'{name}: there is no python{python} here', flush=True)
            good = False
            continue
        print(f'=== {name}', flush=True)
        suites = options.suite or (
            SCHEDULER_SUITES if release == '2024.1' else SUITES)
        counts, has_passed = run(name, program, suites)
        good &= has_passed
        if not counts:
            print(f'{name}: nothing was run', flush=True)
            continue
        record(release, python, counts, suites)
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
