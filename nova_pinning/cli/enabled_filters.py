# SPDX-License-Identifier: Apache-2.0
"""Which filters nova-scheduler has enabled, as a command is told."""

import argparse
from collections.abc import Sequence
import os

from nova_pinning import errors
from nova_pinning.fleet import filter_names
from nova_pinning.fleet import snapshot

_OPTION = '--filters'


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add --filters."""
    parser.add_argument(
        _OPTION, metavar='FILTERS',
        help="the filters that nova-scheduler has enabled, by the names of "
             "their classes with commas between them, or the path of its "
             "nova.conf; to be given where HostClassFilter is not enabled and "
             'the snapshot does not say so, since otherwise guests are kept '
             'off hosts of the other class')


def names(parsed_args: argparse.Namespace,
          fleet: snapshot.Fleet) -> tuple[str, ...] | None:
    """The filters that nova-scheduler has enabled, None if nobody says.

    :param fleet: whose filters count where the option is not given
    :raises errors.InputError: for a file that cannot be read, filters that do
        not look at NUMA topologies, or names that are misspelt
    """
    text = parsed_args.filters
    given: Sequence[str]
    advice = ''
    if text is None:
        given = fleet.enabled_filters
        if not given:
            return None
        where = errors.Location(fleet.where.source, key='enabled_filters')
        advice = f'; say with {_OPTION} which ones are meant'
    elif _is_path(text):
        given = _of_file(text)
        where = errors.Location(text)
    else:
        given = [name.strip() for name in text.split(',')]
        where = errors.Location(_OPTION)
    filter_names.check(given, where)
    if not set(given) & set(filter_names.TOPOLOGY_FILTERS):
        raise errors.InputError(
            f'has neither {" nor ".join(filter_names.TOPOLOGY_FILTERS)}, so '
            'that nova would choose hosts whatever CPUs are free', where,
            f'there {"is" if len(given) == 1 else "are"} {", ".join(given)}'
            f'{advice}')
    return tuple(given)


def _is_path(text: str) -> bool:
    """Whether it is meant as one; a file that is not there may be."""
    return os.sep in text or text.endswith('.conf') or os.path.isfile(text)


def _of_file(path: str) -> Sequence[str]:
    """[filter_scheduler] enabled_filters of a nova.conf."""
    # Only here, for it takes a while to load.
    from nova_pinning.segregation.audit import scheduler_options
    names = scheduler_options.read(['--config-file', path]).enabled_filters
    if not names:
        raise errors.InputError(
            'has no enabled_filters in [filter_scheduler], so nova-scheduler '
            'has those that nova enables by default',
            errors.Location(path),
            'name the filters with --filters, or the file that nova-scheduler '
            'reads')
    return names
