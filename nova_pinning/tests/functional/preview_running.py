# SPDX-License-Identifier: Apache-2.0
"""What the tests of the preview against running services have in common."""

import dataclasses
import json
import re

import fixtures
from oslotest import base

# Before nova: it settles what kind of threads nova's harness runs on.
from demo import threads  # noqa: F401

from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client as api_client

from nova_pinning.bridge import preview
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.host import host_model
from nova_pinning.tests.functional import operated_cloud
from nova_pinning.tests import parity

_ADDRESS = re.compile(r'0000:(\w+):(\w+)\.(\d)')


def describe(name, shape, devices=(), traits=()):
    """A host of the harness as a description.

    :param devices: host_model.PciDevice
    """
    nodes = tuple(
        host_model.NumaNode(cell.id, cell.socket, cell.cores, cell.memory_mib,
                            dict(shape.huge_pages))
        for cell in shape.cells)
    reserved = {}
    for text in shape.reserved_huge_pages:
        item = dict(pair.split(':') for pair in text.split(','))
        reserved[int(item['node']), int(item['size'])] = int(item['count'])
    settings = host_model.NovaSettings(
        dedicated_cpus=_cpus(shape.dedicated),
        shared_cpus=_cpus(shape.shared),
        cpu_allocation_ratio=shape.cpu_allocation_ratio,
        ram_allocation_ratio=shape.ram_allocation_ratio,
        reserved_memory_mib=shape.reserved_memory_mib,
        reserved_huge_pages=reserved)
    return host_model.HostDescription(
        name, nodes, pci_devices=tuple(devices), nova=settings,
        traits=frozenset(traits))


def _cpus(text):
    return cpuset.CpuSet.parse(text) if text else None


def flavor(name, vcpus, memory_mib, **extra):
    """A flavor; extra specs are given as in ``hw__cpu_policy='mixed'``."""
    fields = {key: extra.pop(key) for key in (
        'disk_gib', 'ephemeral_gib', 'swap_mib') if key in extra}
    specs = {key.replace('__', ':', 1).replace('__', '.'): value
             for key, value in extra.items()}
    return flavor_model.Flavor(
        name=name, vcpus=vcpus, memory_mib=memory_mib, extra_specs=specs,
        **({'disk_gib': 10} | fields))


