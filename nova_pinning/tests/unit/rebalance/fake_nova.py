# SPDX-License-Identifier: Apache-2.0
"""A compute API in memory, whose guests can be moved, with faults.

It is asked over HTTP, through openstacksdk and keystoneauth1 as they are; only
the socket is missing. Migrations go on by a step whenever somebody sleeps.
"""

from collections.abc import Callable
import dataclasses
import enum
import json
import re
import urllib.parse

import openstack
import requests
import requests_mock

from nova_pinning.rebalance import migration_cloud

KEYSTONE = 'http://keystone.example/v3'
NOVA = 'http://nova.example/v2.1'
PLACEMENT = 'http://placement.example'

LIVE_STEPS = ('accepted', 'queued', 'preparing', 'running', 'post-migrating',
              'completed')
COLD_STEPS = ('pre-migrating', 'migrating', 'post-migrating', 'finished')
#: How a migration goes on that was answered.
ANSWERED = {'confirming': 'confirmed', 'reverting': 'reverted'}
GIB = 1024 ** 3


class Fault(enum.Enum):
    """What may befall a request."""

    CONFLICT = 409
    TOO_MANY = 429
    ERROR = 500
    UNAVAILABLE = 503
    #: The token is no longer good.
    EXPIRED = 401
    #: The connection ends before nova has seen the request,
    DROPPED = 'dropped'
    #: or after, so that the client never gets the answer.
    LOST = 'lost'
    #: The client is killed before it sends the request,
    KILLED = 'killed'
    #: or when it waits for the answer.
    KILLED_LATE = 'killed late'


#: Those that a client lives to see.
TOLD = tuple(fault for fault in Fault
             if fault not in (Fault.KILLED, Fault.KILLED_LATE))


class Killed(BaseException):
    """The end of a process."""


@dataclasses.dataclass
class Guest:
    """A guest; cells are as migration_cloud.MigrationCloud gives them."""

    uuid: str
    host: str
    cells: tuple
    status: str = 'ACTIVE'
    task_state: str | None = None
    #: What a cold migration came from.
    old: tuple | None = None
    fault: str = ''


@dataclasses.dataclass
class Migration:
    id: int
    guest: str
    kind: str
    status: str
    source: str
    target: str
    cells: tuple = ()
    was: str = 'ACTIVE'


@dataclasses.dataclass
class Host:
    cpus: int = 4
    status: str = 'enabled'
    state: str = 'up'
    #: Whether its nova-compute is heard of, but does nothing.
    hangs: bool = False


