# SPDX-License-Identifier: Apache-2.0
"""Compare the engine, the oracle and nova over many random cases.

Exit status: 0 if the engine agrees with the oracle in every case, 1 if it
does not in some, 2 for a usage error.
"""

from __future__ import annotations

import collections
import dataclasses
import importlib
import sys
import typing as ty

import rich.console

from nova_pinning.tests.oracle import case_generator
from nova_pinning.tests.oracle import case_series
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import oracle_compare

_WRONG = 'nova is wrong'
_DIFFERS = 'nova differs but is right'


class Fuzz(case_series.Series):
    """The engine, on hosts and guests of all kinds."""

    module = 'nova_pinning.tests.oracle.fuzz'
    description = ('Compare the engine with a brute-force oracle, and with '
                   'nova itself, over random hosts and guests.')
    option = '--engine'
    default = 'nova_pinning.tests.oracle.stand_in:numa_fit_instance_to_host'
    help = ("what to compare with the oracle, or 'none' to look at nova only "
            '(%(default)s)')
    kinds = 'nova_wrong'

    def generate(self, seed: int, number: int) -> oracle_case.Case:
        return case_generator.generate(seed, number)

    def judge(self, case: oracle_case.Case,
              subject: str) -> case_series.Outcome:
        verdict = oracle_compare.compare(case, *_engine(subject))
        guest = case.data['guest']
        seen = (str(guest['policy'] or 'none'), len(guest['cells']),
                verdict.fits)
        return case_series.Outcome(
            verdict.disagreements, verdict.nova_wrong, collections.Counter({
                seen: 1,
                _WRONG: int(bool(verdict.nova_wrong)),
                _DIFFERS: int(verdict.nova_differs)}))

    def shows(self, case: oracle_case.Case, subject: str,
              kind: str | None) -> bool:
        # Kinds are of nova's own, which is quicker without the engine.
        return super().shows(case, 'none' if kind else subject, kind)

    def report(self, tally: case_series.Tally) -> dict[str, ty.Any]:
        seen = [key for key in tally.counts if isinstance(key, tuple)]
        return {
            'by_guest': [
                {'policy': policy, 'guest_cells': cells,
                 'fits': tally.counts[policy, cells, True],
                 'refused': tally.counts[policy, cells, False]}
                for policy, cells in sorted({key[:2] for key in seen})],
            'nova_wrong_cases': tally.counts[_WRONG],
            'nova_differs_but_is_right': tally.counts[_DIFFERS],
        }

    def print_report(self, console: rich.console.Console,
                     report: dict[str, ty.Any]) -> None:
        case_series.print_table(console, 'Cases by guest', report['by_guest'],
                                'policy', 'guest cells', 'fits', 'refused')
        case_series.print_table(console, "nova's own wrong answers",
                                report['nova_wrong'], 'how', 'cases',
                                'example')
        case_series.print_kinds(console, report['nova_wrong'])
        case_series.print_disagreements(console, report)
        case_series.print_plain(
            console,
            f'{report["cases"]} of {report["cases_wanted"]} cases of seed '
            f'{report["seed"]} in {report["seconds"]} s: '
            f'{report["disagreements"]} disagreements with the oracle; nova '
            f'wrong in {report["nova_wrong_cases"]}, right in another way in '
            f'{report["nova_differs_but_is_right"]}.')

    def details(self, case: oracle_case.Case,
                subject: str) -> dict[str, ty.Any]:
        fit, explain = _engine(subject)
        verdict = oracle_compare.compare(case, fit, explain)
        with case.configured():
            expected = oracle.fit(*case.inputs())
        return {
            'oracle': expected and [
                dataclasses.asdict(cell) for cell in expected],
            'explain': explain and str(explain(*case.inputs())),
            'disagreements': verdict.disagreements,
            'nova_wrong': sorted(verdict.nova_wrong),
            'nova_differs_but_is_right': verdict.nova_differs,
        }


def _engine(path: str) -> tuple[ty.Any, ty.Any]:
    """Return an engine and the ``explain`` beside it, where there is one."""
    if path == 'none':
        return None, None
    module = importlib.import_module(path.partition(':')[0])
    return case_series.load(path), getattr(module, 'explain', None)


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    :returns: the exit status
    """
    return case_series.main(Fuzz(), argv)


if __name__ == '__main__':
    sys.exit(main())
