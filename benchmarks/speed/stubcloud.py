# SPDX-License-Identifier: Apache-2.0
"""A make-believe cloud over HTTP, as large as you like.

It answers what the audit asks of nova and Placement, with bodies as large as
theirs, and nothing else. Every listing is one page.
"""

from collections.abc import Iterator
from collections.abc import Mapping
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

#: Flavors of each class.
_FLAVORS = 50

_CLASSES = (hostclass.HostClass.SHARED, hostclass.HostClass.DEDICATED)
_EXTRA_SPECS = (
    {f'trait:{placement_traits.DEDICATED}': 'forbidden'},
    {'hw:cpu_policy': 'dedicated', 'hw:emulator_threads_policy': 'share',
     'hw:cpu_sockets': '1', f'trait:{placement_traits.DEDICATED}': 'required'})
#: Nova shows so much more of a server than the audit reads, and of an image.
_MORE_OF_SERVER, _MORE_OF_IMAGE = (
    {f'attribute-{number}': 'about as long as those of nova'
     for number in range(count)} for count in (40, 10))


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

    def answer(self, path: str,
               query: Mapping[str, str]) -> dict[str, typing.Any] | None:
        """What a GET brings, None for what there is not."""
        match path.strip('/').split('/'):
            case ['v2.1']:
                return {'version': {
                    'id': 'v2.1', 'status': 'CURRENT', 'version': '2.103',
                    'min_version': '2.1', 'links': [
                        {'rel': 'self', 'href': f'{self.url}/v2.1/'}]}}
            case ['placement']:
                return {'versions': [{
                    'id': 'v1.0', 'status': 'CURRENT', 'max_version': '1.39',
                    'min_version': '1.0',
                    'links': [{'rel': 'self', 'href': ''}]}]}
            case ['v2.1', 'os-aggregates']:
                return {'aggregates': [{
                    'id': 1, 'uuid': _uuid('aggregate', 1),
                    'name': 'dedicated', 'hosts': [
                        _name(number) for number in range(1, self.hosts, 2)],
                    'metadata': {
                        f'trait:{placement_traits.DEDICATED}': 'required'}}]}
            case ['v2.1', 'flavors', 'detail']:
                return {'flavors': list(map(_flavor, range(2 * _FLAVORS)))}
            case ['v2.1', 'os-hypervisors', 'detail']:
                return {'hypervisors': [{
                    'id': _uuid('provider', number),
                    'hypervisor_hostname': _name(number), 'state': 'up',
                    'status': 'enabled', 'hypervisor_type': 'QEMU',
                    'service': {'id': _uuid('service', number),
                                'host': _name(number)},
                } for number in range(self.hosts)]}
            case ['v2.1', 'servers', 'detail']:
                return {'servers': list(map(
                    self._server, self._on_host.get(query['host'], ())))}
            case ['v2.1', 'servers', _, 'topology']:
                return {'nodes': [{'cpu_pinning': {}, 'host_node': 0}]}
            case ['placement', 'traits']:
                return {'traits': sorted(placement_traits.TRAIT_OF.values())}
            case ['placement', 'resource_providers']:
                return {'resource_providers': [
                    {'uuid': _uuid('provider', number), 'name': _name(number),
                     'generation': 7, 'parent_provider_uuid': None,
                     'root_provider_uuid': _uuid('provider', number)}
                    for number in range(self.hosts)
                    if _is_candidate(number, query)]}
            case ['placement', 'resource_providers', provider, 'inventories']:
                number = self._hosts.get(provider)
                return None if number is None else _inventories(number)
        return None

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

    def _server(self, number: int) -> dict[str, typing.Any]:
        kind = number % 2
        return {
            'id': _uuid('server', number), 'name': f'server-{number}',
            'status': 'ACTIVE', 'tenant_id': _uuid('project', 1),
            'image': '' if number % 10 < 2 else {
                'id': _uuid('image', 1), 'properties': _MORE_OF_IMAGE},
            'flavor': {'original_name': f'{_CLASSES[kind]}.0',
                       'extra_specs': _EXTRA_SPECS[kind]},
            'OS-EXT-SRV-ATTR:host': _name(self.home(number)),
            **_MORE_OF_SERVER}


def _uuid(kind: str, number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f'{kind} {number}'))


def _name(host: int) -> str:
    return f'cmp-{host:05}'


def _is_candidate(host: int, query: Mapping[str, str]) -> bool:
    is_dedicated = bool(host % 2)
    trait = query.get('required')
    if trait and trait != placement_traits.TRAIT_OF[_CLASSES[is_dedicated]]:
        return False
    return is_dedicated or 'member_of' not in query


def _inventories(host: int) -> dict[str, typing.Any]:
    cpus = ({'PCPU': (76, 1.0), 'VCPU': (4, 1.0)} if host % 2 else
            {'VCPU': (76, 4.0)})
    return {'resource_provider_generation': 7, 'inventories': {
        name: {'total': total, 'reserved': 0, 'min_unit': 1,
               'max_unit': total, 'step_size': 1, 'allocation_ratio': ratio}
        for name, (total, ratio) in {
            **cpus, 'MEMORY_MB': (786432, 1.0), 'DISK_GB': (3500, 1.0),
        }.items()}}


def _flavor(number: int) -> dict[str, typing.Any]:
    return {
        'id': _uuid('flavor', number),
        'name': f'{_CLASSES[number % 2]}.{number // 2}', 'ram': 4096,
        'disk': 20, 'swap': 0, 'OS-FLV-EXT-DATA:ephemeral': 0, 'vcpus': 2,
        'rxtx_factor': 1.0, 'os-flavor-access:is_public': True,
        'description': None, 'extra_specs': _EXTRA_SPECS[number % 2]}


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
            answer = here.answer(parts.path, dict(
                urllib.parse.parse_qsl(parts.query)))
            body = json.dumps(answer or {}).encode()
            servers = len((answer or {}).get('servers', ()))
            time.sleep(request_s + server_s * servers)
            self.send_response_only(404 if answer is None else 200)
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
