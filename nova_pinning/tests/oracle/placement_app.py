# SPDX-License-Identifier: Apache-2.0
"""A real Placement in this process, for questions about allocation candidates.

Rows are written into its database, which is in memory, past its API: to make
a provider by it takes longer than a question. Questions go through its WSGI
application. There is one in a process, since Placement has one database.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import copy
import functools
import json
import types
import typing as ty
from unittest import mock
import urllib.parse
import uuid

import jsonschema
from oslo_config import cfg
from placement import conf
from placement.db.sqlalchemy import models
from placement import db_api
from placement import deploy
from placement.objects import allocation_candidate
from placement.objects import research_context
import requests
import sqlalchemy as sa
from sqlalchemy import pool
import webob

from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host

#: What nova-scheduler asks with (SchedulerReportClient).
MICROVERSION = '1.36'
#: More than there are; nova's own limit is [scheduler] max_placement_results.
LIMIT = 1_000_000
NOBODY: Mapping[str, ty.Any] = types.MappingProxyType({})


class PlacementApp:
    """Placement with the providers of some hosts.

    The UUIDs of providers in ``children`` are those in Placement; that of
    a host's own provider is its name. A provider that shares with several
    hosts is in ``children`` of each of them.
    """

    def __init__(self) -> None:
        config = cfg.ConfigOpts()
        conf.register_opts(config)
        config.set_override('connection', 'sqlite://', 'placement_database')
        config.set_override('auth_strategy', 'noauth2', 'api')
        config([], default_config_files=[])
        db_api.placement_context_manager.configure(
            connection='sqlite://', mysql_sql_mode=None)
        self._engine = sa.create_engine(
            'sqlite://', poolclass=pool.StaticPool,
            connect_args={'check_same_thread': False})
        db_api.placement_context_manager.patch_engine(self._engine)
        models.BASE.metadata.create_all(self._engine)
        self._application = deploy.loadapp(config)

    def fill(self, hosts: Sequence[offered_host.OfferedHost],
             used: Sequence[Sequence[Mapping[str, int]]],
             owners: Mapping[str, Mapping[str, Mapping[str, int]]] = NOBODY,
             ) -> None:
        """Put these hosts, with what is used of them, in the place of others.

        :param used: by host and by provider
        :param owners: by provider's UUID, what consumers have of it: all that
            is used, if anything is given
        """
        ids = dict[str, int]()
        rows: dict[ty.Any, list[dict[str, ty.Any]]] = {
            table: [] for table in (
                models.ResourceProvider, models.Inventory,
                models.ResourceProviderTrait, models.PlacementAggregate,
                models.ResourceProviderAggregate, models.Allocation,
                models.Consumer, models.Project, models.User)}
        with self._engine.begin() as connection:
            for table in rows:
                connection.execute(sa.delete(table))
            traits = self._ids(connection, models.Trait, {
                name for host in hosts for provider in host.providers
                for name in provider.traits or ()})
            classes = self._ids(connection, models.ResourceClass, {
                name for host in hosts for name in host.offers})
            for number, host in enumerate(hosts):
                self._add_host(rows, ids, number, host, used[number],
                               traits, classes)
            if owners:
                self._give(rows, ids, classes, owners)
            for table, values in rows.items():
                if values:
                    connection.execute(sa.insert(table), values)

    def _add_host(self, rows, ids, number, host, used, traits,
                  classes) -> None:
        """The rows of a host, without those of providers that it shares."""
        sharing = [provider for provider in host.providers
                   if provider.is_shared]
        aggregate = number + 1
        rows[models.PlacementAggregate].append(
            {'id': aggregate, 'uuid': str(uuid.UUID(int=aggregate))})
        uuids = [host.name, *[child.uuid for child in host.children]]
        for index, provider in enumerate(host.providers):
            is_new = uuids[index] not in ids
            own = ids.setdefault(uuids[index], len(ids) + 1)
            if provider in sharing or (index == 0 and sharing):
                rows[models.ResourceProviderAggregate].append(
                    {'resource_provider_id': own, 'aggregate_id': aggregate})
            if not is_new:
                continue
            parent = provider.parent
            rows[models.ResourceProvider].append({
                'id': own, 'uuid': uuids[index], 'name': uuids[index],
                'generation': 0,
                'root_provider_id': own if parent is None else ids[
                    uuids[0]],
                'parent_provider_id': None if parent is None else ids[
                    uuids[parent]]})
            rows[models.ResourceProviderTrait] += [
                {'resource_provider_id': own, 'trait_id': traits[name]}
                for name in provider.traits or ()]
            for name, has in provider.inventories:
                rows[models.Inventory].append({
                    'resource_provider_id': own,
                    'resource_class_id': classes[name], 'total': has.total,
                    'reserved': has.reserved, 'min_unit': has.min_unit,
                    'max_unit': has.most, 'step_size': has.step_size,
                    'allocation_ratio': has.allocation_ratio})
            rows[models.Allocation] += [
                {'resource_provider_id': own, 'consumer_id': uuids[index],
                 'resource_class_id': classes[name], 'used': amount}
                for name, amount in used[index].items() if amount]

    def _give(self, rows, ids, classes, owners) -> None:
        """Have consumers have what is used."""
        consumers = sorted({one for of_provider in owners.values()
                            for one in of_provider})
        for table in (models.Project, models.User):
            rows[table].append({'id': 1, 'external_id': 'somebody'})
        rows[models.Consumer] = [
            {'uuid': one, 'project_id': 1, 'user_id': 1, 'generation': 1}
            for one in consumers]
        rows[models.Allocation] = [
            {'resource_provider_id': ids[provider], 'consumer_id': consumer,
             'resource_class_id': classes[name], 'used': amount}
            for provider, of_provider in owners.items()
            for consumer, amounts in of_provider.items()
            for name, amount in amounts.items() if amount]

    def _ids(self, connection, table, names) -> dict[str, int]:
        """The ids of traits or classes, made where there are none."""
        known = dict(connection.execute(sa.select(table.name, table.id)).all())
        missing = sorted(names - set(known))
        if missing:
            first = max(known.values()) + 1
            connection.execute(sa.insert(table), [
                {'id': first + number, 'name': name}
                for number, name in enumerate(missing)])
            return self._ids(connection, table, names)
        return known

    def candidates(
        self, query: guest_request.CandidatesQuery,
    ) -> list[dict[str, ty.Any]]:
        """What Placement answers; nothing where it answers with an error."""
        return self.answers(querystring(query))

    def answers(self, text: str) -> list[dict[str, ty.Any]]:
        """What Placement answers to the text of a query."""
        response = self._answer('/allocation_candidates?' + text,
                                MICROVERSION)
        if response.status_int == 400:
            return []
        if response.status_int != 200:
            raise RuntimeError(response.text)
        return json.loads(response.body)['allocation_requests']

    def _answer(self, path: str, microversion: str) -> webob.Response:
        request = webob.Request.blank(path, headers={
            'X-Auth-Token': 'admin',
            'OpenStack-API-Version': f'placement {microversion}'})
        with mock.patch.object(
                jsonschema.Draft4Validator, 'check_schema'):
            return request.get_response(self._application)

    def request(self, path: str, method: str, *, microversion: str,
                params: Mapping[str, str] | None = None,
                **_options: ty.Any) -> requests.Response:
        """What a keystoneauth1 adapter does, for placement.client."""
        answer = self._answer(
            f'{path}?{urllib.parse.urlencode(params or {})}', microversion)
        response = requests.Response()
        response.status_code = answer.status_int
        response._content = answer.body
        response.request = requests.Request(method, f'http://p{path}')
        return response

    @contextlib.contextmanager
    def without_luck(self) -> Iterator[None]:
        """Placement without what makes answers depend on some order.

        It copies amounts before it adds to them, also where it may not
        (copy_arr_if_needed), and keeps equal amounts of different trees apart.
        See admission_cases.is_luck.
        """
        with mock.patch.object(
                research_context.RequestWideSearchContext,
                'copy_arr_if_needed',
                lambda _self, resource: copy.copy(resource)), \
            mock.patch.object(
                allocation_candidate.AllocationRequest, '__eq__',
                lambda one, other: (
                    one.anchor_root_provider_uuid, one.mappings,
                    set(one.resource_requests)) == (
                    other.anchor_root_provider_uuid, other.mappings,
                    set(other.resource_requests))):
            yield

    def define(self, queries) -> None:
        """Make sure that Placement knows all classes and traits asked for."""
        with self._engine.begin() as connection:
            self._ids(connection, models.Trait, {
                name for query in queries
                for name in query.required | query.forbidden})
            self._ids(connection, models.ResourceClass, {
                name for query in queries for name in query.resources})


@functools.cache
def app() -> PlacementApp:
    """The one of this process."""
    return PlacementApp()


def querystring(query: guest_request.CandidatesQuery) -> str:
    """As ResourceRequest.to_querystring of nova's makes it."""
    pairs = [('limit', str(LIMIT)), ('group_policy', query.group_policy)]
    if query.root_required or query.root_forbidden:
        pairs.append(('root_required', _traits(
            query.root_required, query.root_forbidden)))
    pairs += [('same_subtree', ','.join(sorted(subtree)))
              for subtree in query.same_subtree]
    for group in query.groups:
        if group.asked:
            pairs.append((f'resources{group.suffix}', ','.join(
                f'{name}:{amount}' for name, amount in group.asked)))
        if group.required or group.forbidden:
            pairs.append((f'required{group.suffix}', _traits(
                group.required, group.forbidden)))
    return urllib.parse.urlencode(sorted(pairs))


def _traits(required, forbidden) -> str:
    return ','.join([*sorted(required),
                     *(f'!{name}' for name in sorted(forbidden))])