class TestCase(base.BaseTestCase):
    """Starts hosts, and compares what runs on them with the preview."""

    def setUp(self):
        super().setUp()
        # Which classes of guests a host takes is not the preview's business.
        self.nova = self.useFixture(
            operated_cloud.Cloud(filters=('PinnedTopologyFilter',)))
        self.hosts = {}
        self.booted = 0
        self.fault = ''
        client = self.nova.stage.scheduler.manager.placement_client
        self.asked = self.useFixture(_Asked(client)).asked

    def start_host(self, name, shape, devices=(), traits=()):
        """Start a host.

        :returns: its description
        """
        options = dict(shape.options)
        # Nova looks up what is not a pattern in the /sys of this machine.
        options['pci', 'device_spec'] = [
            json.dumps({'address': device.address.replace('.0', '.*')})
            for device in devices]
        pci = fakelibvirt.HostPCIDevicesInfo(num_pfs=0, num_vfs=0)
        for number, device in enumerate(devices):
            bus, slot, function = (
                int(part, 16)
                for part in _ADDRESS.fullmatch(device.address).groups())
            pci.add_device(
                'PCI', bus, slot, function, iommu_group=number,
                numa_node=-1 if device.numa_node is None else device.numa_node,
                vend_id=device.vendor_id, vend_name='vendor',
                prod_id=device.product_id, prod_name='product',
                driver_name='vfio-pci')
        stage = self.nova.stage
        known = {(device.alias, device.vendor_id, device.product_id)
                 for device in devices if device.alias}
        if known:
            stage.flags(group='pci', alias=[
                json.dumps({'name': alias, 'vendor_id': vendor,
                            'product_id': product})
                for alias, vendor, product in sorted(known)])
        self.nova.start_host(
            name, dataclasses.replace(shape, options=options), pci)
        for trait in traits:
            stage._create_trait(trait)
        if traits:
            provider = stage.compute_rp_uuids[name]
            stage._set_provider_traits(
                provider,
                stage._get_provider_traits(provider) + list(traits))
        self.hosts[name] = describe(name, shape, devices, traits)
        return self.hosts[name]

    def create(self, wanted):
        """Create a flavor in the cloud.

        :returns: its id
        """
        api = self.nova.stage.admin_api
        self.booted += 1
        flavor_id = f'flavor-{self.booted}'
        api.post_flavor({'flavor': {
            'id': flavor_id, 'name': f'{wanted.name}-{self.booted}',
            'vcpus': wanted.vcpus, 'ram': wanted.memory_mib,
            'disk': wanted.disk_gib, 'swap': wanted.swap_mib,
            'OS-FLV-EXT-DATA:ephemeral': wanted.ephemeral_gib}})
        if wanted.extra_specs:
            api.post_extra_spec(
                flavor_id, {'extra_specs': dict(wanted.extra_specs)})
        return flavor_id

    def boot(self, wanted, host, image_properties=None):
        """Boot a guest.

        :returns: the server, None if it was refused, by whomever
        """
        try:
            image = self.nova.create_image(image_properties or {})
            server = self.nova.boot(
                wanted.name, self.create(wanted), host, image, port=True)
        except api_client.OpenStackApiException as error:
            if error.response.status_code != 400:
                raise
            self.fault = str(error)
            return None
        if server.status == 'ACTIVE':
            return server
        self.fault = f'{server.fault} {self.nova.explanations[-1:]}'
        self.nova.delete(server)
        return None

    def compare(self, wanted, host, image_properties=None, used='',
                cores=()):
        """Preview a guest, boot it, and take it away again.

        :param used: CPUs that guests of the host are pinned to
        :param cores: see parity.differences
        :returns: what differs, a list of sentences, and why both refuse it,
            '' if they do not
        """
        shown, why = self.preview(wanted, host, image_properties or {}, used)
        del self.asked[:]
        server = self.boot(wanted, host, image_properties)
        if server is None:
            if shown is None or shown.refusal is not None:
                return [], why or str(shown.refusal)
            return [f'{wanted}: only the cloud refuses it: '
                    f'{self.fault}'], 'refused'
        try:
            if shown is None or shown.refusal is not None:
                return [f'{wanted}: only the preview refuses it: '
                        f'{why or shown.refusal}'], ''
            differences = parity.differences(
                shown.xml, self.nova.guest_xml(server), cores)
            differences += self._compare_queries(shown, host)
            return [f'{wanted}: {difference}'
                    for difference in differences], ''
        finally:
            self.nova.delete(server)

    def preview(self, wanted, host, image_properties, used=''):
        try:
            return preview.preview_guest(
                wanted, image_properties, self.hosts[host],
                cpuset.CpuSet.parse(used)), ''
        except errors.InputError as error:
            return None, str(error)

    def _compare_queries(self, shown, host):
        """Compare what was asked of Placement.

        The cloud's query names the host, the preview's does not.
        """
        expected = [shown.query.querystring]
        if shown.fallback:
            expected.append(shown.fallback.querystring)
        actual = [re.sub(r'in_tree=[^&]*&', '', query) for query in self.asked]
        if expected == actual:
            return []
        return [f'the preview asks Placement {expected}, nova {actual}']


class _Asked(fixtures.Fixture):
    """Keeps the queries that nova-scheduler sends to Placement."""

    def __init__(self, client):
        super().__init__()
        self._client = client
        self.asked = []

    def _setUp(self):
        send = self._client.get_allocation_candidates

        def keep(context, resources):
            self.asked.append(resources.to_querystring())
            return send(context, resources)

        self.useFixture(fixtures.MockPatchObject(
            self._client, 'get_allocation_candidates', keep))
