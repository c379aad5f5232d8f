# SPDX-License-Identifier: Apache-2.0
"""The fleet of nova's harness, read from the databases of its services."""

from nova import context as nova_context
from nova import objects

from nova_pinning.bridge.importer import fleet_import
from nova_pinning.bridge.importer import nova_database
from nova_pinning.fleet import provider_trees
from nova_pinning.placement import client
from nova_pinning.scheduler import traits_reader


def read(test, asks_placement=False):
    """The fleet as ``nova-pinning fleet import nova`` reads it.

    :param test: whose ``nova`` is the cloud
    :param asks_placement: whether with ``--placement``
    """
    test.nova.update_resources()
    context = nova_context.get_admin_context()
    mapping = next(one for one in objects.CellMappingList.get_all(context)
                   if not one.is_cell0())
    [path] = test.create_tempfiles([('nova', '')], '.conf')
    with nova_context.target_cell(context, mapping) as targeted:
        imported = fleet_import.read(nova_database.NovaDatabases(
            nova_database.load_conf(['--config-file', path]), context,
            (nova_database.CellDatabase('cell1', mapping.uuid, targeted),)),
            read_trees=_trees if asks_placement else None)
    test.assertEqual((), imported.notes)
    return imported.fleet


def _trees(hosts):
    return provider_trees.read(
        client.PlacementClient(traits_reader.connect()._adapter), hosts)
