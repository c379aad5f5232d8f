#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Tests of nova_pinning.tempest_plugin.hosts."""

import ddt
from oslo_config import cfg
from oslo_config import fixture

from nova_pinning.placement import traits
from nova_pinning.tempest_plugin import config
from nova_pinning.tempest_plugin import hosts
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.tempest_plugin import samples


def host(name='a', dedicated='2-7', shared='0-1', marks=(), **free):
    return hosts.Host(
        name, f'uuid-{name}', hosts.CpuSets(
            samples.cpus(dedicated), samples.cpus(shared)),
        frozenset(marks), free)


@ddt.ddt
class CpuSetsTest(base.TestCase):

    @ddt.data(
        ('a dedicated=2-7,9 shared=0-1', '2-7,9', '0-1'),
        ('a shared=0-1', '', '0-1'), ('a  dedicated=1', '1', ''),
        ('a', '', ''))
    @ddt.unpack
    def test_option(self, text, dedicated, shared):
        self.assertEqual(
            ('a', hosts.CpuSets(samples.cpus(dedicated),
                                samples.cpus(shared))),
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
            {'a': hosts.CpuSets(samples.cpus('2-7,9'), samples.cpus('0')),
             'b': hosts.CpuSets(shared=samples.cpus('0-1'))},
            dict(conf.pinning.cpu_sets))

    def test_not_set(self):
        conf = self.useFixture(fixture.Config(cfg.ConfigOpts())).conf
        conf.register_opts(config.OPTIONS, config.GROUP)
        conf([])
        self.assertFalse(conf.pinning.cpu_sets)


class HostTest(base.TestCase):

    def test_class_by_cpus(self):
        self.assertTrue(host().is_dedicated)
        self.assertFalse(host(dedicated='').is_dedicated)

    def test_class_by_traits(self):
        self.assertFalse(host(marks={traits.SHARED}).is_dedicated)
        self.assertTrue(
            host(dedicated='', marks={traits.DEDICATED}).is_dedicated)

    def test_room(self):
        found = host(PCPU=2, VCPU=4)
        self.assertTrue(found.has_room(2, 0))
        self.assertTrue(found.has_room(1, 4))
        self.assertFalse(found.has_room(3, 0))
        self.assertFalse(found.has_room(1, 5))

    def test_guests_of_the_other_class(self):
        """They get no room, even where there are CPUs for them."""
        self.assertFalse(host(PCPU=2, VCPU=4).has_room(0, 1))
        self.assertFalse(host(marks={traits.SHARED}, PCPU=2).has_room(1, 0))

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
        marked = host(marks={traits.DEDICATED})
        self.assertEqual({f'trait:{traits.DEDICATED}': 'required'},
                         hosts.class_specs(marked, True))
        self.assertEqual({}, hosts.class_specs(marked, False))
        self.assertEqual({}, hosts.class_specs(host(), True))
        self.assertEqual(
            {f'trait:{traits.SHARED}': 'required'},
            hosts.class_specs(host(marks={traits.SHARED}), False))
