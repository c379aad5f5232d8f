#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Hosts and their class for people, and for programs."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import shlex
from typing import Any

import rich.console
import rich.table
import rich.text

from nova_pinning.cli import base
from nova_pinning.drawing import topology
from nova_pinning.host import words
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import traits as placement_traits
from nova_pinning.segregation import change
from nova_pinning.segregation import model

#: How a host of no class is called on the command line.
NONE = 'none'
#: And one whose class is not told the same by all that tells it.
UNCLEAR = 'unclear'
_STYLES = {'dedicated': 'cyan', 'shared': 'green', UNCLEAR: 'bold red'}
_SOURCES = {model.Source.TRAIT: 'trait', model.Source.AGGREGATE: 'aggregates',
            model.Source.ISOLATION: 'isolation'}


@dataclasses.dataclass(frozen=True, slots=True)
class Detail:
    """A host with what else there is to know about its class.

    :param inventories: of its provider, None if it has none
    :param servers: those on it
    """

    host: model.Host
    inventories: Mapping[str, client.Inventory] | None
    servers: tuple[model.Server, ...]

    @property
    def suggested(self) -> frozenset[hostclass.HostClass]:
        """The classes of guests that its inventories have CPUs for."""
        has = {name for name, one in (self.inventories or {}).items()
               if one.total > one.reserved}
        return frozenset(
            host_class for name, host_class in (
                ('PCPU', hostclass.HostClass.DEDICATED),
                ('VCPU', hostclass.HostClass.SHARED)) if name in has)

    @property
    def strangers(self) -> tuple[model.Server, ...]:
        """The servers of the class that the host is not of."""
        host_class = model.host_class(self.host)
        return tuple(one for one in self.servers if host_class
                     and one.host_class is host_class.other)


def class_name(host_class: hostclass.HostClass | None) -> str:
    """A class as the command line has it."""
    return str(host_class or NONE)


def verdict(host: model.Host) -> str:
    """The class of a host in one word."""
    return (class_name(model.host_class(host)) if model.agrees(host)
            else UNCLEAR)


def _said(host: model.Host, source: model.Source) -> list[str]:
    """The classes that a source names, each once."""
    return list(dict.fromkeys(
        str(mark.host_class or 'nonsense') for mark in model.marks(host)
        if mark.source is source))


def _styled(word: str) -> rich.text.Text:
    return rich.text.Text(word, _STYLES.get(word, ''))


# What there is.


def table(hosts: Sequence[model.Host],
          console: rich.console.Console) -> None:
    """Print a line for each host."""
    grid = rich.table.Table(box=None, pad_edge=False, header_style='bold')
    grid.add_column('host', overflow='fold')
    grid.add_column('class', no_wrap=True)
    for title in _SOURCES.values():
        grid.add_column(title)
    grid.add_column('L3 CPUs', justify='right')
    for host in hosts:
        cells = [' '.join(_said(host, source)) or '-' for source in _SOURCES]
        if host.traits is None:
            cells[0] = 'no provider'
        grid.add_row(
            host.name, _styled(verdict(host)), *cells,
            str(placement_traits.l3_cpus(host.traits or ()) or '-'))
    if hosts:
        console.print(grid)
    console.print(_totals(hosts))


def _totals(hosts: Sequence[model.Host]) -> str:
    verdicts = [verdict(host) for host in hosts]
    counts = [(verdicts.count(word), told) for word, told in (
        ('dedicated', 'dedicated'), ('shared', 'shared'),
        (NONE, 'of no class'), (UNCLEAR, UNCLEAR))]
    told = ', '.join(f'{count} {word}' for count, word in counts if count)
    return words.count(len(hosts), 'host') + (f': {told}' if told else '')


def as_dict(host: model.Host) -> dict[str, Any]:
    """A host for JSON."""
    return {
        'name': host.name,
        'node': host.node,
        'provider': host.provider,
        'class': model.host_class(host),
        'agrees': model.agrees(host),
        'sources': {str(source): _said(host, source) for source in _SOURCES},
        'traits': (None if host.traits is None else sorted(host.traits)),
        'aggregates': [one.name for one in host.aggregates],
        'l3_cpus': placement_traits.l3_cpus(host.traits or ()),
    }


