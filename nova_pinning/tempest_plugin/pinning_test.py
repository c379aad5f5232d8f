# SPDX-License-Identifier: Apache-2.0
"""What all tests have in common: they boot servers and look at them."""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import functools
import json
import subprocess
from typing import Any

from tempest.common import waiters
from tempest import config
from tempest import exceptions as tempest_exceptions
from tempest.lib.common import api_microversion_fixture
from tempest.lib.common import api_version_utils
from tempest.lib.common.utils import data_utils
from tempest.lib.common.utils import test_utils
from tempest.lib import decorators
from tempest.lib import exceptions
from tempest import test

from nova_pinning import cpuset
from nova_pinning.host import qemu_process
from nova_pinning.tempest_plugin import checks
from nova_pinning.tempest_plugin import cloud
from nova_pinning.tempest_plugin import guest_look
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tempest_plugin import machine
from nova_pinning.tempest_plugin import runner
from nova_pinning.tempest_plugin import topology

CONF = config.CONF

DEDICATED = {'hw:cpu_policy': 'dedicated'}

# Traits of providers need 1.6 of Placement.
_PLACEMENT_MICROVERSION = '1.6'


@dataclasses.dataclass(frozen=True, slots=True)
class ServerViews:
    """A server as three see it.

    :param guest: libvirt and the kernel
    :param kept: nova
    """

    server_id: str
    host: hosts.ComputeHost
    guest: guest_look.ObservedGuest
    kept: topology.ServerTopology

    @property
    def qemu(self) -> qemu_process.QemuProcess:
        """The running QEMU; check() has seen to it that there is one."""
        assert self.guest.qemu is not None
        return self.guest.qemu

    @property
    def cpus(self) -> cpuset.CpuSet:
        """Host CPUs that any of its threads may run on."""
        return cpuset.union(thread.cpus for thread in self.qemu.threads)


