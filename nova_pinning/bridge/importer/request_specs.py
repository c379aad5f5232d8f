# SPDX-License-Identifier: Apache-2.0
"""What somebody asked nova for, as nova has kept it.

For each server nova keeps the request that its scheduler was given (the table
request_specs of the API database), also where no host was found: such a
server is in cell0, with the fault that says so.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from typing import Any

from nova.db.api import models as api_models
from nova.db.main import models
from nova import objects
from oslo_serialization import jsonutils
import sqlalchemy as sa

from nova_pinning.bridge.importer import fleet_import_guests
from nova_pinning.bridge.importer import fleet_import_hosts
from nova_pinning.bridge.importer import nova_database
from nova_pinning.bridge import nova_objects
from nova_pinning import errors
from nova_pinning.flavors import flavor_model


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredRequest:
    """A request as it is stored now.

    :param server: UUID
    :param flavor: as it was then, or after the last resize
    :param image_properties: as an image has them, all as text
    :param availability_zone: None for any, as is project_id
    :param fault: what went wrong last, in nova's words; '' if nothing did
    :param notes: what else was asked for, a sentence each
    """

    server: str
    flavor: flavor_model.Flavor
    image_properties: Mapping[str, str]
    availability_zone: str | None = None
    project_id: str | None = None
    fault: str = ''
    notes: tuple[str, ...] = ()


def stored_request(server: str,
                   arguments: Sequence[str] = ()) -> StoredRequest:
    """Look a request up in nova's databases.

    :param server: UUID of a server, or req-... of the request that made it
    :param arguments: '--config-file' or '--config-dir', each followed by a
        path, for nova.conf
    :raises errors.InputError: if there is none, or it cannot be read
    """
    conf = nova_database.load_conf(arguments)
    with nova_database.opened(conf) as database:
        where = errors.Location('--server')
        if server.startswith('req-'):
            server = _server(database, server, where)
        return _stored(_spec(database, server, where), server,
                       *_fault(database, server))


def _cells(
    database: nova_database.NovaDatabases
) -> Iterator[nova_database.CellDatabase]:
    """All cells; first the one where what found no host is."""
    if database.cell0 is not None:
        yield database.cell0
    yield from database.cells


def _server(database: nova_database.NovaDatabases, request_id: str,
            where: errors.Location) -> str:
    """The server that a request made, of several the first."""
    action = models.InstanceAction
    row, down = _first(database, sa.select(action.instance_uuid).where(
        action.request_id == request_id).order_by(action.id))
    if row is not None:
        uuid: str = row.instance_uuid
        return uuid
    if down:
        raise down[0]
    raise errors.InputError(
        f'nova has no server on which {request_id} did anything', where,
        'nova forgets them when deleted servers are purged; a request that '
        'was refused before there was a server leaves nothing')


def _spec(database: nova_database.NovaDatabases, server: str,
          where: errors.Location) -> Any:
    """A nova.objects.RequestSpec.

    RequestSpec.get_by_instance_uuid would write it back if it is old.
    """
    table = api_models.RequestSpec
    with nova_database.reading('the API database'):
        rows = nova_database.select_api(database.context, sa.select(
            table.spec).where(table.instance_uuid == server))
    if not rows:
        raise errors.InputError(
            f'nova has no request of a server {server}', where,
            'give the UUID of a server that is there, or that failed to boot')
    try:
        spec = objects.RequestSpec.obj_from_primitive(
            jsonutils.loads(rows[0].spec))
        if 'flavor' not in spec:
            raise ValueError('it has no flavor')
        return spec
    except fleet_import_hosts.ODD_JSON as error:
        raise errors.InputError(
            f'the request of server {server} cannot be read: '
            f'{fleet_import_hosts.said(error)}', where) from error


def _fault(database: nova_database.NovaDatabases,
           server: str) -> tuple[str, tuple[str, ...]]:
    """What went wrong with a server last, and cells that may know more."""
    fault = models.InstanceFault
    row, down = _first(database, sa.select(
        fault.message, fault.created_at).where(
            fault.instance_uuid == server, fault.deleted == 0,
        ).order_by(fault.id.desc()))
    if row is None:
        return '', tuple(str(error) for error in down)
    when = (f' ({row.created_at:%Y-%m-%dT%H:%M:%SZ})'
            if row.created_at else '')
    return f'{row.message}{when}', ()


def _first(
    database: nova_database.NovaDatabases, query: Any,
) -> tuple[Any, list[nova_database.DatabaseError]]:
    """The first row in the first cell that has one, None if no cell has.

    :returns: it, and what is wrong with the cells that cannot be read
    """
    down = []
    for cell in _cells(database):
        try:
            with nova_database.reading(str(cell)):
                rows = nova_database.select(cell.context, query.limit(1))
        except nova_database.DatabaseError as error:
            down.append(error)
            continue
        if rows:
            return rows[0], down
    return None, down


def _stored(spec: Any, server: str, fault: str,
            notes: tuple[str, ...]) -> StoredRequest:
    image = spec.image if 'image' in spec else None
    properties = image.properties if image and 'properties' in image else None
    return StoredRequest(
        server=server, flavor=fleet_import_guests.flavor(spec.flavor),
        image_properties=dict(_properties(properties)) if properties else {},
        availability_zone=nova_objects.given(
            spec, 'availability_zone') or None,
        project_id=nova_objects.given(spec, 'project_id') or None,
        fault=fault,
        notes=(*_notes(spec), *notes))


def _properties(properties: Any) -> Iterator[tuple[str, str]]:
    """What an image has to say to become these properties.

    The reverse of ImageMetaProps.from_dict.

    :param properties: a nova.objects.ImageMetaProps
    """
    for name in properties.fields:
        value = getattr(properties, name) if name in properties else None
        if value is None:
            continue
        if name == 'traits_required':
            yield from ((f'trait:{trait}', 'required') for trait in value)
        elif name in ('hw_numa_cpus', 'hw_numa_mem'):
            for cell, own in enumerate(value):
                yield f'{name}.{cell}', _text(own)
        else:
            yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, set):
        value = sorted(value)
    return (','.join(map(str, value)) if isinstance(value, list)
            else str(value))


def _notes(spec: Any) -> Iterator[str]:
    """What a request asks for besides flavor and image."""
    hints = nova_objects.given(spec, 'scheduler_hints') or {}
    for name, values in sorted(hints.items()):
        yield f'it has the scheduler hint {name}={_text(values)}'
    hosts = nova_objects.given(spec, 'force_hosts') or []
    if hosts:
        yield f'it asks for host {_text(hosts)}'
    ports = [pci_request for pci_request in _pci_requests(spec)
             if pci_request.source == objects.InstancePCIRequest.NEUTRON_PORT]
    if ports:
        yield (f'it has {len(ports)} ports that take PCI devices, which are '
               'not looked at')
    if nova_objects.given(spec, 'instance_group'):
        yield 'its server group may exclude hosts, which is not looked at'


def _pci_requests(spec: Any) -> list[Any]:
    pci_requests = nova_objects.given(spec, 'pci_requests')
    return list(pci_requests.requests) if pci_requests else []