def detail_as_dict(detail: Detail) -> dict[str, Any]:
    """A host with all that there is to know, for JSON."""
    return as_dict(detail.host) | {
        'inventories': None if detail.inventories is None else {
            name: dataclasses.asdict(one)
            for name, one in sorted(detail.inventories.items())},
        'suggested': sorted(detail.suggested),
        'servers': [server_as_dict(one) for one in detail.servers],
        'strangers': [one.id for one in detail.strangers],
    }


def server_as_dict(server: model.Server) -> dict[str, Any]:
    """A server for JSON."""
    return {'id': server.id, 'name': server.name, 'project': server.project,
            'flavor': server.flavor, 'status': server.status,
            'class': server.host_class, 'certain': server.is_certain}


def show_detail(detail: Detail, console: rich.console.Console) -> None:
    """Print all that there is to know about a host's class."""
    host = detail.host
    head = rich.text.Text(f'{host.name}: ', 'bold')
    head.append_text(_styled(verdict(host)))
    console.print(head)
    grid = rich.table.Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow='fold')
    for title, text in _rows(detail):
        grid.add_row(f'  {title}', text)
    console.print(grid)
    for line in _advice(detail):
        console.print(line, soft_wrap=True)
    show_servers(detail.strangers, console)


def _rows(detail: Detail) -> Iterator[tuple[str, str]]:
    host = detail.host
    if host.node != host.name:
        yield 'node', host.node
    if host.traits is None:
        yield 'provider', f'{host.provider} is not in Placement'
    else:
        yield 'provider', host.provider
        yield 'traits', '\n'.join(sorted(host.traits)) or 'none of ours'
    yield 'aggregates', '\n'.join(
        _aggregate(one) for one in host.aggregates) or 'none'
    if detail.inventories is not None:
        yield 'CPUs', '\n'.join(
            _inventory(name, detail.inventories[name])
            for name in ('PCPU', 'VCPU')
            if name in detail.inventories) or 'none'
    yield 'servers', _server_counts(detail.servers)


def _aggregate(aggregate: model.Aggregate) -> str:
    told = change.metadata_of_class(aggregate)
    return f'{aggregate.name}: {told}' if told else aggregate.name


def _inventory(name: str, one: client.Inventory) -> str:
    text = f'{one.total} {name}'
    if one.reserved:
        text += f', {one.reserved} of them reserved'
    if one.allocation_ratio != 1:
        text += f', each sold {one.allocation_ratio:g} times'
    return text


def _server_counts(servers: Sequence[model.Server]) -> str:
    counts = [(sum(one.host_class is host_class for one in servers), told)
              for host_class, told in (
                  (hostclass.HostClass.DEDICATED, 'dedicated'),
                  (hostclass.HostClass.SHARED, 'shared'),
                  (None, 'of a class that there is not'))]
    return ', '.join(f'{count} {told}' for count, told in counts
                     if count) or 'none'


def _advice(detail: Detail) -> Iterator[str]:
    host = detail.host
    host_class = model.host_class(host)
    if not model.agrees(host):
        yield 'What tells its class does not agree. Say what it is to be:'
        yield ('  openstack pinning host set --class dedicated|shared|none '
               f'{shlex.quote(host.name)}')
    if host_class and detail.suggested == {host_class.other}:
        yield (f'It has CPUs for {host_class.other} guests only; see '
               '[compute] cpu_dedicated_set and cpu_shared_set.')
    if detail.strangers:
        yield 'These servers belong elsewhere:'


def show_servers(servers: Iterable[model.Server],
                 console: rich.console.Console) -> None:
    """Print a line for each server, indented."""
    grid = rich.table.Table.grid(padding=(0, 2, 0, 0))
    for style in ('', '', 'dim'):
        grid.add_column(overflow='fold', style=style)
    for one in servers:
        grid.add_row(f'    {one.id}', topology.printable(one.name),
                     str(one.host_class))
    if grid.row_count:
        console.print(grid)


# What is changed.


