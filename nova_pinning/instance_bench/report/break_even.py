# SPDX-License-Identifier: Apache-2.0
"""What a dedicated vCPU is worth, in shared ones, for one workload.

To who buys, as many as do the same work; to who sells, as many as would be
sold in its place. Pinning pays both if it does more work than these.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import math

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import intervals
from nova_pinning.instance_bench.report import disturbances
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import row_pairs
from nova_pinning.instance_bench import self_test
from nova_pinning.instance_bench import statistics

_HOUR_SECONDS = 3600


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DensityOffer:
    """Floating vCPUs at a density, against pinned ones.

    :param density: floating vCPUs for each CPU
    :param worth: floating vCPUs that do the work of a pinned one, at least as
        wide as the pinned case needs to be like itself
    """

    pinned: statistics.FigureRow
    floating: statistics.FigureRow
    density: float
    worth: intervals.Interval

    @property
    def pays(self) -> bool | None:
        """Whether a pinned vCPU does more than what it takes the place of.

        None if the interval leaves that open.
        """
        if self.worth.is_vague or not self.worth.excludes(self.density):
            return None
        return self.worth.low > self.density

    @property
    def sentence(self) -> str:
        """With the prices between which both gain, where there are any."""
        text = (f'at {self.density:.2g} vCPUs for each CPU a dedicated vCPU '
                f'does {words.ratio(self.worth)} times the work of a shared '
                f'one, and takes the place of {self.density:.2g}, which is '
                'the break-even: ')
        if self.pays is None:
            return text + (
                'whether pinning pays is not decided, '
                + intervals.rounds_that_tell(
                    self.worth, self.density,
                    len(self.floating.estimate.sample.clusters)))
        if self.pays:
            return text + (
                'pinning pays if a dedicated vCPU sells for more than '
                f'{self.density:.2g} times a shared one, and it is worth '
                f'{words.number(self.worth.low, 3)} times')
        return text + (
            f'pinning pays only if it sells for more than {self.density:.2g} '
            'times a shared one, which its work alone is not worth')


def offers(summary: statistics.RunSummary) -> Iterator[DensityOffer]:
    """By density, the least first; without a pinned case there are none."""
    rows = [row for row in row_pairs.first_figures(summary)
            if row.tenant.platform is not bench_model.PlatformName.BARE_METAL]
    pinned = [row for row in rows if row.is_pinned]
    stretch = _stretch(summary, pinned)
    found = [(row_pairs.density(summary, row), row) for row in rows
             if pinned and not row.is_pinned]
    for density, row in sorted(found, key=lambda pair: pair[0]):
        yield DensityOffer(
            pinned=pinned[0], floating=row, density=density,
            worth=row_pairs.ratio(summary, row, pinned[0]).stretched(stretch))


def _stretch(summary: statistics.RunSummary,
             pinned: list[statistics.FigureRow]) -> float:
    """What the pinned case's interval against itself takes to include 1."""
    if len(pinned) < 2:
        return 1.0
    itself = self_test.CopyComparison(
        name='', figure='', ratio=row_pairs.ratio(
            summary, pinned[0], pinned[1]))
    return max(itself.reach, 1.0) if itself.ratio.is_known else 1.0


def sentence(summary: statistics.RunSummary,
             found: Sequence[DensityOffer]) -> str:
    """The answer at the density that is sold most, '' if there is none."""
    if not found:
        return ''
    doubt = disturbances.doubt(summary)
    text = found[-1].sentence
    return f'{text[0].upper()}{text[1:]}' + (
        f'; but do not rely on it, for {doubt}.' if doubt else '.')


def work(summary: statistics.RunSummary) -> str:
    """What a CPU does at each density, by what the workload counts."""
    texts = []
    for row in row_pairs.first_figures(summary):
        instances = row_pairs.density(summary, row) / row.tenant.size.vcpus
        is_time = row.figure.pattern is None
        done = instances * (_HOUR_SECONDS / row.estimate.mean if is_time
                            else row.estimate.mean)
        if math.isfinite(done):
            texts.append(f'{row.case.factors.get("scenario", "")} '
                         f'{words.number(done)}')
    unit = 'runs an hour' if is_time else row.figure.unit
    return f'A CPU does, in {unit}: {"; ".join(texts)}.'
