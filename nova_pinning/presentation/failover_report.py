# SPDX-License-Identifier: Apache-2.0
"""Whether a fleet survives failures, for people and for machines."""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
from typing import Any

import rich.console

from nova_pinning.document import encoder
from nova_pinning.host import words
from nova_pinning.presentation import fit_text
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table
from nova_pinning.rebalance import failover_model

# Losses, guests and names that a page has room for.
_LOSSES = 20
_GUESTS = 20
_NAMES = 6
_VERDICTS = {
    failover_model.SurvivalVerdict.YES: 'yes',
    failover_model.SurvivalVerdict.NO: 'no',
    failover_model.SurvivalVerdict.UNKNOWN: 'not known',
}
# With what is lost, and then how many of how many losses end so.
_TITLES = {
    failover_model.SurvivalVerdict.YES: ('The fleet survives', ''),
    failover_model.SurvivalVerdict.NO: (
        'The fleet does not survive',
        ': {:,} of {:,} would leave guests down'),
    failover_model.SurvivalVerdict.UNKNOWN: (
        'It is not known whether the fleet survives',
        ': of {:,} of {:,} it could not be told'),
}


def losses(report: failover_model.FailoverReport,
           shown: Sequence[failover_model.HostLoss]) -> typed_table.Table:
    """A row for each loss; what is alike in all of them is not shown."""
    column, kind = typed_table.Column, typed_table.ColumnKind
    differ = len({loss.verdict for loss in shown}) > 1
    is_proved = all(loss.is_proved_least for loss in shown)
    return typed_table.Table((
        column('name', report.groups),
        column('hosts'),
        column('guests', 'guests', kind.COUNT),
        column('vcpus', 'vCPUs', kind.COUNT),
        column('verdict'),
        column('', 'all come up' if differ else None,
               of=lambda loss: _VERDICTS[loss.verdict]),
        column('down', 'down', kind.COUNT, lambda loss: len(loss.down)),
        column('least_down', None if is_proved else 'at least', kind.COUNT),
        column('is_unguided'),
        column('down_guests', of=lambda loss: [
            guest.guest for guest in loss.down])), shown)


def as_dict(report: failover_model.FailoverReport) -> dict[str, Any]:
    """All of it for JSON."""
    reserve = report.reserve
    return {
        'version': 1,
        'taken_at': report.taken_at,
        'groups': report.groups,
        'verdict': str(report.verdict),
        'losses': [_loss(loss) for loss in report.losses],
        'reserve': reserve and {
            **encoder.encode(reserve), 'count': reserve.count,
            'unmended': [{'name': name, 'reason': reason}
                         for name, reason in reserve.unmended]},
        'ungrouped': list(report.ungrouped)}


def _loss(loss: failover_model.HostLoss) -> dict[str, Any]:
    return {
        **encoder.encode(dataclasses.replace(loss, evacuations=())),
        'evacuations': [{
            **encoder.encode(dataclasses.replace(evacuation, fit=None)),
            'fit': evacuation.fit and fit_text.as_list(evacuation.fit)}
            for evacuation in loss.evacuations]}


def show(report: failover_model.FailoverReport,
         console: rich.console.Console, lists_all: bool = False) -> None:
    """Print what would not come up, and what would mend it.

    :param lists_all: whether to list the losses that are survived too, and
        all guests
    """
    printing.title(_title(report), console)
    for remark in _remarks(report):
        printing.say(remark, console, '  ')
    listed = report.losses if lists_all else sorted(
        (loss for loss in report.losses
         if loss.verdict is not failover_model.SurvivalVerdict.YES),
        key=lambda loss: -len(loss.down))
    shown = listed if lists_all else listed[:_LOSSES]
    if shown:
        printing.heading(f'If {_one(report)} is lost', console)
        losses(report, shown).show(console)
        _more(len(listed) - len(shown), console)
    down = [(loss, guest) for loss in shown for guest in loss.down]
    if down:
        printing.heading('Guests that would not come up', console)
        named = down if lists_all else down[:_GUESTS]
        _down(report, named, console)
        _more(len(down) - len(named), console)
    if report.reserve is not None:
        _reserve(report.reserve, report, console)


def _title(report: failover_model.FailoverReport) -> str:
    text, counted = _TITLES[report.verdict]
    total = len(report.losses)
    if total == 1:
        return f'{text} the loss of {report.losses[0].name}'
    return f'{text} the loss of any one {report.groups}' + counted.format(
        len(report.of_verdict(report.verdict)), total)


def _one(report: failover_model.FailoverReport) -> str:
    article = 'an' if report.groups[:1].lower() in 'aeiou' else 'a'
    return f'{article} {report.groups}'


def _remarks(report: failover_model.FailoverReport) -> Iterator[str]:
    survived = report.of_verdict(failover_model.SurvivalVerdict.YES)
    if survived:
        yield (f'{len(survived):,} of {len(report.losses):,} losses are '
               'survived: all guests come up on hosts that were tried, one '
               'guest after the other.')
    guided = [loss.name for loss in survived
              if not loss.is_unguided and loss.guests]
    if guided:
        yield (f'{len(guided):,} of them only with the hosts named to nova; '
               'where nova-scheduler chooses, guests may stay down: '
               f'{words.listed(guided, _NAMES)}.')
    doubt = next((loss.doubt for loss in report.losses if loss.doubt), '')
    if doubt:
        yield f'It is not known {doubt}.'
    if report.ungrouped:
        yield (f'{words.count(len(report.ungrouped), "host")} in no such '
               f'group: {words.listed(report.ungrouped, _NAMES)}.')


def _more(count: int, console: rich.console.Console) -> None:
    if count:
        printing.say(f'and {count:,} more, with --all', console, '  ')


def _down(
    report: failover_model.FailoverReport,
    down: Sequence[tuple[failover_model.HostLoss, failover_model.DownGuest]],
    console: rich.console.Console,
) -> None:
    column, kind = typed_table.Column, typed_table.ColumnKind
    typed_table.show((
        column('loss', None if report.groups == 'host' else report.groups),
        column('host', 'host'),
        column('name', 'guest', of=lambda row: row['name'] or row['guest']),
        column('flavor', 'flavor'),
        column('vcpus', 'vCPUs', kind.COUNT),
        column('memory_mib', 'memory', kind.MEMORY),
        column('reason', 'reason'),
    ), [{**encoder.encode(guest), 'loss': loss.name} for loss, guest in down],
        console)


def _reserve(reserve: failover_model.FailoverReserve,
             report: failover_model.FailoverReport,
             console: rich.console.Console) -> None:
    printing.heading('The least reserve', console)
    if reserve.hosts:
        what = ' and '.join(
            f'{words.count(added.count, "empty host")} like {added.like}'
            for added in reserve.hosts)
        proof = ('It is proved that fewer will not do' if reserve.is_least
                 else 'It is not proved that fewer will not do, but that '
                      f'{reserve.least} at least are needed')
        verb = 'is' if reserve.count == 1 else 'are'
        printing.say(f'{what} {verb} enough to survive that, whichever '
                     f'{report.groups} is lost. {proof}.', console, '  ')
    elif not reserve.unmended:
        printing.say('None is needed.', console, '  ')
    if reserve.unmended:
        printing.say('No further hosts mend these:', console, '  ')
        printing.pairs(reserve.unmended, console)