def show_change(planned: change.Change, strangers: Sequence[model.Server],
                console: rich.console.Console,
                is_forced: bool = False) -> None:
    """Print what would change on a host.

    :param strangers: servers of the other class on it
    :param is_forced: whether it would be turned all the same
    """
    told = class_name(planned.host_class)
    if planned.is_needed:
        console.print(rich.text.Text(
            f'{planned.host.name}: to be {told}', 'bold'))
        _show_steps(planned, console)
    elif not planned.kept:
        console.print(f'{planned.host.name}: {told} already')
    _show_kept(planned, console)
    if strangers:
        what = ''
        if planned.is_needed:
            what = (', which would stay there' if is_forced
                    else ', so it would be left as it is')
        console.print(_crowd(strangers) + what, soft_wrap=True)
        show_servers(strangers, console)


def show_result(result: change.Result,
                console: rich.console.Console) -> None:
    """Print what became of a host."""
    name = result.change.host.name
    told = class_name(result.change.host_class)
    match result.status:
        case change.Status.DONE:
            console.print(rich.text.Text(f'{name}: now {told}', 'green'))
            _show_steps(result.change, console)
        case change.Status.UNCHANGED if not result.change.kept:
            console.print(f'{name}: {told} already')
        case change.Status.REFUSED:
            console.print(rich.text.Text(
                f'{name}: left as it is; move these servers first, or give '
                '--force', 'bold red'), soft_wrap=True)
        case change.Status.FAILED:
            console.print(rich.text.Text(
                f'{name}: failed: {result.message}', 'bold red'),
                soft_wrap=True)
    _show_kept(result.change, console)
    if result.strangers:
        console.print(_crowd(result.strangers), soft_wrap=True)
        show_servers(result.strangers, console)
    if result.left:
        console.print(_crowd(result.left) + ', left there', soft_wrap=True)
        show_servers(result.left, console)


def _crowd(strangers: Sequence[model.Server]) -> str:
    other = strangers[0].host_class
    return f'  {words.count(len(strangers), f"{other} server")} on it'


def _show_kept(planned: change.Change,
               console: rich.console.Console) -> None:
    """Print which traits say that a host is of another class."""
    for trait in sorted(planned.kept):
        console.print(rich.text.Text(
            f'{planned.host.name}: its trait {trait} still says something '
            'else', 'bold red'), soft_wrap=True)


def _show_steps(planned: change.Change,
                console: rich.console.Console) -> None:
    steps = [('+', f'trait {one}') for one in sorted(planned.add)]
    steps += [('-', f'trait {one}') for one in sorted(planned.remove)]
    steps += [('+', f'aggregate {one.name}') for one in planned.joins]
    steps += [('-', f'aggregate {one.name}') for one in planned.leaves]
    for sign, text in steps:
        console.print(rich.text.Text(
            f'  {sign} {text}', 'green' if sign == '+' else 'red'),
            soft_wrap=True)


def totals(results: Sequence[change.Result]) -> str:
    """One line: how many hosts were turned and so on."""
    counts = [(sum(one.status is status for one in results), told)
              for status, told in (
                  (change.Status.DONE, 'done'),
                  (change.Status.UNCHANGED, 'unchanged'),
                  (change.Status.REFUSED, 'left as they are'),
                  (change.Status.FAILED, 'failed'))]
    return ', '.join(f'{count} {told}' for count, told in counts if count)


def change_as_dict(planned: change.Change) -> dict[str, Any]:
    """A change for JSON."""
    return {
        'host': planned.host.name,
        'node': planned.host.node,
        'class': planned.host_class,
        'add_traits': sorted(planned.add),
        'remove_traits': sorted(planned.remove),
        'join_aggregates': [one.name for one in planned.joins],
        'leave_aggregates': [one.name for one in planned.leaves],
        'kept_traits': sorted(planned.kept),
    }


def result_as_dict(result: change.Result) -> dict[str, Any]:
    """A change and what became of it, for JSON."""
    return change_as_dict(result.change) | {
        'status': str(result.status), 'message': result.message,
        'strangers': [server_as_dict(one) for one in result.strangers],
        'left': [server_as_dict(one) for one in result.left]}


def exit_status(results: Iterable[change.Result]) -> int:
    """0 if nothing is left to do."""
    return (base.OK if all(one.is_fine for one in results)
            else base.FINDINGS)
