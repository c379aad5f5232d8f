# SPDX-License-Identifier: Apache-2.0


"""nova-pinning capacity: how much can still be sold of a fleet."""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

import rich.console

from nova_pinning.admission import guest_request
from nova_pinning.admission import judge
from nova_pinning.admission import outcome
from nova_pinning.bridge.offline import deferred_claim
from nova_pinning.capacity import capacity
from nova_pinning.capacity import count
from nova_pinning.capacity import stranded
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import display
from nova_pinning.cli import fleets
from nova_pinning.cli import guest_options
from nova_pinning.cli import nova_options
from nova_pinning.document import packed
from nova_pinning.document import quantities
from nova_pinning.document import size_mix
from nova_pinning import errors
from nova_pinning.fleet import occupied
from nova_pinning.fleet import snapshot
from nova_pinning.host import words
from nova_pinning.presentation import capacity_report
from nova_pinning.presentation import printing
from nova_pinning.presentation import typed_table
from nova_pinning import units

_PRESENT = 'present'
#: Why nothing fits where not even the totals promise anything.
_NOTHING_FREE = 'none are free'
_BAR_CELLS = 8


class ShowCapacity(display.Lister):
    """Show how much can still be sold of a fleet.

    The exact number of further guests of each flavor that nova will place,
    each flavor for itself, beside the number that the free CPUs of each host
    as a whole promise, and what is in the way. Then the CPUs and the memory
    that no flavor on sale can use.

    Where not all of a host is known, as after an import through the compute
    API, figures can be bounds: they are marked "at most", and the exit status
    is 1.

    The format prometheus is for the textfile collector. 'nova-pinning fleet
    report' has a page with pictures.

    Without --flavor, the flavors are those of the snapshot.

    Examples::

      nova-pinning capacity fleet.json.zst
      nova-pinning capacity fleet.json.zst --per-class --mix
      nova-pinning capacity fleet.json.zst --mix 8:70,16:30
      nova-pinning capacity fleet.json.zst --flavor flavors.yaml \\
          --config-file nova.conf
      nova-pinning capacity fleet.json.zst --per-host --format csv \\
          --flavor 'vcpus=8 ram=32GiB hw:cpu_policy=dedicated'
      nova-pinning capacity fleet.json.zst -f value -c flavor -c fits
      nova-pinning capacity fleet.json.zst --per-class -f csv \\
          --sort-column fits:desc
    """

    texts = ('prometheus',)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleets.add_argument(parser, required=False)
        guest_options.add_flavors(parser)
        common_options.add_image_properties(parser)
        nova_options.add_option(parser)
        common_options.add_assume(parser)
        parser.add_argument('--per-host', action='store_true',
                            help='each host too, or in rows instead')
        parser.add_argument('--per-class', action='store_true',
                            help='each class of hosts too, or in rows instead')
        parser.add_argument(
            '--mix', nargs='?', const=_PRESENT, metavar='SIZES',
            help='say how many guests of a mix fit as well: flavors, or '
                 'vCPUs[xCELLS], with weights, such as 8:70,32x2:30; if none '
                 'is given, in the proportions of the guests that the fleet '
                 'has now')

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        _tell_apart(parsed_args)
        with fleets.without_collector():
            return self._run(parsed_args)

    def _run(self, parsed_args: argparse.Namespace) -> display.Answer:
        fleet = fleets.load(parsed_args)
        admission = judge.AdmissionJudge(dataclasses.replace(
            occupied.rules_of(fleet),
            enabled_filters=nova_options.enabled_filters(fleet)),
            deferred_claim.BOUNDS,
            assumes=common_options.assumed(parsed_args))
        if not fleet.hosts:
            raise errors.InputError('has no hosts', fleet.where)
        with fleets.progress('asking nova what the flavors are'):
            requests = guest_options.guest_requests(parsed_args, fleet)
        weights = None
        if parsed_args.mix is not None:
            weights = mix_weights(parsed_args.mix, requests, fleet)
        with fleets.progress('counting') as progress:
            measured = capacity.measure(
                fleet, requests, weights, admission, progress=progress)
        per_host = parsed_args.per_host
        if any(size.is_bound for size in measured.sizes()):
            self.status = base_command.FINDINGS
        return display.Answer(
            capacity_report.table(
                measured, parsed_args.per_class, per_host),
            lambda console: show(measured, console, parsed_args.per_class,
                                 per_host),
            lambda: capacity_report.as_dict(measured, per_host),
            {'prometheus': lambda: capacity_report.as_metrics(measured)})


