# SPDX-License-Identifier: Apache-2.0
"""Whether a fleet survives failures, for people and for machines."""

from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import rich.console

from nova_pinning.document import quantities
from nova_pinning.host import words
from nova_pinning.presentation import fit_text
from nova_pinning.presentation import printing
from nova_pinning.rebalance import failover_model

#: The columns of :func:`rows`.
COLUMNS = ('name', 'hosts', 'guests', 'vcpus', 'verdict', 'down',
           'least_down', 'is_unguided', 'down_guests')
# Losses, guests and names that a page has room for.
_LOSSES = 20
_GUESTS = 20
_NAMES = 6
_VERDICTS = {
    failover_model.SurvivalVerdict.YES: 'yes',
    failover_model.SurvivalVerdict.NO: 'no',
    failover_model.SurvivalVerdict.UNKNOWN: 'not known',
}
_ONE_TITLES = {
    failover_model.SurvivalVerdict.YES:
        'The fleet survives the loss of {name}',
    failover_model.SurvivalVerdict.NO:
        'The fleet does not survive the loss of {name}',
    failover_model.SurvivalVerdict.UNKNOWN:
        'It is not known whether the fleet survives the loss of {name}',
}


def rows(report: failover_model.FailoverReport) -> Iterator[dict[str, Any]]:
    """One for each loss, in the report's order."""
    for loss in report.losses:
        yield {
            'name': loss.name, 'hosts': list(loss.hosts),
            'guests': loss.guests, 'vcpus': loss.vcpus,
            'verdict': str(loss.verdict), 'down': len(loss.down),
            'least_down': loss.least_down, 'is_unguided': loss.is_unguided,
            'down_guests': [guest.guest for guest in loss.down]}


def as_dict(report: failover_model.FailoverReport) -> dict[str, Any]:
    """All of it for JSON."""
    reserve = report.reserve
    return {
        'version': 1,
        'taken_at': report.taken_at,
        'groups': report.groups,
        'verdict': str(report.verdict),
        'losses': [_loss(loss) for loss in report.losses],
        'reserve': None if reserve is None else {
            'hosts': [{'like': added.like, 'count': added.count}
                      for added in reserve.hosts],
            'count': reserve.count,
            'least': reserve.least,
            'unmended': [{'name': name, 'reason': reason}
                         for name, reason in reserve.unmended]},
        'ungrouped': list(report.ungrouped)}


def _loss(loss: failover_model.HostLoss) -> dict[str, Any]:
    return {
        'name': loss.name,
        'hosts': list(loss.hosts),
        'guests': loss.guests,
        'vcpus': loss.vcpus,
        'verdict': str(loss.verdict),
        'least_down': loss.least_down,
        'is_unguided': loss.is_unguided,
        'down': [{
            'guest': guest.guest, 'name': guest.name, 'host': guest.host,
            'flavor': guest.flavor, 'vcpus': guest.vcpus,
            'memory_mib': guest.memory_mib, 'is_certain': guest.is_certain,
            'reason': guest.reason} for guest in loss.down],
        'evacuations': [{
            'guest': evacuation.guest, 'name': evacuation.name,
            'source': evacuation.source, 'target': evacuation.target,
            'fit': None if evacuation.fit is None
            else fit_text.as_list(evacuation.fit)}
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
        _losses(report, shown, console)
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
    lost = report.of_verdict(failover_model.SurvivalVerdict.NO)
    open_ones = report.of_verdict(failover_model.SurvivalVerdict.UNKNOWN)
    total = len(report.losses)
    if total == 1:
        name, verdict = report.losses[0].name, report.losses[0].verdict
        return _ONE_TITLES[verdict].format(name=name)
    if lost:
        return ('The fleet does not survive the loss of any one '
                f'{_noun(report)}: {len(lost):,} of {total:,} would leave '
                'guests down')
    if open_ones:
        return ('It is not known whether the fleet survives the loss of any '
                f'one {_noun(report)}: of {len(open_ones):,} of {total:,} it '
                'could not be told')
    return f'The fleet survives the loss of any one {_noun(report)}'


def _noun(report: failover_model.FailoverReport) -> str:
    """What is lost together: 'host', 'aggregate' or the metadata's key."""
    return report.groups


def _one(report: failover_model.FailoverReport) -> str:
    article = 'an' if _noun(report)[:1].lower() in 'aeiou' else 'a'
    return f'{article} {_noun(report)}'


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
               f'{_names(guided)}.')
    if report.ungrouped:
        yield (f'{words.count(len(report.ungrouped), "host")} in no such '
               f'group: {_names(report.ungrouped)}.')


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return ', '.join(names[:_NAMES]) + (f' and {more:,} more' if more > 0
                                        else '')


def _more(count: int, console: rich.console.Console) -> None:
    if count:
        printing.say(f'and {count:,} more, with --all', console, '  ')


def _losses(report: failover_model.FailoverReport,
            losses: Sequence[failover_model.HostLoss],
            console: rich.console.Console) -> None:
    """A row for each; what is alike in all of them is left out."""
    columns = [_noun(report), 'guests', 'vCPUs']
    verdicts = len({loss.verdict for loss in losses}) > 1
    is_proved = all(loss.is_proved_least for loss in losses)
    body = []
    for loss in losses:
        row = [loss.name, f'{loss.guests:,}', f'{loss.vcpus:,}']
        if verdicts:
            row.append(_VERDICTS[loss.verdict])
        row.append(f'{len(loss.down):,}')
        if not is_proved:
            row.append(f'{loss.least_down:,}')
        body.append(row)
    columns += ['all come up'] * verdicts + ['down']
    columns += ['at least'] * (not is_proved)
    printing.table(columns, body, console,
                   ('guests', 'vCPUs', 'down', 'at least'))


def _down(
    report: failover_model.FailoverReport,
    down: Sequence[tuple[failover_model.HostLoss, failover_model.DownGuest]],
    console: rich.console.Console,
) -> None:
    by_host = report.groups == 'host'
    columns: tuple[str, ...] = (
        'host', 'guest', 'flavor', 'vCPUs', 'memory', 'reason')
    body: list[tuple[str, ...]] = [
        (guest.host, guest.name or guest.guest, guest.flavor,
         str(guest.vcpus), quantities.shown_memory(guest.memory_mib),
         guest.reason) for _loss, guest in down]
    if not by_host:
        columns = (_noun(report), *columns)
        body = [(loss.name, *cells) for (loss, _guest), cells
                in zip(down, body)]
    printing.table(columns, body, console, ('vCPUs', 'memory'))


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
                     f'{_noun(report)} is lost. {proof}.', console, '  ')
    elif not reserve.unmended:
        printing.say('None is needed.', console, '  ')
    if reserve.unmended:
        printing.say('No further hosts mend these:', console, '  ')
        printing.pairs(reserve.unmended, console)
