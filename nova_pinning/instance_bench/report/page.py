# SPDX-License-Identifier: Apache-2.0
"""Results as one page of HTML that needs nothing else."""

from collections.abc import Sequence
from importlib import resources

from nova_pinning import extras
from nova_pinning.instance_bench.report import report_part
from nova_pinning.instance_bench.report import run_claims
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench.report import strips
from nova_pinning.instance_bench import run_comparison

_TEMPLATE = 'page.html.j2'
_TONES = {
    run_claims.ClaimVerdict.HOLDS: 'good',
    run_claims.ClaimVerdict.DOES_NOT_HOLD: 'bad',
    run_claims.ClaimVerdict.INCONCLUSIVE: 'unsure',
    run_comparison.ChangeVerdict.REGRESSION: 'bad',
    run_comparison.ChangeVerdict.IMPROVEMENT: 'good',
    run_comparison.ChangeVerdict.BOOTS: 'unsure',
    run_comparison.ChangeVerdict.UNKNOWN: 'unsure'}
# Experiments by how much they say of what pinning buys.
_TELLING = ('mine', 'levels', 'neighbours', 'overhead', 'latency')
# So that verdicts can be told apart without colours.
_MARKS = {'good': '✓', 'bad': '✗', 'unsure': '?'}


def check() -> None:
    """Make sure that a page can be made.

    :raises errors.InputError: if something for it is not installed
    """
    extras.need('a page', 'scipy', 'jinja2')


def render(parts: Sequence[report_part.Part], version: str) -> str:
    """The page.

    :param parts: at least one
    :param version: of nova-pinning, for the foot of the page
    :raises errors.InputError: if something for it is not installed
    """
    check()
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined)
    template = environment.from_string(
        resources.files(__package__).joinpath(_TEMPLATE).read_text('utf-8'))
    tables = [part.summary.experiment.table for part in parts]
    headline = next((tables.index(table) for table in _TELLING
                     if table in tables), 0)
    text: str = template.render(
        parts=parts, names=report_part.names(parts), headline=headline,
        tones=_TONES, marks=_MARKS, draw=strips.draw,
        changes=run_tables.changes, counted=run_claims.counted,
        version=version)
    return text
