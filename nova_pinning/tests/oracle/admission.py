# SPDX-License-Identifier: Apache-2.0
"""Compare what admission makes of hosts and requests with Placement.

Random fleets are put into a real Placement, which is asked with each query of
a fleet. For each host its candidates must be those of
``admission.providers``. With --imported, fleets are imported from databases
that they were written into, and asked again. Exit status: 0 if they are in
every case, 1 if not, 2 for a usage error.
"""

import argparse
import collections
import dataclasses
import itertools
import multiprocessing
import sys
import time

from nova_pinning.tests.oracle import admission_cases

#: Cases that one fleet gives.
PER_FLEET = admission_cases.HOSTS * admission_cases.QUERIES
_KEPT = 20


@dataclasses.dataclass(slots=True)
class AdmissionTally:
    """What a number of cases showed.

    :ivar differences: 'fleet, host, query: what', of the first
    """

    counts: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter)
    differences: list[str] = dataclasses.field(default_factory=list)

    def add(self, other: 'AdmissionTally') -> None:
        self.counts.update(other.counts)
        self.differences = [*self.differences, *other.differences][:_KEPT]


def judge(task: tuple[int, int]) -> AdmissionTally:
    """Compare all cases of one fleet.

    :param task: seed and number of the fleet
    """
    seed, number = task
    tally = AdmissionTally()
    for verdict in admission_cases.verdicts(
            admission_cases.fleet(seed, number)):
        tally.counts['cases'] += 1
        tally.counts['candidates'] += verdict.candidates
        tally.counts['with candidates'] += bool(verdict.candidates)
        if verdict.difference:
            tally.counts['disagreements'] += 1
            tally.differences.append(
                f'fleet {number}, host {verdict.host}, query '
                f'{verdict.query}: {verdict.difference}')
    return tally


def judge_imported(task: tuple[int, int]) -> AdmissionTally:
    """Compare what is said of a fleet and of what imports make of it.

    :param task: seed and number of the fleet
    """
    from nova_pinning.tests.oracle import import_ring
    tally = AdmissionTally()
    for verdict, wrong in import_ring.compared(*task):
        tally.counts.update(('cases', verdict))
        if wrong:
            tally.counts['disagreements'] += 1
            tally.differences.append(f'fleet {task[1]}, {wrong}')
    return tally


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    :returns: the exit status
    """
    parser = argparse.ArgumentParser(
        prog='python -m nova_pinning.tests.oracle.admission',
        description='Compare allocation candidates with those of Placement.')
    parser.add_argument('--cases', type=int, default=20_000, metavar='N',
                        help='how many cases to run (%(default)s)')
    parser.add_argument('--seed', type=int, default=1, metavar='S',
                        help='which series of cases (%(default)s)')
    parser.add_argument('--jobs', type=int, default=2, metavar='J',
                        help='processes to use (%(default)s)')
    parser.add_argument('--fleet', type=int, metavar='K',
                        help='compare the cases of fleet K only')
    parser.add_argument('--imported', action='store_true',
                        help='hold what is said of fleets against what is '
                        'said of them once they are imported from databases '
                        'of nova and Placement, and through the compute API')
    parsed = parser.parse_args(argv)
    if parsed.cases < 1 or parsed.jobs < 1:
        parser.error('--cases and --jobs must be at least 1')
    begun = time.monotonic()
    total = AdmissionTally()
    # Of what is imported, each case is asked of two imports.
    per_fleet = PER_FLEET * (1 + parsed.imported)
    numbers = (range(-(-parsed.cases // per_fleet)) if parsed.fleet is None
               else [parsed.fleet])
    tasks = zip(itertools.repeat(parsed.seed), numbers)
    # Each process has a Placement of its own.
    with multiprocessing.get_context('fork').Pool(parsed.jobs) as pool:
        for tally in pool.imap_unordered(
                judge_imported if parsed.imported else judge, tasks):
            total.add(tally)
    for difference in total.differences:
        print(difference)
    counts = total.counts
    found = (', '.join(f'{counts[what]:,} {what}' for what in (
        'admitted', 'refused', 'undecided', 'left out'))
        if parsed.imported else f'{counts["with candidates"]:,} of them with '
        f'{counts["candidates"]:,} candidates')
    print(f'{counts["cases"]:,} cases of seed {parsed.seed}, {found}, in '
          f'{time.monotonic() - begun:.0f} s: '
          f'{counts["disagreements"]:,} disagreements with '
          f'{"what was drawn" if parsed.imported else "Placement"}')
    return int(bool(counts['disagreements']))


if __name__ == '__main__':
    sys.exit(main())
