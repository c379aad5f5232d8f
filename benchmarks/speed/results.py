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
from benchmarks import tables


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
    def _tables(self) -> Iterator[tables.FigureTable]:
        if self.rows:
            yield report.table(self.rows, self.plan)
            # Of some cases it is known what took the time.
            yield from (report.parts_table(parts)
                        for parts in self.samples.values()
                        if parts[0].parts_ns)
        if self.timings:
            yield commands.table(self.timings, self.plan.command_rounds)
        if self.audits:
            yield audit.table(self.audits)
        if self.exports:
            yield exporting.table(self.exports)

    def as_text(self) -> Iterator[str]:
        """Lines for a terminal."""
        for table in self._tables:
            yield from table.as_text()
        facts = self.facts
        yield textwrap.fill(
            f'{facts["cpu_model"]}, {facts["cpus"]} CPUs, {facts["python"]}, '
            f'nova {facts["versions"]["nova"]}; load '
            f'{facts["load_average"][0]:.1f} at the start; took '
            f'{self.seconds:.0f} s', 79)
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
        for table in self._tables:
            yield from table.as_rst()
        yield from machine.as_rst(self.facts)


def _with_verdict(
    outcome: audit.Outcome | exporting.Outcome,
) -> dict[str, Any]:
    return dataclasses.asdict(outcome) | {'verdict': outcome.verdict}
