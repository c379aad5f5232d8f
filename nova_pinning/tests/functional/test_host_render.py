# SPDX-License-Identifier: Apache-2.0
"""What host render writes for nova, read by nova itself."""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import textwrap
from unittest import mock

import fixtures
import hypothesis
from oslo_config import cfg
from oslotest import base as oslotest

from nova.compute import pci_placement_translator
from nova.compute import provider_config as nova_provider_config
import nova.conf
from nova.conf import compute as compute_conf
from nova.conf import devices as devices_conf
from nova.conf import libvirt as libvirt_conf
from nova.conf import pci as pci_conf
from nova.conf import scheduler as scheduler_conf
from nova import exception
from nova import objects
from nova.pci import request as pci_request
from nova.pci import whitelist
from nova.virt import hardware
from nova.virt.libvirt import driver

from nova_pinning import cpuset
from nova_pinning.host import device_offer
from nova_pinning.host import hardware as hardware_model
from nova_pinning.host import host_model
from nova_pinning.host import host_offer
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.host import plan_model
from nova_pinning.host import render
from nova_pinning.host.render import nova_conf
from nova_pinning.host.render import options
from nova_pinning.host.render import provider
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.host.render import render_samples
from nova_pinning.tests.unit import unit_base

# Loads options as nova-compute does, and says what they are.
_LOADER = """
import json, sys
from nova import config
from nova.virt import hardware
import nova.conf
config.parse_args(['nova-compute', *sys.argv[1:]], configure_db=False,
                  init_rpc=False)
CONF = nova.conf.CONF
print(json.dumps({
    'dedicated': sorted(hardware.get_cpu_dedicated_set() or ()),
    'shared': sorted(hardware.get_cpu_shared_set() or ()),
    'memory': CONF.reserved_host_memory_mb,
    'pages': {node: list(sizes.items()) for node, sizes
              in hardware.numa_get_reserved_huge_pages().items()},
    'aliases': len(CONF.pci.alias),
}))
"""


@contextlib.contextmanager
def loaded(*paths):
    """nova's options from these files, in the place of the process's own."""
    conf = cfg.ConfigOpts()
    for module in (compute_conf, devices_conf, libvirt_conf, pci_conf,
                   scheduler_conf):
        module.register_opts(conf)
    conf(['--config-file=' + str(path) for path in paths],
         project='nova', default_config_files=[], default_config_dirs=[])
    pci_request.get_alias_from_config.cache_clear()
    try:
        with contextlib.ExitStack() as stack:
            for module in (nova.conf, hardware, pci_request, driver):
                stack.enter_context(mock.patch.object(module, 'CONF', conf))
            yield conf
    finally:
        pci_request.get_alias_from_config.cache_clear()