def _tell_apart(parsed_args: argparse.Namespace) -> None:
    """Take FLEET for the fleet where it stands behind --mix.

    :raises errors.InputError: if there is none
    """
    mix = parsed_args.mix
    if parsed_args.fleet is None and mix not in (None, _PRESENT) and (
            mix == packed.STANDARD or not any(
                share.vcpus or share.has_weight for share
                in size_mix.parse(mix, errors.Location('--mix')))):
        parsed_args.fleet, parsed_args.mix = mix, _PRESENT
    if parsed_args.fleet is None:
        raise errors.InputError(
            'is missing', errors.Location('FLEET'),
            'name a fleet snapshot, or - for the standard input')


def mix_weights(
    text: str, requests: Sequence[guest_request.GuestRequest],
    fleet: snapshot.Fleet,
) -> dict[str, int]:
    """The share of each flavor that --mix says.

    :raises errors.InputError: for what is not a flavor on sale
    """
    where = errors.Location('--mix')
    present = capacity.guests_by_flavor(fleet)
    names = {request.name for request in requests}
    if text == _PRESENT:
        shares = {name: guests for name, guests in present.items()
                  if name in names}
        if not shares:
            raise errors.InputError(
                'the fleet has no guests of these flavors', where,
                'say what the mix is, such as 8:70,16:30')
        return shares
    given = size_mix.parse(text, where)
    shares = {}
    for share, weight in zip(given, size_mix.whole_weights(given)):
        name = share.what
        if name not in names:
            # The usual one, where several have as many vCPUs.
            of_size = sorted(
                (request.name for request in requests
                 if _is_of_size(request, share)),
                key=lambda candidate: (-present.get(candidate, 0), candidate))
            if not of_size:
                raise errors.InputError(
                    f'no flavor on sale is called {name}, or has so many '
                    'vCPUs', where, common_options.known(sorted(names)))
            name = of_size[0]
        if name in shares:
            raise errors.InputError(f'{name} is in it twice', where)
        shares[name] = weight
    return shares


def _is_of_size(request: guest_request.GuestRequest,
                share: size_mix.SizeShare) -> bool:
    """Whether a guest has so many vCPUs, and cells where that is said."""
    cells = len(request.topology.cells) if request.topology else 1
    return (request.vcpus == share.vcpus
            and share.cells in (0, cells))


def show(capacity: capacity.FleetCapacity, console: rich.console.Console,
         per_class: bool = False, per_host: bool = False) -> None:
    """Print the tables."""
    printing.title(
        f'What fits on {_hosts(capacity.hosts)} with '
        f'{words.count(len(capacity.fleet.guests), "guest")}, each flavor for '
        'itself', console)
    _sizes(capacity.sizes(), console)
    _show_bounds(capacity, console)
    _show_stranded(capacity_report.total(capacity.hosts), console)
    _mixes(capacity, console)
    if per_class:
        for host_class, hosts in capacity.by_class().items():
            name = capacity_report.class_name(host_class)
            printing.heading(f'Class {name}: {_hosts(hosts)}', console)
            _sizes(capacity.sizes(hosts), console)
            _show_stranded(capacity_report.total(hosts), console)
    if per_host:
        printing.heading('Hosts', console)
        _per_host(capacity, console)


def _show_bounds(capacity: capacity.FleetCapacity,
                 console: rich.console.Console) -> None:
    """Why some figures are bounds."""
    examples: dict[outcome.Doubt, list[str]] = {}
    for host in capacity.hosts:
        for doubt in dict.fromkeys(
                doubt for counts in host.counts for doubt in counts.doubts):
            examples.setdefault(doubt, []).append(host.host.name)
    if not examples:
        return
    printing.heading('At most, since not all is known', console)
    printing.pairs([
        (f'{words.count(len(names), "host")}, {names[0]} one of them'
         if len(names) > 1 else names[0], doubt.text)
        for doubt, names in examples.items()], console)


def _fits(size: capacity.FlavorCapacity) -> str:
    if not size.is_bound:
        return f'{size.fits:,}'
    return (f'{size.certain:,} to {size.fits:,}' if size.certain
            else f'at most {size.fits:,}')


def _sizes(sizes: Sequence[capacity.FlavorCapacity],
           console: rich.console.Console) -> None:
    column, kind = typed_table.Column, typed_table.ColumnKind
    # Where nova gets to the most there is nothing to tell.
    has_most = any(size.most != size.fits for size in sizes)
    is_spread = capacity.is_spread(sizes)
    typed_table.show((
        column('', 'flavor', of='request.name'),
        column('', 'vCPUs', kind.COUNT, 'request.vcpus'),
        column('', 'memory', kind.MEMORY, 'request.memory_mib'),
        column('', 'fits', kind.COUNT, _fits),
        column('', '', of=_bar, rank=1),
        column('', 'at most' if has_most else None, kind.COUNT,
               lambda size: '?' if size.most is None else size.most),
        column('', 'host totals', kind.COUNT, 'totals'),
        column('', 'L3 (fewest)' if is_spread else None, kind.COUNT,
               'caches.text'),
        column('', 'missing because', of=_because)), sizes, console)


