# SPDX-License-Identifier: Apache-2.0
"""Tests of nova_pinning.tempest_plugin.hosts."""

import ddt
from oslo_config import cfg
from oslo_config import fixture

from nova_pinning.placement import placement_traits
from nova_pinning.tempest_plugin import config
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tests.unit.tempest_plugin import guest_samples
from nova_pinning.tests.unit import unit_base


def host(name='a', dedicated='2-7', shared='0-1', marks=(), **free):
    return hosts.ComputeHost(
        name, f'uuid-{name}', hosts.CpuSets(
            guest_samples.cpus(dedicated), guest_samples.cpus(shared)),
        frozenset(marks), free)


@ddt.ddt
class CpuSetsTest(unit_base.TestCase):

    @ddt.data(
        ('a dedicated=2-7,9 shared=0-1', '2-7,9', '0-1'),
        ('a shared=0-1', '', '0-1'), ('a  dedicated=1', '1', ''),
        ('a', '', ''))
    @ddt.unpack
    def test_option(self, text, dedicated, shared):
        self.assertEqual(
            ('a', hosts.CpuSets(guest_samples.cpus(dedicated),
                                guest_samples.cpus(shared))),
            hosts.CpuSetsType()(text))

    @ddt.data('a 2-7', 'a pinned=2-7', 'a shared=0 shared=1', 'a shared=x')
    def test_nonsense(self, text):
        self.assertRaises(ValueError, hosts.CpuSetsType(), text)

    def test_in_a_file(self):
        path = self.create_tempfiles([('t', '\n'.join([
            '[pinning]', 'cpu_sets = a dedicated=2-7,9 shared=0',
            'cpu_sets = b shared=0-1', '']))])[0]
        conf = cfg.ConfigOpts()
        conf.register_opts(config.OPTIONS, config.GROUP)
        conf(['--config-file', path])
        self.assertEqual(
            {'a': hosts.CpuSets(guest_samples.cpus('2-7,9'),
                                guest_samples.cpus('0')),
             'b': hosts.CpuSets(shared=guest_samples.cpus('0-1'))},
            dict(conf.pinning.cpu_sets))

    def test_not_set(self):
        conf = self.useFixture(fixture.Config(cfg.ConfigOpts())).conf
        conf.register_opts(config.OPTIONS, config.GROUP)
        conf([])
        self.assertFalse(conf.pinning.cpu_sets)


class HostTest(unit_base.TestCase):

    def test_class_by_cpus(self):
        self.assertTrue(host().is_dedicated)
        self.assertFalse(host(dedicated='').is_dedicated)

    def test_class_by_traits(self):
        self.assertFalse(host(marks={placement_traits.SHARED}).is_dedicated)
        self.assertTrue(
            host(dedicated='',
                 marks={placement_traits.DEDICATED}).is_dedicated)

    def test_room(self):
        found = host(PCPU=2, VCPU=4)
        self.assertTrue(found.has_room(2, 0))
        self.assertTrue(found.has_room(1, 4))
        self.assertFalse(found.has_room(3, 0))
        self.assertFalse(found.has_room(1, 5))

    def test_guests_of_the_other_class(self):
        """They get no room, even where there are CPUs for them."""
        self.assertFalse(host(PCPU=2, VCPU=4).has_room(0, 1))
        self.assertFalse(
            host(marks={placement_traits.SHARED}, PCPU=2).has_room(1, 0))

    def test_the_emptiest_first(self):
        found = [host('a', PCPU=1), host('b', PCPU=3), host('c', PCPU=3),
                 host('d', PCPU=0)]
        self.assertEqual(['b', 'c', 'a'], [
            one.name for one in hosts.room(found, 1, 0)])

    def test_free(self):
        self.assertEqual(
            {'PCPU': 4, 'VCPU': 7},
            hosts.free(
                {'PCPU': {'total': 6, 'reserved': 0, 'allocation_ratio': 1.0},
                 'VCPU': {'total': 3, 'reserved': 1, 'allocation_ratio': 4.0}},
                {'PCPU': 2, 'VCPU': 1, 'MEMORY_MB': 512}))

    def test_specs(self):
        marked = host(marks={placement_traits.DEDICATED})
        self.assertEqual({f'trait:{placement_traits.DEDICATED}': 'required'},
                         hosts.class_specs(marked, True))
        self.assertEqual({}, hosts.class_specs(marked, False))
        self.assertEqual({}, hosts.class_specs(host(), True))
        self.assertEqual(
            {f'trait:{placement_traits.SHARED}': 'required'},
            hosts.class_specs(host(marks={placement_traits.SHARED}), False))
