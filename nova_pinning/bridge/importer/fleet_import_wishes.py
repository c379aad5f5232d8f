# SPDX-License-Identifier: Apache-2.0
"""What limits where guests of a snapshot may move, from nova's databases.

The availability zone that each was asked for in, its server group, its tags,
properties of its image, and those of its metadata that concern this package.
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

from nova_pinning.admission import image_properties
from nova_pinning.admission import offered_host
from nova_pinning.bridge.importer import fleet_import_hosts
from nova_pinning.bridge.importer import nova_database

_SPEC = api_models.RequestSpec
_GROUP = api_models.InstanceGroup
_MEMBER = api_models.InstanceGroupMember
_METADATA = models.InstanceMetadata
_SYSTEM_METADATA = models.InstanceSystemMetadata
_TAG = models.Tag
#: How most requests say that no zone was asked for; they are not read.
_NO_ZONE = '%"availability_zone": null%'
_PREFIX = 'pinning:'
#: As nova.utils.SM_IMAGE_PROP_PREFIX.
_IMAGE = 'image_'
_POLICIES = frozenset(map(str, offered_host.GroupPolicy))


@dataclasses.dataclass(frozen=True, slots=True)
class InstanceWishes:
    """What is kept of some instances, each by UUID.

    :param zones: of those that were asked for in one
    :param groups: ids
    :param problems: sentences, each with the instance it is about
    """

    zones: Mapping[str, str] = dataclasses.field(default_factory=dict)
    groups: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tags: Mapping[str, Sequence[str]] = dataclasses.field(
        default_factory=dict)
    metadata: Mapping[str, Mapping[str, str]] = dataclasses.field(
        default_factory=dict)
    images: Mapping[str, Mapping[str, str]] = dataclasses.field(
        default_factory=dict)
    problems: tuple[str, ...] = ()


def server_groups(
    database: nova_database.NovaDatabases,
) -> Iterator[offered_host.ServerGroup]:
    """All server groups that have a policy."""
    for row in objects.InstanceGroupList.get_all(database.context):
        # Very old groups have none, or one of their own.
        if row.policy in _POLICIES:
            yield offered_host.ServerGroup(
                id=row.uuid, name=row.name or '',
                policy=offered_host.GroupPolicy(row.policy),
                max_per_host=int((row.rules or {}).get(
                    'max_server_per_host', 1)))


def of_instances(database: nova_database.NovaDatabases,
                 cell: nova_database.CellDatabase,
                 uuids: Sequence[str]) -> InstanceWishes:
    """What is kept of the instances of a page."""
    zones, problems = _zones(database, uuids)
    tags: dict[str, list[str]] = {}
    for row in nova_database.select(cell.context, sa.select(
            _TAG.resource_id, _TAG.tag,
    ).where(_TAG.resource_id.in_(uuids))):
        tags.setdefault(row.resource_id, []).append(row.tag)
    metadata = _texts(cell, _METADATA, uuids, _PREFIX)
    images = {
        uuid: {name: value for key, value in sorted(found.items())
               if image_properties.is_placed(
                   name := key.removeprefix(_IMAGE))}
        for uuid, found in _texts(
            cell, _SYSTEM_METADATA, uuids, _IMAGE).items()}
    with nova_database.reading('the API database'):
        groups = {
            row.instance_uuid: row.uuid
            for row in nova_database.select_api(database.context, sa.select(
                _MEMBER.instance_uuid, _GROUP.uuid,
            ).join(_GROUP, _GROUP.id == _MEMBER.group_id).where(
                _MEMBER.instance_uuid.in_(uuids)))}
    return InstanceWishes(zones, groups, tags, metadata, images, problems)


def _texts(cell: nova_database.CellDatabase, table: Any,
           uuids: Sequence[str], prefix: str) -> dict[str, dict[str, str]]:
    """Keys of a table that begin so, with their values, by instance."""
    found: dict[str, dict[str, str]] = {}
    for row in nova_database.select(cell.context, sa.select(
            table.instance_uuid, table.key, table.value,
    ).where(table.instance_uuid.in_(uuids), table.deleted == 0,
            table.key.startswith(prefix, autoescape=True))):
        found.setdefault(row.instance_uuid, {})[row.key] = row.value or ''
    return found


def _zones(
    database: nova_database.NovaDatabases, uuids: Sequence[str],
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The zones asked for, and what is odd about the requests."""
    zones: dict[str, str] = {}
    problems: list[str] = []
    with nova_database.reading('the API database'):
        rows = nova_database.select_api(database.context, sa.select(
            _SPEC.instance_uuid, _SPEC.spec,
        ).where(_SPEC.instance_uuid.in_(uuids), _SPEC.spec.not_like(_NO_ZONE)))
    for row in rows:
        try:
            zone = _zone(jsonutils.loads(row.spec))
        except fleet_import_hosts.ODD_JSON as error:
            problems.append(
                f'server {row.instance_uuid}: its request cannot be read, so '
                'it counts as asked for in no availability zone: '
                f'{fleet_import_hosts.said(error)}')
            continue
        if zone:
            zones[row.instance_uuid] = zone
    return zones, tuple(problems)


def _zone(primitive: Any) -> str:
    """The zone in a nova.objects.RequestSpec, as it is stored.

    Of the object itself nothing else is needed, and to make it takes long.
    """
    zone = primitive['nova_object.data'].get('availability_zone')
    if zone is not None and not isinstance(zone, str):
        raise ValueError(f'availability_zone is {zone!r}')
    return zone or ''
