# SPDX-License-Identifier: Apache-2.0
"""A whole Nova in one process, for the demo and the functional tests.

Everything that decides is the real thing: Nova's API, conductor, scheduler
and compute managers, Placement, and the libvirt driver that writes the
guest's XML. Only the hypervisor, the image store and the network are
nova's own fakes. Hosts may have any shape, and each has its own nova.conf::

    with cloud.Cloud() as nova:               # or self.useFixture(Cloud())
        nova.start_host('dedicated-1', hosts.enterprise_host())
        flavor = nova.create_flavor(
            'pinned', vcpus=8, memory_mib=16384,
            extra_specs={'hw:cpu_policy': 'dedicated'})
        server = nova.boot('guest-1', flavor)
        print(server.status, server.host, server.fault)
        print(nova.guest_xml(nova.migrate(server)))

Moves return the server as it is afterwards, and raise RefusedError where the
API refuses them, also for lack of hosts: nova answers at once in one process.

``Cloud(filters=NOVA_FILTERS, ...)`` runs nova's own NUMATopologyFilter in
place of this project's filters, to show what nova does by itself. Whatever
else there is can be had of ``Cloud.stage``, nova's own functional test case
(``stage.api``, ``stage.placement``, ``stage.computes[host]`` and so on).

Importing this module imports most of nova, which takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import logging
from logging import handlers
import sys
import time
import typing as ty

import fixtures
from testtools import content
from testtools import content_type

# Before nova: it settles what kind of threads nova's harness runs on.
from demo import threads  # noqa: F401

from nova import context as nova_context
from nova import objects
from nova.tests.functional.api import client as api_client

from demo import hosts
from demo import one_cpu
from demo import stage

#: Where nova-scheduler finds the filters and weighers, in every cloud.
FILTER_PATHS = ('nova.scheduler.filters.all_filters',
                'nova_pinning.scheduler.filters.all_filters')
WEIGHER_PATHS = ('nova.scheduler.weights.all_weighers',
                 'nova_pinning.scheduler.weights.all_weighers')

#: The filters enabled besides nova's default ones.
PINNING_FILTERS = ('HostClassFilter', 'PinnedTopologyFilter')
NOVA_FILTERS = ('NUMATopologyFilter',)

#: Long enough for a slow and busy machine; a boot normally takes a second.
_PATIENCE_S = 120
#: How long to wait for nova to write something before looking all the same:
#: until it has written anything at all, and after that.
_FIRST_S, _POLL_S = 2, 0.25


class CloudError(Exception):
    """The cloud did something that no valid story has in it."""


class RefusedError(Exception):
    """The API refused what it was asked to do."""


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A server as the API shows it.

    :param status: ACTIVE, ERROR, VERIFY_RESIZE, ...
    :param host: the host it runs on, None when it runs nowhere
    :param fault: the message of its fault, None when it has none
    """

    id: str
    name: str
    status: str
    host: str | None
    fault: str | None


