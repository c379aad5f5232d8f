# SPDX-License-Identifier: Apache-2.0
"""Hosts and their class for people, and for programs."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import functools
from typing import Any

import rich.console
import rich.text

from nova_pinning.host import words
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.presentation import flavor_changes
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table
from nova_pinning.segregation import class_change
from nova_pinning.segregation import segregation_model
from nova_pinning.segregation import site_apply

#: How a host of no class is called on the command line.
NONE = 'none'
#: And one whose class is not told the same by all that tells it.
UNCLEAR = 'unclear'
_STYLES = {'dedicated': 'cyan', 'shared': 'green', UNCLEAR: 'bold red'}
_SOURCES = {
    segregation_model.MarkSource.TRAIT: 'trait',
    segregation_model.MarkSource.AGGREGATE: 'aggregates',
    segregation_model.MarkSource.ISOLATION: 'isolation'}

#: Servers of the other class, by the UUID of the provider of the host that
#: they are on.
Crowds = Mapping[str, Sequence[segregation_model.HostedServer]]


def class_name(host_class: hostclass.HostClass | None) -> str:
    """A class as the command line has it."""
    return str(host_class or NONE)


def verdict(host: segregation_model.MarkedHost) -> str:
    """The class of a host in one word."""
    return (class_name(segregation_model.host_class(host))
            if segregation_model.agrees(host) else UNCLEAR)


def _said(host: segregation_model.MarkedHost,
          source: segregation_model.MarkSource) -> list[str]:
    """The classes that a source names, each once."""
    return list(
        dict.fromkeys(
            str(mark.host_class or 'nonsense')
            for mark in segregation_model.marks(host)
            if mark.source is source))


# What there is.


def hosts_table(
    hosts: Sequence[segregation_model.MarkedHost],
) -> typed_table.Table:
    """A row for each host: its class, and as each of the sources tells it."""
    column = typed_table.Column
    return typed_table.Table((
        column('name', 'host'),
        column('node'),
        column('class', 'class', style=lambda word: _STYLES.get(word, '')),
        *map(column, _SOURCES.values()),
        *(column('', title, of=functools.partial(_said_text, source=title))
          for title in _SOURCES.values()),
        column('l3_cpus'),
        column('', 'L3 CPUs', typed_table.ColumnKind.COUNT,
               lambda row: row['l3_cpus'] or '-'),
    ), [as_dict(host) | {'class': verdict(host)} | {
        title: _said(host, source) for source, title in _SOURCES.items()}
        for host in hosts])


def _said_text(row: Mapping[str, Any], source: str) -> str:
    if source == 'trait' and row['traits'] is None:
        return 'no provider'
    return ' '.join(row[source]) or '-'


def host_totals(hosts: Sequence[segregation_model.MarkedHost]) -> str:
    """How many hosts there are of each class."""
    verdicts = [verdict(host) for host in hosts]
    counts = [(verdicts.count(word), told) for word, told in (
        ('dedicated', 'dedicated'), ('shared', 'shared'),
        (NONE, 'of no class'), (UNCLEAR, UNCLEAR))]
    told = ', '.join(f'{count} {word}' for count, word in counts if count)
    return words.count(len(hosts), 'host') + (f': {told}' if told else '')


def as_dict(host: segregation_model.MarkedHost) -> dict[str, Any]:
    """A host for JSON."""
    return {
        'name': host.name,
        'node': host.node,
        'provider': host.provider,
        'class': segregation_model.host_class(host),
        'agrees': segregation_model.agrees(host),
        'sources': {str(source): _said(host, source) for source in _SOURCES},
        'traits': (None if host.traits is None else sorted(host.traits)),
        'aggregates': [aggregate.name for aggregate in host.aggregates],
        'l3_cpus': placement_traits.l3_cpus(host.traits or ())}


def server_as_dict(server: segregation_model.HostedServer) -> dict[str, Any]:
    """A server for JSON."""
    return {'id': server.id, 'name': server.name, 'project': server.project,
            'flavor': server.flavor, 'status': server.status,
            'class': server.host_class, 'certain': server.is_certain}


def _show_servers(servers: Iterable[segregation_model.HostedServer],
                  console: rich.console.Console) -> None:
    """Print a line for each server, indented."""
    column = typed_table.Column
    typed_table.Table((
        column('id', ''), column('name', ''),
        column('host_class', '', style=lambda shown: 'dim'),
    ), servers).show(console, '    ')


# What is changed.


def show_changes(changes: Iterable[class_change.ClassChange], crowds: Crowds,
                 console: rich.console.Console, is_forced: bool) -> None:
    """Print what would change, a block for hosts that change alike.

    :param is_forced: whether hosts are turned all the same
    """
    blocks: dict[tuple[Any, ...], list[str]] = {}
    for change in changes:
        if change.is_needed:
            blocks.setdefault(
                (change.group, change.host_class, *_steps(change)),
                []).append(change.host.name)
    for (group, host_class, *taken), names in blocks.items():
        head = f'{_class_text(host_class)}: {", ".join(names)}'
        print_change(console, f'{group}: {head}' if group else head, taken)
    for change in changes:
        _show_kept(change, console)
        servers = crowds.get(change.host.provider)
        if servers:
            what = '' if not change.is_needed else (
                ' would be turned all the same' if is_forced
                else ' would be left as it is')
            print_change(
                console, f'{change.host.name}{what}: {_crowd(servers)}')
            _show_servers(servers, console)


def print_change(console: rich.console.Console, head: str,
                 taken: Iterable[tuple[str, str]] = ()) -> None:
    """Print what is changed, and the steps that takes."""
    for line in printing.wrap(head, console.width, '', '  '):
        printing.title(line, console)
    flavor_changes.show_steps(taken, console)


def show_result(result: class_change.ChangeResult,
                console: rich.console.Console, has_steps: bool) -> None:
    """Print what became of a host.

    :param has_steps: with the steps that were taken
    """
    told = _class_text(result.change.host_class)
    match result.status:
        case class_change.ChangeStatus.DONE:
            line = f'now {told}'
        case class_change.ChangeStatus.UNCHANGED:
            line = f'{told} already'
        case class_change.ChangeStatus.REFUSED:
            line = ('left as it is; move these servers first, or give '
                    '--force')
        case class_change.ChangeStatus.FAILED:
            line = f'failed: {result.message}'
    style = {class_change.ChangeStatus.DONE: 'green',
             class_change.ChangeStatus.UNCHANGED: ''}.get(
                 result.status, 'bold red')
    if result.status is not class_change.ChangeStatus.UNCHANGED or (
            not result.change.kept):
        console.print(rich.text.Text(
            f'{result.change.host.name}: {line}', style), soft_wrap=True)
    if has_steps and result.status is class_change.ChangeStatus.DONE:
        flavor_changes.show_steps(_steps(result.change), console)
    _show_kept(result.change, console)
    for servers, left in (result.strangers, ''), (result.left, ', left there'):
        if servers:
            console.print(f'  {_crowd(servers)}{left}', soft_wrap=True)
            _show_servers(servers, console)


def _crowd(servers: Sequence[segregation_model.HostedServer]) -> str:
    """'2 shared servers on it'."""
    return words.count(
        len(servers), f'{servers[0].host_class} server') + ' on it'


def _class_text(host_class: hostclass.HostClass | None) -> str:
    """A class in a sentence."""
    return str(host_class or 'no class')


def _show_kept(planned: class_change.ClassChange,
               console: rich.console.Console) -> None:
    """Print which traits say that a host is of another class."""
    for trait in sorted(planned.kept):
        console.print(rich.text.Text(
            f'{planned.host.name}: its trait {trait} still says something '
            'else', 'bold red'), soft_wrap=True)


def _steps(turn: class_change.ClassChange) -> list[tuple[str, str]]:
    """What is taken off a host and put on it, each with '-' or '+'."""
    return [
        *(('-', f'trait {trait}') for trait in sorted(turn.remove)),
        *(('+', f'trait {trait}') for trait in sorted(turn.add)),
        *(('-', f'aggregate {left.name}') for left in turn.leaves),
        *(('+', f'aggregate {name}') for name in turn.joins)]


def totals(results: Sequence[site_apply.Result]) -> str:
    """One line: how many hosts and aggregates were changed and so on."""
    counts = [(sum(result.status is status for result in results), told)
              for status, told in (
                  (class_change.ChangeStatus.DONE, 'done'),
                  (class_change.ChangeStatus.UNCHANGED, 'unchanged'),
                  (class_change.ChangeStatus.REFUSED, 'left as they are'),
                  (class_change.ChangeStatus.FAILED, 'failed'))]
    return ', '.join(f'{count} {told}' for count, told in counts
                     if count) or 'nothing to do'


def change_as_dict(planned: class_change.ClassChange,
                   crowds: Crowds) -> dict[str, Any]:
    """A change for JSON, with the servers that keep the host as it is."""
    return _change_as_dict(planned) | {'strangers': list(map(
        server_as_dict, crowds.get(planned.host.provider, ())))}


def _change_as_dict(planned: class_change.ClassChange) -> dict[str, Any]:
    return {
        'host': planned.host.name,
        'node': planned.host.node,
        'provider': planned.host.provider,
        'group': planned.group,
        'class': planned.host_class,
        'add_traits': sorted(planned.add),
        'remove_traits': sorted(planned.remove),
        'join_aggregates': list(planned.joins),
        'leave_aggregates': [leave.name for leave in planned.leaves],
        'kept_traits': sorted(planned.kept)}


def result_as_dict(result: class_change.ChangeResult) -> dict[str, Any]:
    """A change and what became of it, for JSON."""
    return _change_as_dict(result.change) | {
        'status': str(result.status),
        'message': result.message,
        'strangers': list(map(server_as_dict, result.strangers)),
        'left': list(map(server_as_dict, result.left))}