class FakeNova:
    """Hosts with guests.

    :ivar requests: (method, path) of each since :meth:`restart`
    :ivar breaks: the status at which the migration of a guest ends in which,
        once: {'g1': ('running', 'error')}
    :ivar claims: where a guest is put on a host, where that is not on the
        first free CPUs
    :ivar at_tick: called with the number of each step
    :ivar watch: called after each request and each step
    """

    def __init__(self, hosts: dict[str, Host], guests: list[Guest]) -> None:
        self.hosts = hosts
        self.guests = {guest.uuid: guest for guest in guests}
        self.migrations: list[Migration] = []
        self.breaks: dict[str, tuple[str, str]] = {}
        self.claims: dict[tuple[str, str], tuple] = {}
        self.actions: dict[str, list[tuple[str, str]]] = {}
        self.at_tick: Callable[[int], None] = lambda number: None
        self.watch: Callable[[], None] = lambda: None
        self.ticks = 0
        self.now = 0.0
        self.token = 0
        self.restart()

    def restart(self, fault: Fault | None = None, at=()) -> None:
        """Forget what was counted; a fault befalls requests by number."""
        self.requests: list[tuple[str, str]] = []
        self.fault = fault
        self.at = at

    # Time.

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.ticks += 1
        self.at_tick(self.ticks)
        for migration in self.migrations:
            self._go_on(migration)
        self.watch()

    def clock(self) -> float:
        return self.now

    def _is_frozen(self, migration: Migration) -> bool:
        return any(self.hosts[name].state == 'down' or self.hosts[name].hangs
                   for name in (migration.source, migration.target))

    def _go_on(self, migration: Migration) -> None:
        guest = self.guests.get(migration.guest)
        if guest is None:
            migration.status = 'error'
            return
        if migration.status in ('completed', 'confirmed', 'reverted', 'error',
                                'failed', 'cancelled', 'finished') or (
                self._is_frozen(migration)):
            return
        broken = self.breaks.get(guest.uuid)
        if broken and broken[0] == migration.status:
            del self.breaks[guest.uuid]
            self.break_off(migration, broken[1])
            return
        if migration.status in ANSWERED:
            migration.status = ANSWERED[migration.status]
            guest.status = migration.was
            guest.task_state = None
            if migration.status == 'reverted':
                guest.host, guest.cells = guest.old
            guest.old = None
            return
        steps = LIVE_STEPS if migration.kind == 'live-migration' else (
            COLD_STEPS)
        migration.status = steps[steps.index(migration.status) + 1]
        if migration.status == steps[1] and not migration.cells:
            # The scheduler and the claim.
            if self.hosts[migration.target].status != 'enabled':
                self.break_off(migration, 'error')
                return
            migration.cells = self._claim(guest, migration.target)
            if migration.cells is None:
                self.break_off(migration, 'error')
        elif migration.status == 'post-migrating':
            guest.old = (guest.host, guest.cells)
            guest.host, guest.cells = migration.target, migration.cells
            if migration.kind == 'live-migration':
                guest.old = None
                guest.task_state = None
        elif migration.status == 'finished':
            guest.status = 'VERIFY_RESIZE'
            guest.task_state = None

    def break_off(self, migration: Migration, status: str) -> None:
        guest = self.guests[migration.guest]
        guest.task_state = None
        if migration.kind == 'migration' and migration.status in (
                'migrating', 'post-migrating', 'confirming', 'reverting'):
            guest.status, guest.fault = 'ERROR', 'the disk is full'
        migration.status = status
        self.actions.setdefault(guest.uuid, []).append(
            ('live-migration', 'Traceback ...\n  nova.exception_Remote.'
             'NoValidHost_Remote: No valid host was found.'))

    def _claim(self, guest: Guest, target: str) -> tuple | None:
        taken = self.taken(target)
        wanted = self.claims.get((guest.uuid, target))
        if wanted is not None:
            return wanted
        free = [cpu for cpu in range(self.hosts[target].cpus)
                if cpu not in taken]
        if not guest.cells:
            return ()
        vcpus = [vcpu for _cell, pins in guest.cells for vcpu, _cpu in pins]
        if len(free) < len(vcpus):
            return None
        return ((0, tuple(zip(vcpus, free))),)

    def taken(self, host: str) -> dict[int, str]:
        """Who has each CPU of a host; claims and what may come back count.

        :raises AssertionError: if two have the same
        """
        taken: dict[int, str] = {}
        places = [(guest.host, guest.cells, guest.uuid)
                  for guest in self.guests.values()]
        places += [(*guest.old, guest.uuid) for guest in self.guests.values()
                   if guest.old]
        places += [(one.target, one.cells, one.guest)
                   for one in self.migrations
                   if one.cells and one.guest in self.guests
                   and self.guests[one.guest].host != one.target
                   and one.status in (*LIVE_STEPS[:-1], *COLD_STEPS[:-1])]
        for where, cells, uuid in places:
            if where != host:
                continue
            for _cell, pins in cells:
                for _vcpu, cpu in pins:
                    assert cpu not in taken, (host, cpu, taken[cpu], uuid)
                    taken[cpu] = uuid
        return taken

    # What clients see.

    def connect(self) -> openstack.connection.Connection:
        return openstack.connect(
            auth={'auth_url': KEYSTONE, 'username': 'u', 'password': 'p',
                  'project_name': 'p', 'user_domain_id': 'default',
                  'project_domain_id': 'default'},
            load_yaml_config=False, load_envvars=False)

    def cloud(self) -> migration_cloud.MigrationCloud:
        return migration_cloud.MigrationCloud(self.connect(), 'fake')

    def serve(self, mocker: requests_mock.Mocker) -> None:
        mocker.register_uri(requests_mock.ANY, requests_mock.ANY,
                            text=self._answer)

    def _answer(self, request, context) -> str:
        parts = urllib.parse.urlsplit(request.url)
        root = f'{parts.scheme}://{parts.netloc}'
        context.headers['Content-Type'] = 'application/json'
        if root == PLACEMENT:
            return json.dumps({'versions': [{
                'id': 'v1.0', 'status': 'CURRENT', 'min_version': '1.0',
                'max_version': '1.39', 'links': [
                    {'rel': 'self', 'href': ''}]}]})
        if KEYSTONE.startswith(root):
            return self._identity(parts.path, context)
        path = parts.path.removeprefix('/v2.1').rstrip('/')
        query = dict(urllib.parse.parse_qsl(parts.query))
        if not path:
            return json.dumps({'version': {
                'id': 'v2.1', 'status': 'CURRENT', 'version': '2.102',
                'min_version': '2.1',
                'links': [{'rel': 'self', 'href': NOVA}]}})
        number = len(self.requests)
        self.requests.append((request.method, path))
        fault = self.fault if number in self.at else None
        if fault is Fault.EXPIRED:
            self.token += 1
        if fault is Fault.KILLED:
            raise Killed
        if fault is Fault.DROPPED:
            raise requests.exceptions.ConnectionError('dropped')
        if fault and isinstance(fault.value, int) and (
                fault is not Fault.EXPIRED):
            context.status_code = fault.value
            if fault is Fault.TOO_MANY:
                context.headers['Retry-After'] = '7'
            return json.dumps({'fault': {'message': 'a fault of the test'}})
        if request.headers.get('X-Auth-Token') != f'token-{self.token}':
            context.status_code = 401
            return json.dumps({'unauthorized': {'message': 'log in'}})
        body = request.json() if request.text else {}
        context.status_code, answer = self._nova(
            request.method, path, query, body)
        self.watch()
        if fault is Fault.LOST:
            raise requests.exceptions.ConnectionError('lost')
        if fault is Fault.KILLED_LATE:
            raise Killed
        return json.dumps(answer)

    def _identity(self, path: str, context) -> str:
        if path.endswith('/auth/tokens'):
            context.status_code = 201
            context.headers['X-Subject-Token'] = f'token-{self.token}'
            return json.dumps({'token': {
                'expires_at': '2099-01-01T00:00:00.000000Z',
                'methods': ['password'], 'roles': [], 'user': {
                    'id': 'u', 'name': 'u',
                    'domain': {'id': 'default', 'name': 'd'}},
                'project': {'id': 'p', 'name': 'p',
                            'domain': {'id': 'default', 'name': 'd'}},
                'catalog': [
                    {'type': kind, 'name': kind, 'id': kind, 'endpoints': [{
                        'id': kind, 'interface': 'public', 'region': 'r',
                        'region_id': 'r', 'url': url}]}
                    for kind, url in (('compute', NOVA),
                                      ('placement', PLACEMENT))]}})
        return json.dumps({'version': {
            'id': 'v3.14', 'status': 'stable',
            'links': [{'rel': 'self', 'href': KEYSTONE}]}})

    def _nova(self, method, path, query, body):
        if path == '/os-services':
            return 200, {'services': [
                {'id': f's-{name}', 'binary': 'nova-compute', 'host': name,
                 'state': host.state, 'status': host.status, 'zone': 'nova',
                 'forced_down': False, 'updated_at': '', 'disabled_reason':
                 'upgrade' if host.status != 'enabled' else None}
                for name, host in self.hosts.items()]}
        if path == '/servers/detail':
            return 200, {'servers': [
                self._shown(guest) for guest in self.guests.values()
                if guest.host == query.get('host', guest.host)]}
        if path == '/os-migrations':
            return 200, {'migrations': [
                self._migration(one) for one in reversed(self.migrations)
                if query.get('instance_uuid', one.guest) == one.guest
                and query.get('host') in (None, one.source, one.target)]}
        found = re.fullmatch('/servers/([^/]+)(.*)', path)
        if not found or found[1] not in self.guests:
            return 404, {'itemNotFound': {'message': f'no {path}'}}
        guest, rest = self.guests[found[1]], found[2]
        if method == 'DELETE':
            return self._abort(guest, int(rest.rpartition('/')[2]))
        if method == 'POST':
            return self._act(guest, *next(iter(body.items())))
        if rest == '':
            return 200, {'server': self._shown(guest)}
        if rest == '/topology':
            return 200, {'pagesize_kb': None, 'nodes': [
                {'host_node': cell, 'memory_mb': 1024, 'siblings': [],
                 'vcpu_set': [vcpu for vcpu, _cpu in pins],
                 'cpu_pinning': {str(vcpu): cpu for vcpu, cpu in pins}}
                for cell, pins in guest.cells]}
        if rest == '/migrations':
            return 200, {'migrations': [
                {'id': one.id, 'memory_processed_bytes': GIB,
                 'memory_remaining_bytes': 2 * GIB,
                 'disk_processed_bytes': 0, 'disk_remaining_bytes': None}
                for one in self.migrations
                if one.guest == guest.uuid and one.status == 'running']}
        if rest == '/os-instance-actions':
            return 200, {'instanceActions': [
                {'action': action, 'request_id': f'req-{number}'}
                for number, (action, _text) in reversed(list(enumerate(
                    self.actions.get(guest.uuid, ()))))]}
        number = int(rest.rpartition('-')[2])
        return 200, {'instanceAction': {'events': [
            {'event': 'e', 'result': 'Error', 'start_time': '1',
             'traceback': self.actions[guest.uuid][number][1]}]}}

    @staticmethod
    def _shown(guest: Guest):
        return {
            'id': guest.uuid, 'name': guest.uuid, 'status': guest.status,
            'tenant_id': 'p', 'OS-EXT-SRV-ATTR:host': guest.host,
            'OS-EXT-STS:task_state': guest.task_state,
            'image': {'id': 'i', 'properties': {}},
            'flavor': {'original_name': 'f', 'vcpus': 2, 'ram': 1024,
                       'disk': 1, 'ephemeral': 0, 'swap': 0,
                       'extra_specs': {'hw:cpu_policy': 'dedicated'}
                       if guest.cells else {}},
            **({'fault': {'message': guest.fault}} if guest.fault else {})}

    @staticmethod
    def _migration(one: Migration):
        return {'id': one.id, 'uuid': f'm-{one.id}', 'status': one.status,
                'instance_uuid': one.guest, 'migration_type': one.kind,
                'source_compute': one.source,
                'dest_compute': None if one.status == 'accepted'
                else one.target, 'created_at': '', 'updated_at': ''}

    def _act(self, guest: Guest, action: str, content):
        busy = 409, {'conflictingRequest': {
            'message': f'it is {guest.status}, {guest.task_state}'}}
        if action in ('os-migrateLive', 'migrate'):
            is_live = action == 'os-migrateLive'
            fine = ('ACTIVE', 'PAUSED') if is_live else ('ACTIVE', 'SHUTOFF')
            if guest.task_state or guest.status not in fine:
                return busy
            if content['host'] not in self.hosts:
                return 400, {'badRequest': {'message': 'no such host'}}
            guest.task_state = 'migrating' if is_live else 'resize_prep'
            migration = Migration(
                len(self.migrations) + 1, guest.uuid,
                'live-migration' if is_live else 'migration',
                'accepted' if is_live else 'pre-migrating', guest.host,
                content['host'], was=guest.status)
            self.migrations.append(migration)
            if content['host'] == guest.host:
                self.break_off(migration, 'error')
            return 202, {}
        if guest.status != 'VERIFY_RESIZE' or guest.task_state:
            return busy
        [migration] = [one for one in self.migrations
                       if one.guest == guest.uuid
                       and one.status in ('finished', *ANSWERED)]
        if migration.status != 'finished':
            return busy
        if action == 'confirmResize':
            migration.status = 'confirming'
        else:
            migration.status = 'reverting'
            guest.task_state = 'resize_reverting'
        return 202, {}

    def _abort(self, guest: Guest, number: int):
        migration = self.migrations[number - 1]
        if migration.status not in ('queued', 'preparing', 'running'):
            return 400, {'badRequest': {'message': 'not running'}}
        if not self._is_frozen(migration):
            self.break_off(migration, 'cancelled')
        return 202, {}
