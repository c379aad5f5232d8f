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


"""nova-pinning capacity: how much can still be sold of a fleet."""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import json
import re

import rich.console

from nova_pinning.cli import base
from nova_pinning.cli import fleets
from nova_pinning.cli import options
from nova_pinning.cli import printing
from nova_pinning.cli import wanted as cli_wanted
from nova_pinning.document import files
from nova_pinning.document import quantities
from nova_pinning.drawing import charts
from nova_pinning import errors
from nova_pinning.fleet.capacity import capacity
from nova_pinning.fleet.capacity import count
from nova_pinning.fleet.capacity import report
from nova_pinning.fleet.capacity import stranded
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning.host import words

_PRESENT = 'present'
_ITEM = re.compile(r'(.+):([0-9]{1,6})')
_BAR_CELLS = 8
_BAR = ''
_MIB_PER_GIB = 1024

#: What is in the way, in words that fit a table.
CAUSES: Mapping[count.Cause, str] = {
    count.Cause.DISABLED: 'hosts are disabled',
    count.Cause.TRAITS: 'traits of hosts',
    count.Cause.AGGREGATES: 'aggregates of hosts',
    count.Cause.CLASS: 'other class of hosts',
    count.Cause.CELLS: 'scattered over cells',
    count.Cause.CORES: 'no whole cores',
    count.Cause.STRAY_PINS: 'a guest on other CPUs',
    count.Cause.MEMORY: 'too little memory',
    count.Cause.PAGES: 'too few pages',
    count.Cause.DISK: 'too little disk',
    count.Cause.PLACEMENT: 'fewer CPUs in Placement',
    count.Cause.DEVICES: 'too few devices near CPUs',
    count.Cause.ORDER: "nova's order of cells",
}
#: What keeps free CPUs from being sold, for a sentence.
_STRANDED: Mapping[count.Cause, str] = {
    **CAUSES,
    count.Cause.CELLS: 'too few are left in a NUMA cell',
    count.Cause.CORES: 'their cores are not whole',
    count.Cause.STRAY_PINS: 'a guest is pinned to other than dedicated CPUs',
    count.Cause.MEMORY: 'too little memory is left for them',
    count.Cause.PAGES: 'too few pages are left for them',
}


