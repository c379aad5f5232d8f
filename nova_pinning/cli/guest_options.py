# SPDX-License-Identifier: Apache-2.0
"""The guests that a command is asked about: flavors, image, PCI aliases."""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
import re
import sys

from nova_pinning.admission import devices
from nova_pinning.admission import guest_request
from nova_pinning.bridge.offline import standalone
from nova_pinning.cli import common_options
from nova_pinning.cli import select
from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import snapshot
from nova_pinning.host import words
from nova_pinning import spelling

_FLAVOR_HELP = (
    "name of a flavor in the snapshot, FILE:NAME of a catalogue, or "
    "'key=value key=value ...' with vcpus, ram (MiB, or with a unit), disk "
    'and extra specs')
_OPTION = '--flavor'
_ALIAS = re.compile(
    '([^=:]+)=([0-9a-fA-F]{4}):([0-9a-fA-F]{4})'
    '(?::(legacy|preferred|required|socket))?')


def add_flavor(parser: argparse._ActionsContainer,
               required: bool = True) -> None:
    """Add --flavor, for one."""
    parser.add_argument(_OPTION, required=required, metavar='FLAVOR',
                        help=_FLAVOR_HELP)


def add_flavors(parser: argparse._ActionsContainer) -> None:
    """Add --flavor, which may be given several times, and --catalogue."""
    parser.add_argument(_OPTION, action='append', default=[],
                        metavar='FLAVOR',
                        help=f'{_FLAVOR_HELP}; may be given several times')
    parser.add_argument('--catalogue', metavar='FILE',
                        help='all flavors of a catalogue')


def add_order(parser: argparse.ArgumentParser) -> None:
    """Add what else nova needs to know: --image-property, --pci-alias."""
    common_options.add_image_properties(parser)
    parser.add_argument(
        '--pci-alias', action='append', default=[],
        metavar='NAME=DEVICES',
        help='what a PCI alias stands for, VENDOR:PRODUCT[:POLICY], if the '
             'snapshot does not say; may be given several times, also for '
             'one name')


def requested_flavors(
    parsed_args: argparse.Namespace, fleet: snapshot.Fleet,
) -> tuple[flavor_model.Flavor, ...]:
    """What --flavor and --catalogue name, or all flavors of the snapshot.

    :raises errors.InputError: for what there is not, or if there are none
    """
    named = parsed_args.flavor
    if isinstance(named, str):
        named = [named]
    source = fleet.where.source or 'the snapshot'
    flavors = [select.named_flavor(text, fleet.flavors, source)
               for text in named or ()]
    if getattr(parsed_args, 'catalogue', None) is not None:
        flavors += catalogue.load(parsed_args.catalogue).flavors
    if not flavors:
        flavors = list(fleet.flavors)
    if not flavors:
        raise errors.InputError(
            f'{source} has no flavors', errors.Location(_OPTION),
            "write one out, like 'vcpus=8 ram=16GiB hw:cpu_policy=dedicated'")
    return tuple(_told_apart(flavors))


def _told_apart(
    flavors: Sequence[flavor_model.Flavor],
) -> Iterator[flavor_model.Flavor]:
    """Each flavor once, with its own name; it keeps that if it can.

    Of several that are written out without a name, each is called by what it
    is.
    """
    unnamed = [flavor for flavor in flavors if flavor.name == select.UNNAMED]
    if any(flavor != unnamed[0] for flavor in unnamed):
        flavors = [dataclasses.replace(flavor, name=_shape(flavor))
                   if flavor in unnamed else flavor for flavor in flavors]
    taken = {flavor.name for flavor in flavors}
    by_name: dict[str, list[flavor_model.Flavor]] = {}
    for flavor in flavors:
        alike = by_name.setdefault(flavor.name, [])
        if flavor in alike:
            continue
        alike.append(flavor)
        name = flavor.name
        if len(alike) > 1:
            name = next(free for number in itertools.count(2) if (
                free := f'{flavor.name}-{number}') not in taken)
            taken.add(name)
        yield dataclasses.replace(flavor, name=name)


def _shape(flavor: flavor_model.Flavor) -> str:
    """What a flavor is: '2 vCPUs x 4 GiB dedicated'."""
    return (f'{words.count(flavor.vcpus, "vCPU")} x '
            f'{quantities.shown_memory(flavor.memory_mib)} '
            + flavor.extra_specs.get('hw:cpu_policy', 'shared'))


