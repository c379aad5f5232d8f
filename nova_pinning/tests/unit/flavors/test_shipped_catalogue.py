# SPDX-License-Identifier: Apache-2.0
"""What etc/nova-pinning/flavors.yaml makes, as nova sees it."""

import os

from nova.api.validation.extra_specs import validators
from nova import objects
from nova.virt import hardware

from nova_pinning.flavors import catalogue
from nova_pinning.host import host_loader
from nova_pinning.tests.unit.flavors import check_samples
from nova_pinning.tests.unit.flavors import test_catalogue
from nova_pinning.tests.unit import unit_base

_SERIES = {'large': (2, 8), 'xlarge': (4, 16), '2xlarge': (8, 32),
           '4xlarge': (16, 64), '8xlarge': (32, 128), '16xlarge': (64, 256)}


def _nova_flavor(flavor):
    return objects.Flavor(
        name=flavor.name, vcpus=flavor.vcpus, memory_mb=flavor.memory_mib,
        extra_specs=dict(flavor.extra_specs))


class TestShippedCatalogue(unit_base.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.flavors = catalogue.load(test_catalogue.SHIPPED).flavors
        objects.register_all()

    def _of(self, family):
        return {
            flavor.name.partition('.')[2]: flavor
            for flavor in self.flavors
            if flavor.extra_specs['pinning:family'] == family}

    def test_families_and_sizes(self):
        for family in ('enterprise', 'shared', 'latency', 'local-nvme'):
            sizes = {name: (one.vcpus, one.memory_mib // 1024)
                     for name, one in self._of(family).items()}
            self.assertEqual(
                {name: _SERIES[name] for name in sizes}, sizes)
            if family != 'local-nvme':
                self.assertEqual(_SERIES, sizes)

    def test_kept_apart(self):
        for flavor in self.flavors:
            is_shared = flavor.extra_specs['pinning:family'] == 'shared'
            self.assertEqual(
                'forbidden' if is_shared else 'required',
                flavor.extra_specs['trait:CUSTOM_PINNING_DEDICATED'])
            self.assertTrue(flavor.description)

    def test_nova_knows_the_extra_specs(self):
        for flavor in self.flavors:
            for key, value in flavor.extra_specs.items():
                validators.validate(key, value)

    def test_nova_takes_the_guests(self):
        image = objects.ImageMeta(properties=objects.ImageMetaProps())
        for flavor in self.flavors:
            nova_flavor = _nova_flavor(flavor)
            topology = hardware.numa_get_constraints(nova_flavor, image)
            is_shared = flavor.extra_specs['pinning:family'] == 'shared'
            self.assertEqual(is_shared, topology is None)
            cells = topology.cells if topology else ()
            self.assertEqual(0 if is_shared else 1 + (flavor.vcpus > 38),
                             len(cells))
            best = hardware.get_best_cpu_topology(nova_flavor, image)
            self.assertEqual(flavor.vcpus,
                             best.sockets * best.cores * best.threads)
            self.assertEqual(1 if is_shared else 2, best.threads)
            self.assertEqual(max(1, len(cells)), best.sockets)

    def test_latency(self):
        image = objects.ImageMeta(properties=objects.ImageMetaProps())
        for flavor in self._of('latency').values():
            nova_flavor = _nova_flavor(flavor)
            self.assertEqual(
                set(range(1, flavor.vcpus)),
                hardware.get_realtime_cpu_constraint(nova_flavor, image))
            self.assertTrue(
                hardware.get_locked_memory_constraint(nova_flavor, image))
            self.assertEqual('share', flavor.extra_specs[
                'hw:emulator_threads_policy'])

    def test_nothing_is_found_on_the_shipped_hosts(self):
        hosts = host_loader.load_directory(
            os.path.join(os.path.dirname(test_catalogue.SHIPPED), 'hosts'))
        self.assertNotEqual([], list(hosts))
        self.assertEqual([], check_samples.check(self.flavors, hosts))

    def test_priorities_are_taken_by_cgroup_v2(self):
        for flavor in self._of('shared').values():
            self.assertLessEqual(
                int(flavor.extra_specs['quota:cpu_shares']), 10_000)