class ShowCapacity(base.Command):
    """Show how much can still be sold of a fleet.

    The exact number of further guests of each flavor that nova will place,
    each flavor for itself, beside the number that the free CPUs of each host
    as a whole promise, and what is in the way. Then the CPUs and the memory
    that no flavor on sale can use.

    Without --flavor and --catalogue, the flavors are those of the snapshot.
    """

    epilog = """
        Examples::

          nova-pinning capacity fleet.json.zst
          nova-pinning capacity fleet.json.zst --class --mix
          nova-pinning capacity fleet.json.zst --mix 8:70,16:30
          nova-pinning capacity fleet.json.zst --catalogue flavors.yaml \\
              --svg capacity.svg
          nova-pinning capacity fleet.json.zst --per-host --format csv \\
              --flavor 'vcpus=8 ram=32GiB hw:cpu_policy=dedicated'
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        fleets.add_argument(parser)
        cli_wanted.add_flavors(parser)
        cli_wanted.add_order(parser)
        parser.add_argument('--per-host', action='store_true',
                            help='list the hosts as well')
        parser.add_argument('--class', dest='per_class', action='store_true',
                            help='list each class of hosts as well')
        parser.add_argument(
            '--mix', nargs='?', const=_PRESENT, metavar='MIX',
            help='say how many guests of a mix fit as well; flavors or sizes '
                 'in vCPUs with their shares, such as 8:70,16:30; if none is '
                 'given, as the guests are that the fleet has now')
        options.add_format(parser, 'table', 'json', 'csv', 'prometheus')
        parser.add_argument('--svg', metavar='FILE',
                            help='draw a bar chart as well, which takes '
                                 'nova-pinning[plots]')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.svg is not None:
            files.check(parsed_args.svg)
            charts.check()
        with fleets.without_collector():
            return self._run(parsed_args)

    def _run(self, parsed_args: argparse.Namespace) -> int:
        fleet = fleets.load(parsed_args)
        if not fleet.hosts:
            raise errors.InputError('has no hosts', fleet.where)
        with fleets.progress('asking nova what the flavors are'):
            wanted = cli_wanted.wanted(parsed_args, fleet)
        weights = None
        if parsed_args.mix is not None:
            weights = mix_weights(parsed_args.mix, wanted, fleet)
        with fleets.progress('counting') as progress:
            found = capacity.measure(fleet, wanted, weights,
                                     progress=progress)
        if parsed_args.svg is not None:
            from nova_pinning.fleet.capacity import chart
            files.replace(parsed_args.svg, chart.svg(
                found.sizes(), f'{_hosts(found.hosts)}: what can still be '
                               'sold, each flavor for itself'))
        if parsed_args.format == 'json':
            print(json.dumps(report.as_dict(found, parsed_args.per_host),
                             indent=2))
        elif parsed_args.format == 'csv':
            print(report.as_csv(found, parsed_args.per_host), end='')
        elif parsed_args.format == 'prometheus':
            print(report.as_metrics(found), end='')
        else:
            show(found, base.console(), parsed_args.per_class,
                 parsed_args.per_host)
        return base.OK


def mix_weights(
    text: str, wanted: Sequence[fleet_wanted.Wanted],
    fleet: fleet_model.Fleet,
) -> dict[str, int]:
    """The share of each flavor that --mix says.

    :raises errors.InputError: for what is no flavor on sale
    """
    where = errors.Location('--mix')
    present = capacity.present(fleet)
    names = {one.name for one in wanted}
    if text == _PRESENT:
        found = {name: guests for name, guests in present.items()
                 if name in names}
        if not found:
            raise errors.InputError(
                'the fleet has no guests of these flavors', where,
                'say what the mix is, such as 8:70,16:30')
        return found
    found = {}
    for item in text.split(','):
        match = _ITEM.fullmatch(item.strip())
        if match is None or not int(match[2]):
            raise errors.InputError(
                f'{item.strip()!r} is not a flavor or size with its share',
                where, 'write a mix like 8:70,16:30')
        name = match[1]
        if name not in names:
            # The usual one, where several have as many vCPUs.
            of_size = sorted(
                (one.name for one in wanted
                 if name == str(one.flavor.vcpus)),
                key=lambda one: (-present.get(one, 0), one))
            if not of_size:
                raise errors.InputError(
                    f'no flavor on sale is called {name}, or has so many '
                    'vCPUs', where, options.known(sorted(names)))
            name = of_size[0]
        if name in found:
            raise errors.InputError(f'{name} is in it twice', where)
        found[name] = int(match[2])
    return found


def show(found: capacity.Capacity, console: rich.console.Console,
         per_class: bool = False, per_host: bool = False) -> None:
    """Print the tables."""
    printing.title(
        f'What fits on {_hosts(found.hosts)} with '
        f'{words.count(len(found.fleet.guests), "guest")}, each flavor for '
        'itself', console)
    _sizes(found.sizes(), console)
    _show_stranded(report.total(found.hosts), console)
    _mixes(found, console)
    if per_class:
        for host_class, hosts in found.by_class().items():
            printing.heading(
                f'Class {report.class_name(host_class)}: {_hosts(hosts)}',
                console)
            _sizes(found.sizes(hosts), console)
            _show_stranded(report.total(hosts), console)
    if per_host:
        printing.heading('Hosts', console)
        _per_host(found, console)


def _sizes(sizes: Sequence[capacity.Size],
           console: rich.console.Console) -> None:
    columns = ['flavor', 'vCPUs', 'memory', 'fits', _BAR]
    # Where nova gets to the most there is nothing to tell.
    has_most = any(size.most != size.fits for size in sizes)
    if has_most:
        columns.append('at most')
    columns += ['host totals', 'missing because']
    rows = []
    for size in sizes:
        flavor = size.wanted.flavor
        row = [flavor.name, str(flavor.vcpus),
               quantities.shown_memory(flavor.memory_mib),
               f'{size.fits:,}', _bar(size, console)]
        if has_most:
            row.append('?' if size.most is None else f'{size.most:,}')
        rows.append([*row, f'{size.totals:,}', _because(size)])
    if not printing.has_room(columns, rows, console):
        place = columns.index(_BAR)
        for row in (columns, *rows):
            del row[place]
    printing.table(columns, rows, console, (
        'vCPUs', 'memory', 'fits', 'at most', 'host totals'))


def _bar(size: capacity.Size, console: rich.console.Console) -> str:
    """What fits of what host totals promise."""
    if not size.totals:
        return ''
    filled = size.fits * _BAR_CELLS // size.totals
    if size.fits and not filled:
        filled = 1
    return printing.bar(filled, _BAR_CELLS - filled, console)


def _because(size: capacity.Size) -> str:
    """The largest cause, with its figure if there are others."""
    if not size.missing:
        return ''
    cause, guests = next(iter(size.missing.items()))
    if len(size.missing) == 1:
        return CAUSES[cause]
    return f'{guests:,}: {CAUSES[cause]}'


def _show_stranded(one: stranded.Stranded,
                   console: rich.console.Console) -> None:
    printing.heading('Free, and of no use to any of these flavors', console)
    printing.pairs(_stranded(one), console)


def _stranded(one: stranded.Stranded) -> Iterator[tuple[str, str]]:
    causes = sorted(one.cpus.items(), key=lambda item: -item[1])
    text = f'{one.stranded_cpus:,} of {one.free_cpus:,} free'
    if len(causes) == 1:
        text += f': {_STRANDED[causes[0][0]]}'
    elif causes:
        text += ': ' + ', '.join(f'{cpus:,} since {_STRANDED[cause]}'
                                 for cause, cpus in causes)
    yield 'CPUs', text
    if one.orphans:
        yield 'orphan threads', (
            f'{one.orphans:,} of the free CPUs are on a core of which '
            'another CPU is taken')
    for size_kib, mib in sorted(one.memory_mib.items()):
        name = 'memory'
        if size_kib:
            name = f'{quantities.shown_page_size(size_kib)} pages'
        yield name, f'{_amount(mib)}, for which no CPUs are left'


def _mixes(found: capacity.Capacity, console: rich.console.Console) -> None:
    for one in found.mixes:
        vcpus = sum(wanted.flavor.vcpus * guests for wanted, guests
                    in zip(one.wanted, one.mix.counts))
        bound = ('not one more' if one.mix.is_exact else
                 f'more than {one.mix.bound:,} cannot fit')
        printing.heading(
            f'As a mix: {one.mix.guests:,} guests with {vcpus:,} vCPUs; '
            f'{bound}', console)
        total = sum(one.weights)
        printing.table(
            ('flavor', 'share', 'fits'),
            [(wanted.name, f'{100 * weight / total:.1f}%', f'{guests:,}')
             for wanted, weight, guests in zip(
                 one.wanted, one.weights, one.mix.counts)],
            console, ('share', 'fits'))
    if found.left_out:
        printing.heading('In no mix', console)
        printing.pairs(found.left_out.items(), console)


def _per_host(found: capacity.Capacity,
              console: rich.console.Console) -> None:
    rows = []
    for host in found.hosts:
        left = host.stranded
        cause = max(left.cpus, key=left.cpus.__getitem__, default=None)
        rows.append([
            host.host.name, report.class_name(host.host.host_class),
            f'{left.free_cpus:,}', f'{left.stranded_cpus:,}',
            f'{left.orphans:,}',
            _amount(sum(left.memory_mib.values())),
            ', '.join(f'{one.fits:,} {wanted.name}' for one, wanted
                      in zip(host.counts, found.wanted) if one.fits)
            or (f'none: {_STRANDED[cause]}' if cause else 'none')])
    printing.table(
        ('host', 'class', 'free CPUs', 'stranded', 'orphans', 'memory',
         'further guests'), rows, console,
        ('free CPUs', 'stranded', 'orphans', 'memory'))


def _amount(mib: int) -> str:
    """A sum of memory, of which whole GiB are enough."""
    return f'{mib / _MIB_PER_GIB:,.0f} GiB'


def _hosts(hosts: Sequence[capacity.Host]) -> str:
    return words.count(len(hosts), 'host')
