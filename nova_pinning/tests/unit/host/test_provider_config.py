# SPDX-License-Identifier: Apache-2.0
"""provider.yaml as we write it, and as others do."""

import dataclasses
import itertools

import ddt
import hypothesis
from oslotest import base as oslotest
import yaml

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.fit import score
from nova_pinning.host import cache_capacity
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning.host import hostfile
from nova_pinning.host import provider_config
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base

UUID = '5c2b1f60-7f3a-4f53-9f3c-0a4f6f2f8c11'


def with_l3(cores, size, **values):
    """A host of one node whose L3 caches serve so many cores each."""
    node = host_model.NumaNode(
        id=0, socket=0, cores=tuple(cores), memory_mib=1024,
        l3_domains=hostfile.even_domains(tuple(cores), size))
    return host_samples.host(nodes=(node,), **{
        'nova': host_samples.settings('0-7'), **values})


def pairs(count):
    """Cores of two threads each, the second ones after all first ones."""
    return [(core, core + count) for core in range(count)]


@ddt.ddt
class TestMake(oslotest.BaseTestCase):

    def make(self, *args, **kwargs):
        return provider_config.make(*args, **kwargs)

    @ddt.data(
        ({'nova': host_samples.settings('0-3')}, 'dedicated'),
        ({'nova': host_samples.settings('0-3', '4-5')}, 'dedicated'),
        ({'nova': host_samples.settings(shared='0-3')}, 'shared'),
        # What it says itself comes first.
        ({'nova': host_samples.settings('0-3', '4-5'),
          'traits': frozenset({placement_traits.SHARED})}, 'shared'),
        ({'traits': frozenset({placement_traits.DEDICATED})}, 'dedicated'),
    )
    @ddt.unpack
    def test_class(self, values, expected):
        made = self.make(host_samples.host(**values))
        self.assertEqual({hostclass.HostClass(expected)},
                         placement_traits.classes_of(made.traits))

    @ddt.data(
        ({}, 'tell'),
        ({'traits': frozenset(placement_traits.TRAIT_OF.values()),
          'nova': host_samples.settings('0-3')}, 'both'),
    )
    @ddt.unpack
    def test_unclear_class(self, values, word):
        error = self.assertRaises(errors.InputError, self.make,
                                  host_samples.host(**values))
        self.assertIn(word, str(error))
        self.assertIn(placement_traits.DEDICATED, error.advice)

    @ddt.data(('dedicated', host_samples.settings(shared='0-3')),
              ('shared', host_samples.settings('0-3')))
    @ddt.unpack
    def test_no_cpus_for_the_class(self, name, settings):
        error = self.assertRaises(
            errors.InputError, self.make, host_samples.host(
                nova=settings, traits=frozenset({placement_traits.TRAIT_OF[
                    hostclass.HostClass(name)]})))
        self.assertEqual(f'set nova.{name}_cpus', error.advice)

    # What the L3 caches are like: cores, cores of each, CPUs for guests, n.
    @ddt.data(
        (pairs(8), 4, '0-15', 8),
        (pairs(8), 8, '0-15', 16),
        # Cores that the host keeps are still there.
        (pairs(8), 4, '2-7,10-15', 8),
        (pairs(16), 8, '0-30', 16),
        # Only one thread of each core: that is all the weigher sees.
        (pairs(8), 4, '0-7', 4),
        ([(cpu, cpu + 1) for cpu in range(0, 16, 2)], 4, '0-15', 8),
        ([(cpu,) for cpu in range(8)], 2, '0-7', 2),
    )
    @ddt.unpack
    def test_l3(self, cores, size, dedicated, expected):
        made = self.make(with_l3(cores, size,
                                 nova=host_samples.settings(dedicated)))
        self.assertEqual(expected, placement_traits.l3_cpus(
            made.traits), made.notes)
        self.assertEqual((), made.notes)

    def test_no_l3(self):
        unknown = host_samples.host(nova=host_samples.settings('0-3'))
        known = with_l3(pairs(8), 4)
        partly = dataclasses.replace(known, nodes=(
            *known.nodes, host_model.NumaNode(1, 0, ((16, 17),), 1024)))
        uneven = dataclasses.replace(known, nodes=(dataclasses.replace(
            known.nodes[0], l3_domains=hostfile.even_domains(pairs(8), 3)),))
        mixed = dataclasses.replace(known, nodes=(dataclasses.replace(
            known.nodes[0], l3_domains=(
                cpuset.CpuSet.parse('0-1,4-5,8-9,12-13'),
                cpuset.CpuSet.parse('2-3,6-7,10-11,14-15'))),))
        for host, words in ((unknown, 'does not say'),
                            (partly, 'does not say'),
                            (uneven, 'numbers of cores, 2, 3'),
                            (mixed, 'one after the other')):
            made = self.make(host)
            self.assertIsNone(placement_traits.l3_cpus(made.traits))
            self.assertIn(words, made.notes[0])
            self.assertIn(f'# {made.notes[0]}\n',
                          provider_config.text(made, 'a'))

    def test_l3_of_the_host_file(self):
        mine = placement_traits.l3_trait(3)
        unknown = host_samples.host(nova=host_samples.settings('0-3'),
                                    traits=frozenset({mine}))
        made = self.make(unknown)
        self.assertIn(mine, made.traits)
        self.assertEqual((), made.notes)
        right = placement_traits.l3_trait(4)
        for traits in ({mine}, {mine, right}):
            error = self.assertRaises(
                errors.InputError, self.make,
                with_l3(pairs(8), 4, traits=frozenset(traits)))
            self.assertIn(f'{mine} and {right} cannot both', str(error))
        self.assertIn(right, self.make(with_l3(
            pairs(8), 4, traits=frozenset({right}))).traits)

    @unit_base.settings(200)
    @hypothesis.given(host_samples.any_host())
    def test_any_host(self, host):
        try:
            made = self.make(host)
        except errors.InputError as error:
            self.assertNotEqual('', error.advice)
            return
        traits = made.traits
        self.assertEqual(1, len(placement_traits.classes_of(traits)))
        # No other trait of the host is lost, and no other comes.
        ours = {*placement_traits.TRAIT_OF.values(), *(
            trait for trait in traits if placement_traits.l3_cpus([trait]))}
        caches = cache_capacity.of_host(host)
        if caches is not None:
            self.assertLessEqual(caches.traits, traits)
            self.assertEqual(caches.totals, made.inventories)
            ours |= caches.traits
        self.assertEqual(host.traits - ours, traits - ours)
        self.check_domains(host, placement_traits.l3_cpus(traits))

    def check_domains(self, host, l3_cpus):
        """With that number the weigher tells the domains apart."""
        if l3_cpus is None:
            return
        described = [domain for node in host.nodes
                     for domain in node.l3_domains]
        lists = [cell.cores for cell in engine.engine_cells(host)]
        for place, cores in enumerate(lists):
            numbers = score.l3_domains(
                cores, l3_cpus, lists[:place] + lists[place + 1:])
            for one, other in itertools.combinations(numbers, 2):
                is_same = any(one in domain and other in domain
                              for domain in described)
                self.assertEqual(is_same, numbers[one] == numbers[other])


class TestText(oslotest.BaseTestCase):

    def test_text(self):
        made = provider_config.make(with_l3(pairs(8), 4))
        text = provider_config.text(made, 'compute-1')
        head = [line for line in text.splitlines() if line.startswith('#')]
        self.assertIn('compute-1', head[0])
        self.assertIn(provider_config.DIRECTORY, ''.join(head))
        for line in text.splitlines():
            self.assertLessEqual(len(line), 79)
        self.assertEqual({
            'meta': {'schema_version': '1.0'},
            'providers': [{
                'identification': {'uuid': '$COMPUTE_NODE'},
                'traits': {'additional': [
                    placement_traits.DEDICATED,
                    placement_traits.l3_trait(4)]}}],
        }, yaml.safe_load(text))
