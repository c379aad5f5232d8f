# SPDX-License-Identifier: Apache-2.0
"""Cache ways from a catalogue to Placement, and what checks say of them."""

import dataclasses

import ddt
import yaml

from nova_pinning.bridge.offline import nova_judgement
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors.checks import flavor_check_run
from nova_pinning.host import cache_capacity
from nova_pinning.host import hardware
from nova_pinning.host import hostfile
from nova_pinning.host import provider_config
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base

_CATALOGUE = """
version: 2
name: latency
families:
  fast:
    class: dedicated
    numa_nodes: {cells}
    {words}
    sizes:
      small: {{vcpus: {vcpus}, memory: 2GiB}}
"""


def flavor(words, vcpus=2, cells=1):
    made, = catalogue.parse(_CATALOGUE.format(
        words=words, vcpus=vcpus, cells=cells), 'catalogue.yaml').flavors
    return made


def host(mask=0x7ff, shareable=0x600, groups=16, bandwidth=True):
    """Two nodes with an L3 cache each, on which guests have 3 CPUs of 4."""
    return host_samples.host(
        nova=host_samples.settings('1-3,5-7', '0,4'),
        traits=frozenset({'CUSTOM_PINNING_DEDICATED'}),
        resctrl=hardware.Resctrl(
            {0: cpuset.CpuSet([0, 1, 4, 5]), 1: cpuset.CpuSet([2, 3, 6, 7])},
            hardware.CacheAllocation(mask, 1, shareable, groups),
            hardware.BandwidthAllocation(10, 10, groups) if bandwidth
            else None))


@ddt.ddt
class TestTranslation(unit_base.TestCase):

    def test_ways(self):
        specs = flavor('l3_ways: 4').extra_specs
        self.assertEqual({
            'pinning:l3_ways': '4', 'resources:CUSTOM_L3_WAYS': '4',
            'resources:CUSTOM_RESCTRL_GROUPS': '1',
            'trait:CUSTOM_PINNING_L3_WAYS_4': 'required'},
            {key: value for key, value in specs.items()
             if 'L3' in key or 'RESCTRL' in key or 'l3' in key})

    def test_ways_in_the_cache_of_each_cell(self):
        specs = flavor(
            'l3_ways: {per_vcpu: 0.5}', vcpus=4, cells=2).extra_specs
        self.assertEqual(('2', '4'), (
            specs['pinning:l3_ways'], specs['resources:CUSTOM_L3_WAYS']))

    def test_bandwidth(self):
        specs = flavor('memory_bandwidth: 50').extra_specs
        self.assertEqual('50', specs['pinning:memory_bandwidth'])
        self.assertEqual('1', specs['resources:CUSTOM_RESCTRL_GROUPS'])
        self.assertEqual(
            'required', specs['trait:CUSTOM_PINNING_MEMORY_BANDWIDTH'])
        self.assertNotIn('resources:CUSTOM_L3_WAYS', specs)

    def test_nothing(self):
        self.assertFalse([key for key in flavor('{}'.strip('{}')).extra_specs
                          if 'RESCTRL' in key])

    @ddt.data('l3_ways: 0', 'l3_ways: 65', 'memory_bandwidth: 101',
              'l3_ways: 2MiB')
    def test_what_makes_no_sense(self, words):
        self.assertRaises(errors.InputErrors, flavor, words)


@ddt.ddt
class TestHost(unit_base.TestCase):

    def test_provider(self):
        made = provider_config.make(host())
        told = yaml.safe_load(provider_config.text(made, 'small'))
        provider, = told['providers']
        self.assertEqual(
            {'CUSTOM_L3_WAYS': 18, 'CUSTOM_RESCTRL_GROUPS': 15},
            {name: one['total']
             for listed in provider['inventories']['additional']
             for name, one in listed.items()})
        traits = provider['traits']['additional']
        self.assertEqual(
            {f'CUSTOM_PINNING_L3_WAYS_{ways}' for ways in range(1, 10)},
            {trait for trait in traits if 'WAYS' in trait})
        self.assertIn('CUSTOM_PINNING_MEMORY_BANDWIDTH', traits)

    def test_no_group_for_guests(self):
        found = cache_capacity.of_host(host(groups=1))
        self.assertEqual(({}, frozenset()), (found.totals, found.traits))

    def test_caches_without_guests_do_not_count(self):
        found = cache_capacity.of_host(dataclasses.replace(
            host(), nova=host_samples.settings('2-3,6-7')))
        self.assertEqual(9, found.totals['CUSTOM_L3_WAYS'])

    def test_nothing_known(self):
        bare = dataclasses.replace(host(), resctrl=None)
        self.assertIsNone(cache_capacity.of_host(bare))
        self.assertEqual({}, provider_config.make(bare).inventories)


