# SPDX-License-Identifier: Apache-2.0
"""What host render writes for nova, read by nova itself."""

import contextlib
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

from nova.compute import provider_config as nova_provider_config
import nova.conf
from nova.conf import compute as compute_conf
from nova.conf import libvirt as libvirt_conf
from nova.conf import pci as pci_conf
from nova.conf import scheduler as scheduler_conf
from nova import objects
from nova.pci import request as pci_request
from nova.pci import whitelist
from nova.virt import hardware
from nova.virt.libvirt import driver

from nova_pinning import cpuset
from nova_pinning.host import host_model
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
    for module in (compute_conf, libvirt_conf, pci_conf, scheduler_conf):
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
        for kind in options.DEVICE_TYPES:
            files = render.files(host, options.RenderOptions(
                device_types={'gpu': kind}))
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