class Cloud(fixtures.Fixture):
    """Nova and Placement, running until the fixture is cleaned up.

    Only one at a time can be up in a process: nova is full of globals.

    :param filters: scheduler filters to enable besides nova's default ones
    :param filter_paths: where the scheduler finds its filters
    :param weigher_paths: where the scheduler finds its weighers
    :ivar shapes: of hosts that were started, by name
    """

    def __init__(self, filters: Sequence[str] = PINNING_FILTERS,
                 filter_paths: Sequence[str] = FILTER_PATHS,
                 weigher_paths: Sequence[str] = WEIGHER_PATHS) -> None:
        super().__init__()
        self.stage = stage.Stage(filters, filter_paths, weigher_paths)
        self.shapes: dict[str, hosts.HostShape] = {}

    def _setUp(self) -> None:
        self.useFixture(one_cpu.OneCpu())
        # Below INFO nova says more than it does, and nobody keeps it.
        self.addCleanup(logging.disable, logging.root.manager.disable)
        logging.disable(max(logging.DEBUG, logging.root.manager.disable))
        self.addCleanup(self.stage.doCleanups)
        self.stage.setUp()

        self._log = self.stage.stdlog.logger
        self.addDetail('nova-log', content.Content(
            content_type.UTF8_TEXT,
            lambda: [self.nova_log.encode('utf-8')]))

        self._said = handlers.BufferingHandler(sys.maxsize)
        logger = logging.getLogger('nova_pinning.scheduler')
        logger.addHandler(self._said)
        self.addCleanup(logger.removeHandler, self._said)

    @property
    def explanations(self) -> tuple[str, ...]:
        """What our filters said about refused requests, oldest first."""
        messages = [record.getMessage() for record in self._said.buffer]
        return tuple(message for message in messages
                     if message.startswith('No host for'))

    @property
    def nova_log(self) -> str:
        """What nova has logged so far, at INFO and above."""
        return self._log.output

    # Hosts.

    def start_host(self, name: str, shape: hosts.HostShape,
                   pci_info: ty.Any = None) -> None:
        """Start nova-compute on a new host.

        :param pci_info: the host's PCI devices, as nova's fake libvirt
            takes them (fakelibvirt.HostPCIDevicesInfo)
        """
        self.shapes[name] = shape
        with self.stage.nova_conf(name, shape):
            self.stage.start_compute(name, stage.HostInfo(shape), pci_info)

    def restart_host(self, name: str) -> None:
        """Restart a host's nova-compute; its guests go on as they are."""
        with self.stage.nova_conf(name, self.shapes[name]):
            self.stage.restart_compute_service(name)

    def host_topology(self, host: str) -> objects.NUMATopology:
        """A host's NUMA topology, usage included, as the scheduler sees it.

        :raises CloudError: when nova-compute reported none
        """
        node = objects.ComputeNode.get_by_nodename(_context(), host)
        if node.numa_topology is None:
            raise CloudError(f'host {host} reported no NUMA topology')
        return objects.NUMATopology.obj_from_db_obj(node.numa_topology)

    def _placement(self, host: str, what: str) -> dict[str, ty.Any]:
        provider = self.stage.compute_rp_uuids[host]
        return self.stage.placement.get(
            f'/resource_providers/{provider}/{what}').body

    def traits(self, host: str) -> frozenset[str]:
        """The traits of a host's provider."""
        provider = self.stage.compute_rp_uuids[host]
        return frozenset(self.stage._get_provider_traits(provider))

    # Flavors and servers.

    def create_flavor(self, name: str, vcpus: int, memory_mib: int,
                      extra_specs: Mapping[str, str] | None = None) -> str:
        """Create a flavor.

        :returns: its id
        """
        return self.stage._create_flavor(
            name=name, vcpu=vcpus, memory_mb=memory_mib, disk=10,
            ephemeral=0, extra_spec=dict(extra_specs or {}))

    def boot(self, name: str, flavor: str, host: str | None = None,
             image: str | None = None, port: bool = False) -> Server:
        """Boot a server and wait until it is ACTIVE or in ERROR.

        :param flavor: id of the flavor
        :param host: the host that the request names, None leaves the
            choice to the scheduler
        :param image: id of the image, None for any
        :param port: whether it has a port on a network
        """
        networks: ty.Any = 'none'
        if port:
            networks = [{'uuid': self.stage.neutron.network_1['id']}]
        body = self.stage._build_server(
            name, flavor_id=flavor, networks=networks, host=host,
            image_uuid=image or self.stage.glance.image1['id'])
        server = self.stage.api.post_server({'server': body})
        return self.settle(server['id'], 'ACTIVE', 'ERROR')

    def show(self, server: Server) -> Server:
        """The server as it is now."""
        return _server(self.stage.api.get_server(server.id))

    def migrate(self, server: Server, confirm: bool = True) -> Server:
        """Move a server to another host, switched off on the way.

        :param confirm: whether it is to stay there at once; otherwise it is
            left in VERIFY_RESIZE, for :meth:`confirm` or :meth:`revert`
        :raises RefusedError: when no other host would do
        """
        return self._move(server, {'migrate': None}, confirm)

    def _move(self, server: Server, action: dict[str, ty.Any],
              confirm: bool) -> Server:
        moved = self._act(server, action)
        if confirm and moved.status == 'VERIFY_RESIZE':
            return self.confirm(moved)
        return moved

    def confirm(self, server: Server) -> Server:
        """Let a server that was migrated or resized stay as it is."""
        return self._act(server, {'confirmResize': None})

    def _act(self, server: Server, action: dict[str, ty.Any]) -> Server:
        """Ask for an action and wait until nova has done all about it."""
        try:
            self.stage.api.post_server_action(server.id, action)
        except api_client.OpenStackApiException as error:
            raise RefusedError(
                f'{next(iter(action))} of {server.name}: {error}') from error

        return self._seen(
            f'{next(iter(action))} of {server.name}', server.id,
            # The last thing that nova writes of a move is its migration.
            lambda shown: shown['OS-EXT-STS:task_state'] is None and
            not self._moves_on(server.id, shown['status']))

    def _moves_on(self, server_id: str, status: str) -> bool:
        """Whether a migration of a server has not come to its end."""
        ended = {'completed', 'confirmed', 'reverted', 'done', 'error',
                 'failed', 'cancelled'}
        if status == 'VERIFY_RESIZE':
            ended.add('finished')
        # What a guest had before a live migration is given back right after
        # that is said to be completed.
        return any(
            migration.status not in ended or migration.status == 'completed'
            and self.stage._get_allocations_by_server_uuid(migration.uuid)
            for migration in objects.MigrationList.get_by_filters(
                _context(), {'instance_uuid': server_id}))

    def requested_topology(
            self, server: Server) -> objects.InstanceNUMATopology | None:
        """The cells that a server asked for, wherever it is or is not."""
        request = objects.RequestSpec.get_by_instance_uuid(
            _context(), server.id)
        return request.numa_topology

    def guest_xml(self, server: Server) -> str:
        """The XML with which nova defined a server's guest in libvirt.

        :raises CloudError: when the server's host has no such guest
        """
        if server.host in self.stage.computes:
            connection = (self.stage.computes[server.host]
                          .driver._host.get_connection())
            if server.id in connection.guest_xml:
                return connection.guest_xml[server.id]
        raise CloudError(f'no guest was defined for server {server.name}')

    def settle(self, server_id: str, *states: str) -> Server:
        """Wait until a server is in one of these states."""
        return self._seen(
            f'server {server_id} to be {" or ".join(states)}', server_id,
            lambda shown: shown['status'] in states)

    def _seen(self, what: str, server_id: str,
              is_over: Callable[[Mapping[str, ty.Any]], bool]) -> Server:
        """Wait for a server.

        An ERROR counts once the fault is there: nova writes it afterwards.

        :param is_over: whether it is as it is waited for
        """
        def seen() -> Server | None:
            shown = self.stage.api.get_server(server_id)
            lacks_fault = shown['status'] == 'ERROR' and 'fault' not in shown
            return None if lacks_fault or not is_over(shown) else (
                _server(shown))

        return self._wait(what, seen)

    def _wait(self, what: str, done: Callable[[], ty.Any]) -> ty.Any:
        deadline = time.monotonic() + _PATIENCE_S
        wait_s: float = _FIRST_S
        while time.monotonic() < deadline:
            if self.stage.written.wait(wait_s):
                wait_s = _POLL_S
            self.stage.written.clear()
            if result := done():
                return result
        raise CloudError(f'waited {_PATIENCE_S} s for {what}')


def _server(shown: Mapping[str, ty.Any]) -> Server:
    return Server(
        id=shown['id'], name=shown['name'], status=shown['status'],
        host=shown['OS-EXT-SRV-ATTR:host'] or None,
        fault=shown.get('fault', {}).get('message'))


def _context() -> nova_context.RequestContext:
    return nova_context.get_admin_context()