class _TestCase(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def write(self, files, path=nova_conf.PATH):
        place = self.root / 'nova.conf'
        place.write_text(files[path].text)
        return place


class TestAccepted(_TestCase):
    """nova makes of the file what the plan says."""

    @unit_base.settings(80)
    @hypothesis.given(render_samples.any_case())
    def test_any_plan(self, case):
        self.check(*case)

    def check(self, host, wanted):
        files = render.files(host, wanted)
        with loaded(self.write(files)) as conf:
            self._check_cpus(host)
            self.assertEqual(host.nova.reserved_memory_mib,
                             conf.reserved_host_memory_mb)
            self.assertEqual(host.nova.ram_allocation_ratio,
                             conf.ram_allocation_ratio)
            self.assertEqual(
                host.nova.cpu_allocation_ratio if host.nova.shared_cpus
                else None, conf.cpu_allocation_ratio)
            self.assertEqual(
                {key: count for key, count
                 in host.nova.reserved_huge_pages.items() if count},
                {(node, size): count for node, sizes in
                 hardware.numa_get_reserved_huge_pages().items()
                 for size, count in sizes.items()})
            self.assertEqual(
                host.nova.packs_cells or False,
                conf.compute.packing_host_numa_cells_allocation_strategy)
            self._check_devices(host, wanted, conf)
        if provider.PATH in files:
            self._check_provider(host, files[provider.PATH])

    def _check_cpus(self, host):
        nova_settings = host.nova
        self.assertEqual(nova_settings.dedicated_cpus,
                         _cpus(hardware.get_cpu_dedicated_set()))
        self.assertEqual(nova_settings.shared_cpus,
                         _cpus(hardware.get_cpu_shared_set()))
        # What the driver would report to Placement.
        compute = mock.Mock()
        compute._host.get_online_cpus.return_value = set(host.cpus)
        get = driver.LibvirtDriver
        self.assertEqual(set(nova_settings.dedicated_cpus or ()),
                         get._get_pcpu_available(compute))
        self.assertEqual(set(nova_settings.shared_cpus or ()),
                         get._get_vcpu_available(compute))

    def _check_devices(self, host, wanted, conf):
        found = whitelist.Whitelist(conf.pci.device_spec)
        for device in host.pci_devices:
            spec = found.device_assignable({
                'address': device.address, 'vendor_id': device.vendor_id,
                'product_id': device.product_id, 'dev_type': 'type-PCI'})
            self.assertEqual(bool(device.alias), bool(spec), device)
        known = pci_request.get_alias_from_config()
        self.assertEqual({device.alias.strip() for device in host.pci_devices
                          if device.alias}, set(known))
        for name, (policy, specs) in known.items():
            self.assertEqual('legacy', policy)
            self.assertEqual(
                {(device.vendor_id, device.product_id)
                 for device in host.pci_devices
                 if device.alias and device.alias.strip() == name},
                {(spec['vendor_id'], spec['product_id'])
                 for spec in specs})

    def _check_provider(self, host, file):
        (self.root / 'provider').mkdir(exist_ok=True)
        (self.root / 'provider' / 'a.yaml').write_text(file.text)
        [found] = nova_provider_config.get_provider_configs(
            str(self.root / 'provider')).values()
        self.assertTrue(host.traits.issubset(
            found['traits']['additional']))

    def test_what_host_plan_makes(self):
        host = render_samples.planned()
        for purpose in plan_model.Purpose:
            self.check(planner.plan(host, plan_request.PlanOptions(
                purpose=purpose, page_size_kib=host_samples.MIB_PAGES,
                sizes=(plan_model.GuestSize(2, cells=0),))),
                       options.RenderOptions())

    def test_types(self):
        objects.register_all()
        host = render_samples.planned()
        for changed, kind in (({}, 'type-PCI'),
                              ({'sriov_totalvfs': 4}, 'type-PF'),
                              ({'physical_function': '0000:5e:00.0'},
                               'type-VF')):
            files = render.files(dataclasses.replace(
                host, pci_devices=tuple(
                    dataclasses.replace(device, **changed)
                    if device.alias == 'gpu' else device
                    for device in host.pci_devices)))
            with loaded(self.write(files)):
                [request] = pci_request.get_pci_requests_from_flavor(
                    objects.Flavor(extra_specs={
                        'pci_passthrough:alias': 'gpu:1'})).requests
                self.assertEqual([{
                    'vendor_id': '10de', 'product_id': '1db6',
                    'dev_type': kind}], request.spec)

    def test_one_alias_of_two_products(self):
        host = render_samples.planned(pci_devices=tuple(
            host_model.PciDevice(f'0000:5e:00.{number}', '10de', product, 1,
                                 'gpu')
            for number, product in enumerate(('1db6', '1db4', '1db6'))))
        files = render.files(host)
        with loaded(self.write(files)) as conf:
            self.assertEqual(3, len(conf.pci.device_spec))
            self.assertEqual(2, len(conf.pci.alias))
            [(_policy, specs)] = pci_request.get_alias_from_config().values()
            self.assertEqual(['1db4', '1db6'],
                             [spec['product_id'] for spec in specs])

    def _gpus(self, **values):
        """GPUs of two groups, a NIC of the first, and parts of others."""
        def device(bus, number, product='2330', **more):
            return host_model.PciDevice(
                f'0000:{bus:02x}:00.0', '10de', product, 1,
                **{'alias': 'h100', 'kind': hardware_model.PciKind.GPU,
                   'resource_class': 'CUSTOM_H100',
                   'traits': (f'CUSTOM_H100_SWITCH_{number}',)} | more)
        return render_samples.planned(pci_devices=(
            device(0x11, 0), device(0x1a, 0), device(0x21, 1),
            device(0x31, 0, '1021', alias='ib', resource_class='CUSTOM_IB',
                   kind=hardware_model.PciKind.NIC,
                   traits=('CUSTOM_IB_SWITCH_0',)),
            *(device(bus, 0, product, alias='vgpu',
                     resource_class='CUSTOM_VGPU', traits=(),
                     vgpu_type='1155',
                     physical_function=f'0000:{bus - 1:02x}:00.0')
              for bus, product in ((0x41, '2331'), (0x43, '2336')))),
            **values)

    def test_groups(self):
        """Placement has a provider for each device, aliases ask for them."""
        objects.register_all()
        host = self._gpus()
        with loaded(self.write(render.files(host))) as conf:
            self.assertTrue(conf.pci.report_in_placement)
            specs = whitelist.Whitelist(conf.pci.device_spec)
            view = pci_placement_translator.PlacementView('compute', [])
            for device in host.pci_devices:
                reported = objects.PciDevice(
                    address=device.address, vendor_id=device.vendor_id,
                    product_id=device.product_id, status='available',
                    dev_type=host.device_type(device),
                    parent_addr=device.physical_function or None)
                spec = specs.get_devspec(reported)
                view.process_dev(reported, spec)
                self.assertEqual('false' if device.vgpu_type else None,
                                 spec.get_tags().get('managed'))
            found = {
                name.partition('_')[2]: (rp.resource_class, {
                    trait for trait in rp.traits if 'CUSTOM' in trait})
                for name, rp in view.rps.items()}
            self.assertEqual(
                {name: (rp.resource_class, rp.total, rp.traits)
                 for name, rp in view.rps.items()},
                {provider.name.replace(host.name, 'compute'): (
                    *[(name, has.total) for name, has
                      in provider.inventories][0], provider.traits)
                 for provider in host_offer.offered(host).children})
            self.assertEqual({
                '0000:11:00.0': ('CUSTOM_H100', {'CUSTOM_H100_SWITCH_0'}),
                '0000:1A:00.0': ('CUSTOM_H100', {'CUSTOM_H100_SWITCH_0'}),
                '0000:21:00.0': ('CUSTOM_H100', {'CUSTOM_H100_SWITCH_1'}),
                '0000:31:00.0': ('CUSTOM_IB', {'CUSTOM_IB_SWITCH_0'}),
                '0000:40:00.0': ('CUSTOM_VGPU', set()),
                '0000:42:00.0': ('CUSTOM_VGPU', set())}, found)
            # As nova-compute does when it starts.
            aliases = pci_request.get_alias_from_config()
        self.assertEqual({
            'h100': ('CUSTOM_H100', None),
            'h100-switch-0': ('CUSTOM_H100', 'CUSTOM_H100_SWITCH_0'),
            'h100-switch-1': ('CUSTOM_H100', 'CUSTOM_H100_SWITCH_1'),
            'ib': ('CUSTOM_IB', None),
            'ib-switch-0': ('CUSTOM_IB', 'CUSTOM_IB_SWITCH_0'),
            'vgpu': ('CUSTOM_VGPU', None)},
            {name: (spec.get('resource_class'), spec.get('traits'))
             for name, (_policy, [spec]) in aliases.items()})

    def test_classes_are_named_as_nova_does(self):
        for alias in ('h100', 'a b', 'Grüße', 'x--y', '7'):
            self.assertEqual(
                pci_placement_translator.get_resource_class(alias, '', ''),
                device_offer.resource_class(alias), alias)

    def test_mediated_devices(self):
        device = host_model.PciDevice(
            '0000:41:00.0', '10de', '20b5', 1, mdev_type='nvidia-699')
        for types, classes in (
                (('nvidia-699',), ['VGPU']),
                (('nvidia-699', 'nvidia-700'), [
                    'CUSTOM_NVIDIA_699', 'CUSTOM_NVIDIA_700'])):
            files = render.files(render_samples.planned(pci_devices=tuple(
                dataclasses.replace(device, address=f'0000:4{number}:00.0',
                                    mdev_type=one)
                for number, one in enumerate(types))))
            with loaded(self.write(files)) as conf:
                self.assertEqual(list(types),
                                 conf.devices.enabled_mdev_types)
                devices_conf.register_dynamic_opts(conf)
                self.assertEqual(
                    [(classes[number], [f'0000:4{number}:00.0'])
                     for number in range(len(types))],
                    [(conf[f'mdev_{one}'].mdev_class,
                      conf[f'mdev_{one}'].device_addresses) for one in types])

    def test_domains_above_ffff(self):
        """Why no device there is given an alias."""
        self.assertRaises(exception.PciConfigInvalidSpec, whitelist.Whitelist,
                          ['{"address": "10000:01:00.0"}'])

    def test_kolla(self):
        host = render_samples.polling()
        files = render.files(host, options.RenderOptions(
            format=options.RenderFormat.KOLLA, hosts=('compute-1',)))
        with loaded(self.write(files, 'config/nova/compute-1/nova.conf')):
            self._check_cpus(host)


def _cpus(found):
    return None if found is None else cpuset.CpuSet(found)


class TestLoader(_TestCase):
    """nova-compute's own start: the order in which it reads files."""

    def setUp(self):
        super().setUp()
        home = self.root / '.nova'
        # As /etc/nova, which comes after it.
        conf_d = home / 'nova.conf.d'
        conf_d.mkdir(parents=True)
        files = render.files(render_samples.polling())
        (conf_d / pathlib.Path(nova_conf.PATH).name).write_text(
            files[nova_conf.PATH].text)
        self.conf = home / 'nova.conf'
        self.conf.write_text(textwrap.dedent("""
            [DEFAULT]
            reserved_host_memory_mb = 77
            reserved_huge_pages = node:0,size:2048,count:5
            [compute]
            cpu_dedicated_set = 1
            [pci]
            alias = {"name": "a", "vendor_id": "1", "product_id": "1"}
            """))

    def _load(self, *arguments):
        done = subprocess.run(
            [sys.executable, '-c', _LOADER, *arguments], check=True,
            capture_output=True, text=True,
            env=os.environ | {'HOME': str(self.root)})
        return json.loads(done.stdout)

    def test_by_default(self):
        """The snippet outweighs nova.conf, but for what adds up."""
        self.assertEqual({
            'dedicated': [2, 6], 'shared': [3, 7], 'memory': 0,
            'pages': {'0': [[2048, 5]], '1': [[2048, 512]]}, 'aliases': 2,
        }, self._load())

    def test_with_config_file(self):
        """nova.conf outweighs the snippet, as the snippet says."""
        found = self._load('--config-file', str(self.conf))
        self.assertEqual(([1], [3, 7], 77), (
            found['dedicated'], found['shared'], found['memory']))