def pci_aliases(
    parsed_args: argparse.Namespace, fleet: snapshot.Fleet,
) -> dict[str, snapshot.PciAlias]:
    """The snapshot's PCI aliases and what --pci-alias says, which counts more.

    :raises errors.InputError: for an odd one
    """
    given: dict[str, snapshot.PciAlias] = {}
    where = errors.Location('--pci-alias')
    for text in parsed_args.pci_alias:
        match = _ALIAS.fullmatch(text)
        if match is None:
            raise errors.InputError(
                f'{text!r} is not a PCI alias', where,
                'write it like gpu=10de:20b5 or gpu=10de:20b5:required')
        name, vendor, product, policy = match.groups()
        spec = devices.device_keys(vendor.lower(), product.lower(), '')
        before = given.get(name)
        if before is None:
            given[name] = snapshot.PciAlias((spec,), policy or 'legacy')
        elif policy and policy != before.policy:
            raise errors.InputError(
                f'{name} has the policies {before.policy} and {policy}',
                where, 'one alias has one policy')
        else:
            given[name] = before._replace(specs=(*before.specs, spec))
    return {**fleet.pci_aliases, **given}


def guest_requests(
    parsed_args: argparse.Namespace, fleet: snapshot.Fleet,
) -> tuple[guest_request.GuestRequest, ...]:
    """One guest of each flavor that is named, as nova would place it.

    Loads nova, so it is called once all files are known to be good.

    Those of the snapshot that nova refuses are left out with a warning, unless
    they are asked for by name.

    :raises errors.InputError: if nova would not accept one that is named, or
        any
    """
    named = requested_flavors(parsed_args, fleet)
    image: Mapping[str, str] = common_options.image_properties(parsed_args)
    aliases = pci_aliases(parsed_args, fleet)
    standalone.prepare()
    from nova_pinning.bridge.offline import flavor_request
    is_named = bool(parsed_args.flavor) or parsed_args.catalogue is not None
    requests = []
    with flavor_request.batch(fleet.rules.pci_in_placement):
        for flavor in named:
            try:
                requests.append(guest_request_for(flavor, image, aliases))
            except errors.InputError as error:
                if is_named:
                    raise
                print(spelling.printable(f'warning: left out: {error}'),
                      file=sys.stderr)
    if not requests:
        raise errors.InputError('nova would accept none of its flavors',
                                fleet.where, 'name others with --flavor')
    return tuple(requests)


def requests_by_name(
    parsed_args: argparse.Namespace, fleet: snapshot.Fleet,
    named: Mapping[str, errors.Location],
) -> dict[str, guest_request.GuestRequest]:
    """Guests of the flavors that are named, as nova would place them.

    Loads nova, if there are any.

    :param named: with where each is used
    :raises errors.InputError: for one that there is not
    """
    return requests_of(named, fleet,
                       common_options.image_properties(parsed_args),
                       pci_aliases(parsed_args, fleet))


def requests_of(
    named: Mapping[str, errors.Location], fleet: snapshot.Fleet,
    image: Mapping[str, str], aliases: Mapping[str, snapshot.PciAlias],
) -> dict[str, guest_request.GuestRequest]:
    """The same, with these image properties and PCI aliases."""
    source = fleet.where.source or 'the snapshot'
    flavors = {}
    for name, where in named.items():
        try:
            flavors[name] = select.named_flavor(name, fleet.flavors, source)
        except errors.InputError as error:
            raise errors.InputError(error.message, where,
                                    error.advice) from None
    if not flavors:
        return {}
    standalone.prepare()
    from nova_pinning.bridge.offline import flavor_request
    with flavor_request.batch(fleet.rules.pci_in_placement):
        return {name: guest_request_for(flavor, image, aliases)
                for name, flavor in flavors.items()}


def guest_request_for(
    flavor: flavor_model.Flavor, image_properties: Mapping[str, str],
    aliases: Mapping[str, snapshot.PciAlias],
) -> guest_request.GuestRequest:
    """One guest of a flavor, as nova would place it; see bridge.wanted.

    :raises errors.InputError: if nova would not accept it, with the option
        that helps
    """
    from nova_pinning.bridge.offline import flavor_request
    from nova_pinning.bridge.offline import order
    try:
        return flavor_request.request_for(flavor, image_properties, aliases)
    except errors.InputError as error:
        advice = error.advice
        unknown = sorted(order.pci_aliases(flavor) - set(aliases))
        if unknown and 'PCI alias' in error.message:
            advice = 'say what it stands for: ' + ' '.join(
                f'--pci-alias {name}=VENDOR:PRODUCT' for name in unknown)
        raise errors.InputError(
            select.without_made_up_name(error), error.where,
            advice) from error
