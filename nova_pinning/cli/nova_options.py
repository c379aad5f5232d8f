# SPDX-License-Identifier: Apache-2.0
"""What nova.conf says of a cloud, as a command about a fleet is told."""

import argparse
from collections.abc import Sequence
from typing import Any

from nova_pinning.cli import common_options
from nova_pinning import errors
from nova_pinning.fleet import filter_names
from nova_pinning.fleet import snapshot

_OPTION = '--config-file'


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add --config-file."""
    common_options.add_nova_conf(
        parser, 'a nova.conf, or a directory of such files, which says what '
        'nova-scheduler and nova-compute are set to: enabled_filters, [pci] '
        'alias, availability zones, aggregates that isolate, live migration. '
        'What it sets outweighs the snapshot; may be given several times')


def read(parsed_args: argparse.Namespace) -> Any:
    """What --config-file names: oslo_config.cfg.ConfigOpts, None for nothing.

    :raises errors.InputError: if it cannot be read
    """
    if not getattr(parsed_args, 'nova_arguments', ()):
        return None
    # Only here, for it takes seconds.
    from nova_pinning.bridge.importer import nova_database
    return nova_database.load_conf(common_options.nova_arguments(parsed_args))


def with_options(parsed_args: argparse.Namespace,
                 fleet: snapshot.Fleet) -> snapshot.Fleet:
    """The fleet, but for what --config-file sets.

    :raises errors.InputError: if it cannot be read, or filters are misspelt,
        or do not look at NUMA topologies
    """
    conf = read(parsed_args)
    if conf is None:
        return fleet
    from nova_pinning.bridge.importer import fleet_import_settings
    told = fleet_import_settings.overridden(fleet, conf)
    if told.enabled_filters != fleet.enabled_filters:
        _check(told.enabled_filters, errors.Location(', '.join(
            path for _option, path in parsed_args.nova_arguments)))
    return told


def enabled_filters(fleet: snapshot.Fleet) -> tuple[str, ...] | None:
    """The filters that nova-scheduler has enabled, None if nobody says.

    :raises errors.InputError: for filters that are misspelt, or do not look
        at NUMA topologies
    """
    if fleet.enabled_filters:
        _check(fleet.enabled_filters, errors.Location(
            fleet.where.source, key='enabled_filters'))
    return fleet.enabled_filters or None


def _check(given: Sequence[str], where: errors.Location) -> None:
    filter_names.check(given, where)
    if not set(given) & set(filter_names.TOPOLOGY_FILTERS):
        raise errors.InputError(
            f'has neither {" nor ".join(filter_names.TOPOLOGY_FILTERS)}, so '
            'that nova would choose hosts whatever CPUs are free', where,
            f'there {"is" if len(given) == 1 else "are"} {", ".join(given)}; '
            f'name the nova.conf of nova-scheduler with {_OPTION}')