def _bar(size: capacity.FlavorCapacity) -> str:
    """What fits of what host totals promise."""
    if not size.totals:
        return ''
    filled = size.fits * _BAR_CELLS // size.totals
    if size.fits and not filled:
        filled = 1
    return '█' * filled + '░' * (_BAR_CELLS - filled)


def _because(size: capacity.FlavorCapacity) -> str:
    """The largest cause, with its figure if there are others."""
    if not size.missing:
        return '' if size.fits else _NOTHING_FREE
    cause, guests = next(iter(size.missing.items()))
    if len(size.missing) == 1:
        return capacity_report.CAUSES[cause]
    return f'{guests:,}: {capacity_report.CAUSES[cause]}'


def _show_stranded(stranded: stranded.StrandedResources,
                   console: rich.console.Console) -> None:
    printing.heading('Free, but not usable by any of these flavors', console)
    printing.pairs(_stranded(stranded), console)


def _stranded(
        stranded: stranded.StrandedResources) -> Iterator[tuple[str, str]]:
    yield 'CPUs', _of_free(stranded.cpus, stranded.free_cpus)
    for alias, free in sorted(capacity_report.by_alias(
            stranded.free_devices).items()):
        yield alias, _of_free({
            cause: number for cause in count.CapacityCause
            if (number := sum(
                devices for (group, why), devices in stranded.devices.items()
                if (group.alias, why) == (alias, cause)))}, free)
    if stranded.orphans:
        yield 'orphan threads', (
            f'{stranded.orphans:,} of the free CPUs are on a core of which '
            'another CPU is taken')
    for size_kib, mib in sorted(stranded.memory_mib.items()):
        name = 'memory'
        if size_kib:
            name = f'{quantities.shown_page_size(size_kib)} pages'
        yield name, f'{_amount(mib)}, for which no CPUs are left'


def _of_free(stranded: Mapping[count.CapacityCause, int], free: int) -> str:
    """How many of those free are stranded, and why."""
    causes = sorted(stranded.items(), key=lambda item: -item[1])
    text = f'{sum(stranded.values()):,} of {free:,} free'
    if len(causes) == 1:
        text += f': {capacity_report.STRANDED[causes[0][0]]}'
    elif causes:
        text += ': ' + ', '.join(
            f'{number:,} since {capacity_report.STRANDED[cause]}'
            for cause, number in causes)
    return text


def _mixes(capacity: capacity.FleetCapacity,
           console: rich.console.Console) -> None:
    for mix in capacity.mixes:
        vcpus = sum(request.vcpus * guests for request, guests
                    in zip(mix.requests, mix.mix.counts))
        bound = ('not one more' if mix.mix.is_exact else
                 f'more than {mix.mix.bound:,} cannot fit')
        printing.heading(
            f'As a mix: {mix.mix.guests:,} guests with {vcpus:,} vCPUs; '
            f'{bound}', console)
        total = sum(mix.weights)
        typed_table.show(
            ('flavor', typed_table.Column(
                title='share', kind=typed_table.ColumnKind.SHARE),
             typed_table.count('fits')),
            [(request.name, weight / total, guests)
             for request, weight, guests in zip(
                 mix.requests, mix.weights, mix.mix.counts)], console)
    if capacity.left_out:
        printing.heading('In no mix', console)
        printing.pairs(capacity.left_out.items(), console)


def _per_host(capacity: capacity.FleetCapacity,
              console: rich.console.Console) -> None:
    rows = []
    for host in capacity.hosts:
        left = host.stranded
        cause = max(left.cpus, key=left.cpus.__getitem__, default=None)
        rows.append((
            host.host.name, capacity_report.class_name(host.host.host_class),
            left.free_cpus, left.stranded_cpus, left.orphans,
            _amount(sum(left.memory_mib.values())),
            ', '.join(f'{"at most " * bool(count.doubts)}{count.fits:,} '
                      f'{request.name}' for count, request
                      in zip(host.counts, capacity.requests) if count.fits)
            or ('none' if cause is None
                else f'none: {capacity_report.STRANDED[cause]}')))
    typed_table.show(
        ('host', 'class', *map(typed_table.count, (
            'free CPUs', 'stranded', 'orphans', 'memory')),
         'further guests'), rows, console)


def _amount(mib: int) -> str:
    """A sum of memory, of which whole GiB are enough."""
    return f'{mib / units.MIB_PER_GIB:,.0f} GiB'


def _hosts(hosts: Sequence[capacity.HostCapacity]) -> str:
    return words.count(len(hosts), 'host')
