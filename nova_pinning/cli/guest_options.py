# SPDX-License-Identifier: Apache-2.0
"""The guests that a command is asked about: flavors and their image."""

import argparse
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
import os
import sys

from nova_pinning.admission import guest_request
from nova_pinning.admission import pci_alias
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


def add_flavor(parser: argparse._ActionsContainer) -> None:
    """Add --flavor, for one."""
    parser.add_argument(_OPTION, metavar='FLAVOR', help=_FLAVOR_HELP)


def add_flavors(parser: argparse._ActionsContainer) -> None:
    """Add --flavor, which may be given several times."""
    parser.add_argument(_OPTION, action='append', default=[],
                        metavar='FLAVOR',
                        help=f'{_FLAVOR_HELP}; a catalogue without a name is '
                             'all of its flavors; may be given several times')


def requested_flavors(
    parsed_args: argparse.Namespace, fleet: snapshot.Fleet,
) -> tuple[flavor_model.Flavor, ...]:
    """What --flavor names, or all flavors of the snapshot.

    :raises errors.InputError: for what there is not, or if there are none
    """
    named = parsed_args.flavor
    is_one = isinstance(named, str)
    source = fleet.where.source or 'the snapshot'
    own = {flavor.name for flavor in fleet.flavors}
    flavors: list[flavor_model.Flavor] = []
    for text in [named] if is_one else named or ():
        if not is_one and text not in own and os.path.isfile(text):
            flavors += catalogue.load(text).flavors
        else:
            flavors.append(select.named_flavor(text, fleet.flavors, source))
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
    standalone.prepare()
    from nova_pinning.bridge.offline import flavor_request
    requests = []
    with flavor_request.batch(fleet.rules.pci_in_placement):
        for flavor in named:
            try:
                requests.append(guest_request_for(
                    flavor, image, fleet.pci_aliases))
            except errors.InputError as error:
                if parsed_args.flavor:
                    raise
                print(spelling.printable(f'warning: left out: {error}'),
                      file=sys.stderr)
    if not requests:
        raise errors.InputError('nova would accept none of its flavors',
                                fleet.where, 'name others with --flavor')
    return tuple(requests)


def requests_by_name(
    named: Mapping[str, errors.Location], fleet: snapshot.Fleet,
    image: Mapping[str, str],
) -> dict[str, guest_request.GuestRequest]:
    """Guests of the flavors that are named, as nova would place them.

    Loads nova, if there are any.

    :param named: with where each is used
    :param image: its properties
    :raises errors.InputError: for one that there is not
    """
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
        return {name: guest_request_for(flavor, image, fleet.pci_aliases)
                for name, flavor in flavors.items()}


def guest_request_for(
    flavor: flavor_model.Flavor, image_properties: Mapping[str, str],
    aliases: Mapping[str, pci_alias.PciAlias],
) -> guest_request.GuestRequest:
    """One guest of a flavor, as nova would place it; see bridge.wanted.

    :raises errors.InputError: if nova would not accept it, with the option
        that helps
    """
    from nova_pinning.bridge.offline import flavor_request
    try:
        return flavor_request.request_for(flavor, image_properties, aliases)
    except errors.InputError as error:
        advice = error.advice
        unknown = sorted(
            {*pci_alias.names(flavor.extra_specs)}.difference(aliases))
        if unknown and 'PCI alias' in error.message:
            advice = ('give a nova.conf with --config-file in which [pci] has '
                      + ' and '.join(
                          f'alias = {{"name": "{name}", "vendor_id": '
                          '"VENDOR", "product_id": "PRODUCT"}'
                          for name in unknown))
        raise errors.InputError(
            select.without_made_up_name(error), error.where,
            advice) from error
