# SPDX-License-Identifier: Apache-2.0
"""A make-believe cloud over HTTP, as large as you like.

It answers what the audit asks of nova and Placement, with bodies like theirs,
and nothing else.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import functools
from http import server
import json
import threading
import time
import typing
import urllib.parse
import uuid

from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits

#: Most entries in one answer of nova, unless it is configured otherwise.
PAGE = 1000
#: Flavors of each class.
_FLAVORS = 50

_CLASSES = (hostclass.HostClass.SHARED, hostclass.HostClass.DEDICATED)


@dataclasses.dataclass(frozen=True)
class StubCloud:
    """What is in the cloud.

    Every second host is a dedicated one, in an aggregate that isolates.
    Every second server is a dedicated one; they go round the hosts of their
    class. One in five boots from a volume, so that nova does not show the
    properties of its image.

    :param misplaced: servers that are on a host of the other class
    :param url: where it is served
    """

    hosts: int
    servers: int
    misplaced: int = 0
    url: str = 'http://stub'

    def answer(self, path: str, query: Mapping[str, str]) -> bytes | None:
        """What a GET brings, None for what there is not."""
        match path.strip('/').split('/'):
            case ['v2.1']:
                return _dump({'version': {
                    'id': 'v2.1', 'status': 'CURRENT', 'version': '2.103',
                    'min_version': '2.1', 'links': [
                        {'rel': 'self', 'href': f'{self.url}/v2.1/'}]}})
            case ['placement']:
                return _dump({'versions': [{
                    'id': 'v1.0', 'status': 'CURRENT', 'max_version': '1.39',
                    'min_version': '1.0',
                    'links': [{'rel': 'self', 'href': ''}]}]})
            case ['v2.1', 'os-aggregates']:
                return _dump({'aggregates': [self._aggregate()]})
            case ['v2.1', 'flavors', 'detail']:
                return _dump({'flavors': [
                    _flavor(number) for number in range(2 * _FLAVORS)]})
            case ['v2.1', 'os-hypervisors', 'detail']:
                return self._page('os-hypervisors/detail', 'hypervisors',
                                  range(self.hosts), self._hypervisor, query)
            case ['v2.1', 'servers', 'detail']:
                numbers = (self._on_host.get(query['host'], ())
                           if 'host' in query else range(self.servers))
                return self._page('servers/detail', 'servers', numbers,
                                  self._server, query)
            case ['v2.1', 'servers', _, 'topology']:
                return _dump({'pagesize_kb': None, 'nodes': [{
                    'cpu_pinning': {}, 'host_node': 0, 'memory_mb': 4096,
                    'siblings': [], 'vcpu_set': [0, 1]}]})
            case ['placement', 'traits']:
                return _dump(
                    {'traits': sorted(placement_traits.TRAIT_OF.values())})
            case ['placement', 'resource_providers']:
                return _dump({'resource_providers': [
                    _provider(number) for number in range(self.hosts)
                    if _is_candidate(number, query)]})
            case ['placement', 'resource_providers', provider, 'inventories']:
                number = self._hosts.get(provider)
                return None if number is None else _inventories(number)
        return None

    def _page(self, path: str, key: str, numbers: Sequence[int],
              shown: Callable[[int], str], query: Mapping[str, str]) -> bytes:
        """A page of a listing, whose marker is a position in it."""
        start = int(query.get('marker', 0))
        end = start + min(int(query.get('limit', PAGE)), PAGE)
        links = ''
        if end < len(numbers):
            rest = urllib.parse.urlencode({**query, 'marker': end})
            links = (f', "{key}_links": [{{"rel": "next", '
                     f'"href": "{self.url}/v2.1/{path}?{rest}"}}]')
        entries = ', '.join(map(shown, numbers[start:end]))
        return f'{{"{key}": [{entries}]{links}}}'.encode()

    def home(self, number: int) -> int:
        """The host that a server is on."""
        kind = number % 2
        if number < self.misplaced:
            kind = 1 - kind
        return kind + 2 * (number // 2 % (self.hosts // 2))

    @functools.cached_property
    def _on_host(self) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        for number in range(self.servers):
            numbers.setdefault(_name(self.home(number)), []).append(number)
        return numbers

    @functools.cached_property
    def _hosts(self) -> dict[str, int]:
        return {_uuid('provider', number): number
                for number in range(self.hosts)}

    def _aggregate(self) -> dict[str, typing.Any]:
        return {
            'id': 1, 'uuid': _uuid('aggregate', 1), 'name': 'dedicated',
            'availability_zone': None, 'created_at': '2026-01-01T00:00:00',
            'deleted': False, 'deleted_at': None, 'updated_at': None,
            'hosts': [_name(number) for number in range(1, self.hosts, 2)],
            'metadata': {f'trait:{placement_traits.DEDICATED}': 'required'}}

    def _server(self, number: int) -> str:
        body = _SERVER
        for key, value in (
                ('@ID', _uuid('server', number)), ('@NUMBER', str(number)),
                ('@HOST', _name(self.home(number))),
                ('"@IMAGE"', '""' if number % 10 < 2 else _IMAGE),
                ('"@FLAVOR"', _FLAVOR_OF[number % 2]), ('@URL', self.url)):
            body = body.replace(key, value)
        return body

    def _hypervisor(self, number: int) -> str:
        return json.dumps({
            'id': _uuid('provider', number),
            'hypervisor_hostname': _name(number), 'state': 'up',
            'status': 'enabled', 'hypervisor_type': 'QEMU',
            'hypervisor_version': 8002002, 'host_ip': '192.0.2.1',
            'uptime': None, 'servers': [], 'service': {
                'id': _uuid('service', number), 'host': _name(number),
                'disabled_reason': None}})


def _uuid(kind: str, number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f'{kind} {number}'))


def _name(host: int) -> str:
    return f'cmp-{host:05}'


def _provider(host: int) -> dict[str, typing.Any]:
    uuid = _uuid('provider', host)
    return {
        'uuid': uuid, 'name': _name(host), 'generation': 7,
        'parent_provider_uuid': None, 'root_provider_uuid': uuid,
        'links': [
            {'rel': rel, 'href': f'/placement/resource_providers/{uuid}/'
                                 f'{rel}'}
            for rel in ('self', 'inventories', 'usages', 'aggregates',
                        'traits', 'allocations')]}


def _is_candidate(host: int, query: Mapping[str, str]) -> bool:
    is_dedicated = bool(host % 2)
    trait = query.get('required')
    if trait and trait != placement_traits.TRAIT_OF[_CLASSES[is_dedicated]]:
        return False
    return is_dedicated or 'member_of' not in query


def _inventories(host: int) -> bytes:
    cpus = ({'PCPU': (76, 1.0), 'VCPU': (4, 1.0)} if host % 2 else
            {'VCPU': (76, 4.0)})
    return _dump({'resource_provider_generation': 7, 'inventories': {
        name: {'total': total, 'reserved': 0, 'min_unit': 1,
               'max_unit': total, 'step_size': 1, 'allocation_ratio': ratio}
        for name, (total, ratio) in {
            **cpus, 'MEMORY_MB': (786432, 1.0), 'DISK_GB': (3500, 1.0),
        }.items()}})


def _flavor(number: int) -> dict[str, typing.Any]:
    name = f'{_CLASSES[number % 2]}.{number // 2}'
    return {
        'id': _uuid('flavor', number), 'name': name, 'ram': 4096, 'disk': 20,
        'swap': 0, 'OS-FLV-EXT-DATA:ephemeral': 0,
        'OS-FLV-DISABLED:disabled': False, 'vcpus': 2, 'rxtx_factor': 1.0,
        'os-flavor-access:is_public': True, 'links': [], 'description': None,
        'extra_specs': _EXTRA_SPECS[number % 2]}


def _dump(body: typing.Any) -> bytes:
    return json.dumps(body).encode()


_EXTRA_SPECS = (
    {f'trait:{placement_traits.DEDICATED}': 'forbidden'},
    {'hw:cpu_policy': 'dedicated', 'hw:emulator_threads_policy': 'share',
     'hw:cpu_sockets': '1', f'trait:{placement_traits.DEDICATED}': 'required'})
_FLAVOR_OF = tuple(json.dumps({
    'vcpus': 2, 'ram': 4096, 'disk': 20, 'ephemeral': 0, 'swap': 0,
    'original_name': f'{host_class}.0', 'extra_specs': extra_specs,
}) for host_class, extra_specs in zip(_CLASSES, _EXTRA_SPECS, strict=True))
_IMAGE = json.dumps({
    'id': _uuid('image', 1),
    'links': [{'rel': 'bookmark', 'href': f'http://stub/images/{1:036}'}],
    'properties': {
        'architecture': 'x86_64', 'hw_disk_bus': 'virtio',
        'hw_qemu_guest_agent': 'yes', 'hw_scsi_model': 'virtio-scsi',
        'hw_vif_multiqueue_enabled': 'true', 'os_distro': 'debian',
        'os_type': 'linux', 'base_image_ref': '',
        'owner_specified.openstack.md5': '', 'min_ram': '0'}})
_SERVER = json.dumps({
    'id': '@ID', 'name': 'server-@NUMBER', 'status': 'ACTIVE',
    'tenant_id': 'b6f3c1d2a79e4f5a8d0c1e2f3a4b5c6d',
    'user_id': '1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f',
    'metadata': {'owner': 'somebody', 'stage': 'production'},
    'hostId': '@ID@ID', 'image': '@IMAGE', 'flavor': '@FLAVOR',
    'created': '2026-01-01T00:00:00Z', 'updated': '2026-01-02T00:00:00Z',
    'addresses': {'private': [
        {'version': version, 'addr': address, 'OS-EXT-IPS:type': 'fixed',
         'OS-EXT-IPS-MAC:mac_addr': 'fa:16:3e:00:00:01'}
        for version, address in ((4, '192.0.2.7'), (6, '2001:db8::7'))]},
    'accessIPv4': '', 'accessIPv6': '',
    'links': [{'rel': 'self', 'href': '@URL/v2.1/servers/@ID'},
              {'rel': 'bookmark', 'href': '@URL/servers/@ID'}],
    'OS-DCF:diskConfig': 'AUTO', 'progress': 0, 'config_drive': '',
    'OS-EXT-AZ:availability_zone': 'nova', 'key_name': 'key',
    'pinned_availability_zone': None,
    'OS-SRV-USG:launched_at': '2026-01-01T00:01:00.000000',
    'OS-SRV-USG:terminated_at': None, 'OS-EXT-SRV-ATTR:host': '@HOST',
    'OS-EXT-SRV-ATTR:instance_name': 'instance-@NUMBER',
    'OS-EXT-SRV-ATTR:hypervisor_hostname': '@HOST',
    'OS-EXT-SRV-ATTR:reservation_id': 'r-@NUMBER',
    'OS-EXT-SRV-ATTR:launch_index': 0,
    'OS-EXT-SRV-ATTR:hostname': 'server-@NUMBER',
    'OS-EXT-SRV-ATTR:kernel_id': '', 'OS-EXT-SRV-ATTR:ramdisk_id': '',
    'OS-EXT-SRV-ATTR:root_device_name': '/dev/vda',
    'OS-EXT-SRV-ATTR:user_data': None, 'OS-EXT-STS:task_state': None,
    'OS-EXT-STS:vm_state': 'active', 'OS-EXT-STS:power_state': 1,
    'os-extended-volumes:volumes_attached': [],
    'host_status': 'UP', 'locked': False, 'locked_reason': None,
    'description': None, 'tags': [], 'trusted_image_certificates': None,
    'server_groups': [], 'security_groups': [{'name': 'default'}]})


@contextlib.contextmanager
def serving(cloud: StubCloud, request_s: float = 0,
            server_s: float = 0) -> Iterator[int]:
    """Serve it, in threads, as long as the context lasts.

    :param request_s: how long to wait before each answer, in seconds
    :param server_s: and for each server in it
    :returns: a port of loopback
    """
    class Handler(server.BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            body = here.answer(parts.path, dict(
                urllib.parse.parse_qsl(parts.query)))
            status = 404 if body is None else 200
            body = body or b'{}'
            if parts.path == '/v2.1/servers/detail':
                time.sleep(server_s * body.count(b'"tenant_id"'))
            time.sleep(request_s)
            self.send_response_only(status)
            self.send_header('Content-Type', 'application/json')
            self.send_header('Content-Length', str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: typing.Any) -> None:
            pass

    with server.ThreadingHTTPServer(('127.0.0.1', 0), Handler) as httpd:
        httpd.daemon_threads = True
        here = dataclasses.replace(
            cloud, url=f'http://127.0.0.1:{httpd.server_port}')
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        try:
            yield httpd.server_port
        finally:
            httpd.shutdown()
            thread.join()