# Each test counts on the CPUs that it finds free.
@decorators.serial
class PinningTest(api_version_utils.BaseMicroversionTest,
                  test.BaseTestCase):
    """A test that boots servers as an administrator, on hosts it chooses."""

    credentials = ['admin']
    # A server's NUMA topology.
    min_microversion = '2.78'

    @classmethod
    def skip_checks(cls) -> None:
        super().skip_checks()
        if not CONF.service_available.nova:
            raise cls.skipException('nova is not available')
        if not CONF.pinning.cpu_sets:
            raise cls.skipException(
                'no host is named in [pinning] cpu_sets of tempest.conf')
        api_version_utils.check_skip_with_microversion(
            cls.min_microversion, cls.max_microversion,
            CONF.compute.min_microversion, CONF.compute.max_microversion)

    @classmethod
    def setup_credentials(cls) -> None:
        # The servers have no NICs, so nothing is made for them.
        cls.set_network_resources()
        super().setup_credentials()

    @classmethod
    def resource_setup(cls) -> None:
        super().resource_setup()
        cls.commands = runner.CommandRunner(
            CONF.pinning.host_command, CONF.pinning.host_addresses)

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(api_microversion_fixture.APIMicroversionFixture(
            compute_microversion=api_version_utils
            .select_request_microversion(
                self.min_microversion, CONF.compute.min_microversion),
            placement_microversion=_PLACEMENT_MICROVERSION))
        self.servers = self.os_admin.servers_client
        self.hosts = cloud.read_hosts(
            self.os_admin, dict(CONF.pinning.cpu_sets))
        self.been_on: dict[str, dict[str, hosts.ComputeHost]] = {}

    # Hosts

    def machine_of(self, host: hosts.ComputeHost) -> machine.ComputeMachine:
        return _machine(self.commands, host.name)

    def machine_now(self, host: hosts.ComputeHost) -> machine.ComputeMachine:
        """The same, not remembered: pages come and go."""
        return _machine.__wrapped__(self.commands, host.name)

    def pick(
        self, *, dedicated: int = 0, shared: int = 0, count: int = 1,
        where: Callable[[hosts.ComputeHost], bool] = lambda host: True,
        what: str = '',
    ) -> list[hosts.ComputeHost]:
        """Hosts for guests of so many dedicated and shared vCPUs.

        The test is skipped if there are too few.

        :param where: what else must hold for a host, a function of Host
        :param what: the same in words, such as 'with hardware threads'
        """
        suitable = [host for host in hosts.room(
            self.hosts.values(), dedicated, shared)
               if where(host)]
        if len(suitable) < count:
            kind = 'dedicated' if dedicated else 'shared'
            need = ' and '.join(
                f'{amount} free {name} CPUs' for amount, name in
                ((dedicated, 'dedicated'), (shared, 'shared')) if amount)
            raise self.skipException(
                f'{count} {kind} hosts with {need}{what and f", {what},"} '
                f'are needed; there are {len(suitable)}')
        return suitable[:count]

    # Flavors and servers

    def reference_flavor(self) -> dict[str, Any]:
        client = self.os_admin.flavors_client
        return dict(client.show_flavor(CONF.compute.flavor_ref)['flavor'])

    def flavor(
        self, vcpus: int, specs: dict[str, str], ram_mib: int = 0,
    ) -> str:
        """Make a flavor with the memory and disk of the reference flavor.

        :returns: its id
        """
        client = self.os_admin.flavors_client
        model = self.reference_flavor()
        made = client.create_flavor(
            name=data_utils.rand_name('pinning'), vcpus=vcpus,
            ram=ram_mib or model['ram'], disk=model['disk'])['flavor']['id']
        self.addCleanup(client.delete_flavor, made)
        if specs:
            client.set_flavor_extra_spec(made, **specs)
        return str(made)

    def start(
        self, host: hosts.ComputeHost | None, flavor_id: str, **options: Any,
    ) -> str:
        """Ask for a server, do not wait, and see to it that it goes again.

        :param host: None for any
        :returns: the server's id
        """
        options.setdefault('networks', 'none')
        if host is not None:
            options['host'] = host.name
        server_id = str(self.servers.create_server(
            name=data_utils.rand_name('pinning'), flavorRef=flavor_id,
            imageRef=CONF.compute.image_ref, **options)['server']['id'])
        self.addCleanup(self.delete, server_id)
        return server_id

    def boot(
        self, host: hosts.ComputeHost, vcpus: int = 1,
        specs: dict[str, str] | None = None, ram_mib: int = 0,
        **options: Any,
    ) -> ServerViews:
        """Boot a server on a host and check it.

        :param specs: extra specs; those of a flavor with dedicated vCPUs if
            they name a policy
        """
        flavor_id = self.flavor(
            vcpus, self.specs_for(host, specs or {}), ram_mib)
        server_id = self.start(host, flavor_id, **options)
        self.wait(server_id, 'ACTIVE')
        seen = self.check(server_id)
        self.assertEqual(host.name, seen.host.name)
        return seen

    @staticmethod
    def specs_for(host: hosts.ComputeHost,
                  specs: Mapping[str, str]) -> dict[str, str]:
        """Extra specs with what a flavor needs to be let onto a host."""
        is_dedicated = specs.get('hw:cpu_policy') in ('dedicated', 'mixed')
        return {**hosts.class_specs(host, is_dedicated), **specs}

    def refused(self, host: hosts.ComputeHost, vcpus: int,
                specs: dict[str, str], ram_mib: int = 0) -> str:
        """Ask for a server on a host, and expect that it is refused.

        :returns: the server's id
        """
        server_id = self.start(host, self.flavor(vcpus, specs, ram_mib))
        self.assertEqual('ERROR', self.built(server_id))
        self.assertIn(
            'No valid host', self.show(server_id)['fault']['message'])
        return server_id

    def built(self, server_id: str) -> str:
        """Wait until a boot has ended, and return how: the status."""
        try:
            self.wait(server_id, 'ACTIVE')
        except tempest_exceptions.BuildErrorException:
            pass
        return str(self.show(server_id)['status'])

    def wait(self, server_id: str, status: str) -> None:
        waiters.wait_for_server_status(self.servers, server_id, status)

    def show(self, server_id: str) -> dict[str, Any]:
        return dict(self.servers.show_server(server_id)['server'])

    def guests_on(self, host: hosts.ComputeHost) -> list[str]:
        """Servers of this test that have been seen on a host."""
        return [server_id for server_id, been_on in self.been_on.items()
                if host.name in been_on]

    def delete(self, server_id: str) -> None:
        """Delete a server, and check that nothing of it is left."""
        try:
            self.servers.delete_server(server_id)
        except exceptions.NotFound:
            return
        waiters.wait_for_server_termination(
            self.servers, server_id, ignore_error=True)
        self.assertEqual({}, cloud.allocated(self.os_admin, server_id))
        for host in self.been_on.pop(server_id, {}).values():
            self.assert_not_on(host, server_id)

    # What servers really are

    def kept(self, server_id: str) -> topology.ServerTopology:
        """What nova keeps of a server."""
        _response, body = self.servers.get(f'servers/{server_id}/topology')
        return topology.parse(json.loads(body))

    def look_at(self, host: hosts.ComputeHost,
                server_id: str) -> guest_look.ObservedGuest | None:
        return guest_look.at_guest(
            self.commands, host.name, CONF.pinning.virsh_command, server_id)

    def check(self, server_id: str) -> ServerViews:
        """Check all that must hold for a running server, wherever it is."""
        shown = self.show(server_id)
        host = self.hosts[shown['OS-EXT-SRV-ATTR:host']]
        policy = shown['flavor'].get('extra_specs', {}).get(
            'hw:emulator_threads_policy', '')
        guest = self.look_at(host, server_id)
        if guest is None:
            raise self.failureException(
                f'{host.name} does not know {server_id}')
        kept = self.kept(server_id)
        self.assert_clean(checks.all_of(
            guest, kept, host.sets, self.machine_of(host), policy))
        providers = cloud.allocated(self.os_admin, server_id)
        self.assertEqual([host.name], [
            host.name for host in self.hosts.values()
            if host.provider in providers])
        self.been_on.setdefault(server_id, {})[host.name] = host
        seen = ServerViews(server_id, host, guest, kept)
        # Placement counts the CPU that emulator threads have alone.
        self.assert_allocated(
            seen, PCPU=len(kept.pins) + (policy == 'isolate'))
        return seen

    def assert_allocated(self, seen: ServerViews, **amounts: int) -> None:
        """Check amounts of resource classes that Placement has given."""
        given = cloud.allocated(self.os_admin, seen.server_id)[
            seen.host.provider]
        self.assertEqual(amounts, {
            name: given.get(name, 0) for name in amounts})

    def assert_clean(self, complaints: list[str]) -> None:
        self.assertEqual([], complaints)

    def assert_not_on(self, host: hosts.ComputeHost, server_id: str) -> None:
        self.assertIsNone(self.look_at(host, server_id),
                          f'{host.name} still has {server_id}')

    def assert_whole(self, host: hosts.ComputeHost) -> None:
        """Check that a host has all CPUs again that it had at the start.

        Placement tells. Nova shows nobody the NUMA topology that it keeps of
        a host, so a guest is booted that takes all dedicated CPUs of a node,
        and deleted again. That may take a while: a guest that moved to a host
        is only known to nova-compute there from its next periodic task on,
        and if it is deleted before, so are its CPUs only given back then.
        """
        self._assert_given_back(host)
        if host.sets.dedicated:
            self._assert_claimable(host)

    def _assert_claimable(self, host: hosts.ComputeHost) -> None:
        """Check that a guest can have all dedicated CPUs of a node."""
        per_node = self.machine_of(host).per_node(host.sets.dedicated)
        vcpus = min(max(map(len, per_node.values())), host.free['PCPU'])
        flavor_id = self.flavor(vcpus, self.specs_for(host, DEDICATED))

        def boot() -> bool:
            server_id = self.start(host, flavor_id)
            status = self.built(server_id)
            self.delete(server_id)
            return status == 'ACTIVE'

        self.assertTrue(
            test_utils.call_until_true(boot, CONF.compute.build_timeout, 1),
            f'{vcpus} dedicated CPUs of {host.name} cannot be had again')

    def _assert_given_back(self, host: hosts.ComputeHost) -> None:
        """Wait until Placement has all CPUs of a host as at the start.

        A guest that moved is ACTIVE before nova-compute, where it came from,
        gives back what it had there.
        """
        now: dict[str, int] = {}

        def is_as_before() -> bool:
            now.update(cloud.read_host(self.os_admin, host).free)
            return all(now.get(resource) == host.free.get(resource)
                       for resource in ('PCPU', 'VCPU'))

        self.assertTrue(
            test_utils.call_until_true(
                is_as_before, CONF.compute.build_timeout, 1),
            f'{host.name} had {dict(host.free)} free at the start, now it has '
            f'{now}')

    def assert_logged(self, server_id: str, *words: str) -> None:
        """Check that nova-scheduler says something of a server in its log.

        :param words: which one line with the server's id has to hold
        """
        command = CONF.pinning.scheduler_log_command
        text = subprocess.run(
            ['sh', '-c', command], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True, errors='replace', check=True,
            timeout=runner.DEADLINE_SECONDS).stdout
        lines = [line for line in text.splitlines() if server_id in line]
        self.assertTrue(any(all(word in line for word in words)
                            for line in lines),
                        f'{words} is in none of the lines of the log of '
                        f'nova-scheduler that name {server_id}: {lines}')

    def require_filter(self, name: str) -> None:
        enabled = CONF.compute_feature_enabled.scheduler_enabled_filters
        if name not in enabled:
            raise self.skipException(
                f'{name} is not among [compute-feature-enabled] '
                f'scheduler_enabled_filters')


@functools.cache
def _machine(commands: runner.CommandRunner,
             host: str) -> machine.ComputeMachine:
    return machine.parse(commands.script(host, machine.SCRIPT))
