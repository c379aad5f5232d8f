# SPDX-License-Identifier: Apache-2.0
"""nova-pinning fleet import nova: a snapshot from nova's databases."""

import argparse
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import functools
from typing import Any
from typing import TypeVar

from nova_pinning.bridge.offline import standalone
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import fleets
from nova_pinning import errors
from nova_pinning.fleet import provider_trees
from nova_pinning.fleet import snapshot
from nova_pinning.host import host_loader
from nova_pinning.importers import snapshot_limits

_T = TypeVar('_T')


class ImportNova(base_command.FileCommand):
    """Take a snapshot of a fleet from nova's databases.

    Reads hosts and guests of all cells, with nova's own code, where nova.conf
    says that they are; nothing is written to them. To be run on a controller.
    The databases are read in pages of a thousand rows, each in a transaction
    of its own, so nobody waits for it; what changes meanwhile is seen as it
    is when its page is read.

    What is odd is told on the error output, and the import goes on. A cell
    that cannot be read ends it, with nothing written.

    Examples::

      nova-pinning fleet import nova --output fleet.json.zst
      nova-pinning fleet import nova --placement --host-files hosts/ \\
          --config-file /etc/kolla/nova-api/nova.conf -o fleet.json
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        fleets.add_output(parser)
        common_options.add_nova_conf(parser)
        parser.add_argument('--skip-down-cells', action='store_true',
                            help='go on without the hosts of cells whose '
                            'database cannot be read')
        parser.add_argument('--placement', action='store_true',
                            help='ask Placement, as [placement] of nova.conf '
                            'says, what it has of hosts: three requests for '
                            'each provider')
        common_options.add_host_files(
            parser, "hosts' L3 domains and reserved memory")

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        common_options.check_output(parsed_args.output)
        fleet, notes = read(
            common_options.nova_arguments(parsed_args),
            parsed_args.host_files, asks_placement=parsed_args.placement,
            skips_down_cells=parsed_args.skip_down_cells)
        left_out = save(parsed_args, fleet)
        base_command.tell('warning', [*notes, *left_out])
        return base_command.OK


def read(
    nova_arguments: Sequence[str], host_files: str | None,
    asks_placement: bool = True, skips_down_cells: bool = False,
) -> tuple[snapshot.Fleet, Sequence[str]]:
    """A fleet from nova's databases, and what is odd, a sentence each.

    Loads nova.

    :param nova_arguments: that nova's own programs would be given
    :param host_files: a directory, or a file
    :raises errors.InputError: if something cannot be read
    """
    descriptions = host_loader.by_name(host_files)
    # Only here, for it takes seconds.
    standalone.prepare()
    from nova_pinning.bridge.importer import fleet_import
    from nova_pinning.bridge.importer import nova_database
    conf = nova_database.load_conf(nova_arguments)
    with (nova_database.opened(conf) as database,
          fleets.progress('importing') as tell):
        imported = fleet_import.read(
            database, skips_down_cells=skips_down_cells,
            descriptions=descriptions,
            tell=lambda done, total: tell(done / total),
            read_trees=functools.partial(_trees, conf, tell)
            if asks_placement else None)
    return imported.fleet, [*imported.notes, *unmatched(
        descriptions, (host.name for host in imported.fleet.hosts))]


def _trees(conf: Any, tell: Callable[[float], None], hosts: Sequence[str],
           ) -> Mapping[str, provider_trees.HostTree]:
    from nova_pinning.bridge.importer import nova_placement

    def follow(results: Iterator[_T], total: int) -> Iterator[_T]:
        for done, result in enumerate(results, 1):
            tell(done / total)
            yield result

    try:
        return provider_trees.read(
            nova_placement.connect(conf), hosts, follow)
    except errors.CloudError as error:
        raise errors.InputError(
            f'what Placement has of hosts cannot be read: {error}',
            errors.Location('--placement')) from error


# What openstack pinning fleet import has as well.

def unmatched(descriptions: Iterable[str],
              names: Iterable[str]) -> Iterator[str]:
    """Host files that belong to no host, in words."""
    for name in sorted(set(descriptions) - set(names)):
        yield f'there is a file for host {name}, which the cloud does not have'


def save(parsed_args: argparse.Namespace,
         fleet: snapshot.Fleet) -> Sequence[str]:
    """Write the snapshot, without what none can hold.

    :returns: what that was, a sentence each
    :raises errors.InputError: if it cannot be written
    """
    try:
        fleets.save(parsed_args, fleet)
        return ()
    except snapshot_limits.UNSOUND:
        sound, notes = snapshot_limits.drop_unrepresentable(fleet)
        if not notes:
            raise
    fleets.save(parsed_args, sound)
    return notes