@ddt.ddt
class TestChecks(unit_base.TestCase):

    def found(self, *flavors, hosts=None):
        return {
            finding.code: finding.message
            for finding in flavor_check_run.check(
                flavors, nova_judgement.judging,
                (host(),) if hosts is None else hosts)
            if finding.code.startswith('P61') or finding.code == 'P601'}

    @ddt.data(('l3_ways: 9', 2, 1), ('l3_ways: 9', 2, 2),
              ('memory_bandwidth: 10', 2, 1), ('l3_ways: 1', 4, 2))
    @ddt.unpack
    def test_what_fits(self, words, vcpus, cells):
        self.assertEqual({}, self.found(flavor(words, vcpus, cells)))

    def test_more_ways_than_any_cache(self):
        found = self.found(flavor('l3_ways: 10'))
        self.assertIn('no cache of the hosts given has more than 9',
                      found['P610'])
        # Placement finds none, either.
        self.assertIn('CUSTOM_PINNING_L3_WAYS_10', found['P601'])

    def test_a_host_that_cannot(self):
        found = self.found(flavor('l3_ways: 1\n    memory_bandwidth: 50'),
                           hosts=(dataclasses.replace(host(), resctrl=None),))
        self.assertEqual({'P601', 'P610', 'P611'}, set(found))

    def test_what_is_not_counted(self):
        made = flavor('extra_specs: {"pinning:l3_ways": 2}')
        self.assertEqual(
            'it should have resources:CUSTOM_L3_WAYS=2, '
            'resources:CUSTOM_RESCTRL_GROUPS=1, '
            'trait:CUSTOM_PINNING_L3_WAYS_2=required as well',
            self.found(made)['P612'])

    @ddt.data(1, 2)
    def test_one_cache_for_each_cell(self, cells):
        """What is not counted at all is said by P612 alone."""
        found = self.found(
            flavor('extra_specs: {"pinning:l3_ways": 2}', cells=cells),
            hosts=(host(),))
        self.assertIn('P612', found)
        self.assertNotIn('P614', found)

    def test_a_guest_that_floats(self):
        made = flavor('l3_ways: 2')
        specs = {key: value for key, value in made.extra_specs.items()
                 if key != 'hw:cpu_policy' and key != 'pinning:class'}
        self.assertIn('P613', self.found(dataclasses.replace(
            made, extra_specs=specs)))

    def test_a_guest_larger_than_a_cache(self):
        split = dataclasses.replace(host(), resctrl=dataclasses.replace(
            host().resctrl, domains={
                number: cpuset.CpuSet(core) for number, core in enumerate(
                    ((0, 4), (1, 5), (2, 6), (3, 7)))}))
        found = self.found(flavor('l3_ways: 2', vcpus=3), hosts=(split,))
        self.assertIn('nova pins it to 2 L3 caches', found['P614'])
        self.assertIn('4 ways', found['P614'])

    def test_a_guest_that_nova_spreads(self):
        """It would fit into one cache, and nova pins it to several."""
        cores = hostfile.split_cores(cpuset.CpuSet(range(64)), 2, 'split')
        epyc = dataclasses.replace(
            host(), nodes=(dataclasses.replace(
                host().nodes[0], cores=cores, memory_mib=65536),),
            nova=host_samples.settings('0-63'),
            resctrl=dataclasses.replace(host().resctrl, domains={
                cache: cpuset.CpuSet(
                    cpu for core in cores[8 * cache:8 * cache + 8]
                    for cpu in core) for cache in range(4)}))
        found = self.found(flavor('l3_ways: 2', vcpus=16), hosts=(epyc,))
        self.assertIn('nova pins it to 4 L3 caches', found['P614'])

    def test_hosts_fill_up_by_ways(self):
        """One guest more than there are ways for is refused."""
        order = flavor('l3_ways: 9', vcpus=1)
        self.assertNotIn('P601', self.found(order))
        few = dataclasses.replace(host(groups=2))
        self.assertEqual(
            1, cache_capacity.of_host(few).totals['CUSTOM_RESCTRL_GROUPS'])
        found = flavor_check_run.check(
            (order,), nova_judgement.judging, (few,))
        self.assertTrue([finding for finding in found
                         if finding.code == 'P602'
                         and 'CUSTOM_RESCTRL_GROUPS' in finding.message])
