# SPDX-License-Identifier: Apache-2.0
"""All that a run has measured, for people, for programs, for the docs."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import textwrap
from typing import Any

from benchmarks import machine
from benchmarks.speed import audit
from benchmarks.speed import commands
from benchmarks.speed import exporting
from benchmarks.speed import judging
from benchmarks.speed import measure
from benchmarks.speed import report


@dataclasses.dataclass(frozen=True, slots=True)
class Results:
    """What was measured; of what was not, nothing.

    :param facts: of the machine
    :param rows: of the filters and weighers, the figures
    :param samples: what these are made of, by the name of the case
    :param seconds: that it took
    """

    plan: measure.Plan
    facts: Mapping[str, Any]
    rows: Sequence[report.Row]
    samples: dict[str, list[measure.Samples]]
    timings: Sequence[commands.Timing]
    audits: Sequence[audit.Outcome]
    exports: Sequence[exporting.Outcome]
    seconds: float

    @property
    def has_failed(self) -> bool:
        """Whether a bar was missed, or answers differ."""
        verdict = judging.worst([
            outcome.verdict for outcome in (
                *self.rows, *self.timings, *self.audits, *self.exports)])
        return verdict.is_failure or not audit.is_flat(self.audits)

    @property
    def _parts(self) -> list[list[measure.Samples]]:
        """The samples of those cases of which it is known what took time."""
        return [parts for parts in self.samples.values() if parts[0].parts_ns]

    def as_text(self) -> Iterator[str]:
        """Lines for a terminal."""
        rounds = self.plan.command_rounds
        if self.rows:
            yield from report.table(self.rows)
            yield _paragraph(report.explain(self.rows, self.plan))
            for parts in self._parts:
                yield from report.parts_table(parts)
        if self.timings:
            yield from commands.table(self.timings)
            yield _paragraph(commands.explain(self.timings, rounds))
        if self.audits:
            yield from audit.table(self.audits)
            yield _paragraph(audit.explain())
        if self.exports:
            yield from exporting.table(self.exports)
            yield _paragraph(exporting.explain())
        facts = self.facts
        yield _paragraph(
            f'{facts["cpu_model"]}, {facts["cpus"]} CPUs, {facts["python"]}, '
            f'nova {facts["versions"]["nova"]}; load '
            f'{facts["load_average"][0]:.1f} at the start; took '
            f'{self.seconds:.0f} s')
        for row in self.rows:
            for problem in row.problems:
                yield f'{row.case.name}: {problem}'
        if not audit.is_flat(self.audits):
            yield 'audit: it takes more memory for more servers'

    def as_json(self) -> dict[str, Any]:
        """For JSON."""
        return report.as_json(
            self.rows, self.samples, self.plan, self.facts) | {
                'commands': list(map(commands.as_json, self.timings)),
                'audits': list(map(_with_verdict, self.audits)),
                'exporters': list(map(_with_verdict, self.exports))}

    def as_rst(self) -> Iterator[str]:
        """Lines for the documentation."""
        yield from ('.. Made by "python -m benchmarks.speed --rst", not by '
                    'hand.', '')
        if self.rows:
            yield from report.as_rst(self.rows, self.plan)
            for parts in self._parts:
                yield from (*report.parts_table(parts, line='='), '')
        if self.timings:
            yield from commands.as_rst(
                self.timings, self.plan.command_rounds)
        if self.audits:
            yield from audit.as_rst(self.audits)
        if self.exports:
            yield from exporting.as_rst(self.exports)
        yield from machine.as_rst(self.facts)


def _paragraph(text: str) -> str:
    return textwrap.fill(text, 79)


def _with_verdict(
    outcome: audit.Outcome | exporting.Outcome,
) -> dict[str, Any]:
    return dataclasses.asdict(outcome) | {'verdict': outcome.verdict}
