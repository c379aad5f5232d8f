# SPDX-License-Identifier: Apache-2.0

import functools
import itertools

import ddt

from nova_pinning.cli import advise as advise_command
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import flavor_model
from nova_pinning.instance_bench.advise import advice_model
from nova_pinning.instance_bench.advise import advisor
from nova_pinning.instance_bench.advise import flavor_agreement
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.instance_bench.advise import advise_scenes
from nova_pinning.tests.unit import unit_base

FLAVORS = catalogue.load(cli_case.CATALOGUE).flavors
PINNED = {'hw:cpu_policy': 'dedicated'}
#: Extra specs, and what they say as nova's documents have it.
SAYING = (
    ({}, {'class': 'shared', 'emulator': 'on-vcpus', 'multiqueue': 'off',
          'pages': 'small', 'cells': 'none', 'threads': 'prefer',
          'realtime': 'off'}),
    ({'hw:cpu_policy': 'shared'}, {'class': 'shared', 'cells': 'none'}),
    ({'hw:cpu_policy': 'mixed'}, {'class': 'another'}),
    ({'pinning:class': 'shared'}, {'class': 'shared'}),
    ({'pinning:class': 'nonsense'}, {'class': 'shared'}),
    ({'pinning:class': 'dedicated'}, {'class': 'another'}),
    (PINNED, {'class': 'dedicated', 'cells': 'fewest'}),
    ({**PINNED, 'pinning:class': 'dedicated'}, {'class': 'dedicated'}),
    ({**PINNED, 'pinning:class': 'nonsense'}, {'class': 'dedicated'}),
    ({**PINNED, 'pinning:class': 'shared'}, {'class': 'another'}),
    ({'hw:emulator_threads_policy': 'share'}, {'emulator': 'share'}),
    ({'hw:emulator_threads_policy': 'isolate'}, {'emulator': 'isolate'}),
    ({'hw:vif_multiqueue_enabled': 'true'}, {'multiqueue': 'on'}),
    ({'hw:vif_multiqueue_enabled': 'yes'}, {'multiqueue': 'on'}),
    ({'hw:vif_multiqueue_enabled': 'False'}, {'multiqueue': 'off'}),
    ({'hw:mem_page_size': 'large'}, {'pages': 'huge', 'cells': 'fewest'}),
    ({'hw:mem_page_size': '2048'}, {'pages': 'huge'}),
    ({'hw:mem_page_size': '1GB'}, {'pages': 'huge'}),
    ({'hw:mem_page_size': 'small'}, {'pages': 'small', 'cells': 'fewest'}),
    ({'hw:mem_page_size': '4'}, {'pages': 'small'}),
    ({'hw:mem_page_size': 'any'}, {'pages': 'any'}),
    ({'hw:numa_nodes': '1'}, {'cells': 'fewest'}),
    ({'hw:numa_nodes': '2'}, {'cells': '2 where 1 would do'}),
    ({'hw:cpu_thread_policy': 'prefer'}, {'threads': 'prefer'}),
    ({'hw:cpu_thread_policy': 'require'}, {'threads': 'require'}),
    ({'hw:cpu_thread_policy': 'isolate'}, {'threads': 'isolate'}),
    ({'hw:cpu_realtime': 'true'}, {'realtime': 'on'}),
    ({'hw:cpu_realtime': 'yes'}, {'realtime': 'on'}),
    ({'hw:cpu_realtime': 'no'}, {'realtime': 'off'}))


def make_flavor(specs, vcpus=2, memory_mib=1024, name=''):
    return flavor_model.Flavor(
        name=name or f'f{vcpus}', vcpus=vcpus, memory_mib=memory_mib,
        extra_specs=specs)


@functools.cache
def _refused(host):
    """What nova and our checks have against the shipped flavors there."""
    return advise_command.refused(FLAVORS, advise_scenes.HOSTS[host])


def _advise(load, host=None, flavors=FLAVORS):
    return advisor.advise(
        advise_scenes.ask(load, host=host), flavors=flavors,
        refused=_refused(host) if host else {})


@ddt.ddt
class FlavorValuesTest(unit_base.TestCase):

    @ddt.data(*SAYING)
    @ddt.unpack
    def test_extra_specs(self, specs, expected):
        found = flavor_agreement.flavor_values(make_flavor(specs))
        self.assertEqual(expected, {topic: found[topic] for topic in expected})

    def test_each_answer_is_one_that_flavors_have(self):
        """Another would rule all of them out."""
        values = {pair for _specs, said in SAYING for pair in said.items()}
        for topic, rules in advisor.rules().items():
            for line in rules:
                self.assertLessEqual(
                    {(topic, answer) for answer in line.answers}, values)

    @ddt.data((41, 1024, 'fewest'), (40, 1024, '2 where 1 would do'),
              (2, 400 * 1024, 'fewest'))
    @ddt.unpack
    def test_cells_that_a_host_needs(self, vcpus, memory_mib, expected):
        self.assertEqual(expected, flavor_agreement.flavor_values(
            make_flavor({'hw:numa_nodes': '2'}, vcpus, memory_mib),
            advise_scenes.HOSTS['xeon-80-dedicated'])['cells'])


@ddt.ddt
class AgreementTest(unit_base.TestCase):

    def test_those_that_agree_with_all_answers(self):
        agreeing = {**PINNED, 'hw:mem_page_size': 'large',
                    'hw:cpu_thread_policy': 'require'}
        names = _advise('memory', flavors=[
            make_flavor({**agreeing, **change}, name=f'f{number}')
            for number, change in enumerate((
                {'hw:vif_multiqueue_enabled': 'true'}, {},
                {'hw:cpu_policy': 'mixed'},
                {'hw:emulator_threads_policy': 'isolate'},
                {'hw:mem_page_size': 'small'}, {'hw:numa_nodes': '2'},
                {'hw:cpu_thread_policy': 'prefer'},
                {'hw:cpu_realtime': 'yes'},
                {'pci_passthrough:alias': 'nvme:1'}))]).flavors
        # That without queues has more of the preferred values.
        self.assertEqual(('f1', 'f0'), names)

    @ddt.data(*itertools.product(advice_model.WorkloadBound,
                                 advise_scenes.HOSTS))
    @ddt.unpack
    def test_none_that_is_refused(self, load, host):
        advice = _advise(load, host)
        self.assertEqual(set(), {*advice.flavors} & _refused(host).keys())
        self.assertTrue(advice.why)

    def test_of_a_container_nothing(self):
        advice = advisor.advise(advise_scenes.ask('cpu', 'cn'),
                                flavors=FLAVORS)
        self.assertEqual(((), ''), (advice.flavors, advice.why))

    def test_the_best_then_the_smallest_come_first(self):
        self.assertEqual(
            tuple(f'enterprise.{size}' for size in (
                'large', 'xlarge', '2xlarge', '4xlarge', '8xlarge')),
            _advise('memory').flavors)
        # The largest has two cells, which only a host can show to be few.
        self.assertIn('enterprise.16xlarge',
                      _advise('memory', 'xeon-80-dedicated').flavors)
        # With realtime.
        self.assertEqual('latency.large',
                         _advise('latency', 'epyc-256-nps1').flavors[0])

    @ddt.data(('very-io', 'enterprise.large', 'emulator threads (on-vcpus)'),
              ('io', 'enterprise.large', 'emulator threads (on-vcpus)'),
              ('network', 'enterprise.large', 'emulator threads (on-vcpus)'),
              ('disk', 'enterprise.large', 'emulator threads (on-vcpus)'),
              ('lock-bound', 'shared.large', 'size (2)'))
    @ddt.unpack
    def test_second_best(self, load, flavor, lesser):
        """The shipped catalogue has something for each, and says so."""
        advice = _advise(load)
        self.assertEqual(flavor, advice.flavors[0])
        self.assertIn(f'with the second best in {lesser}', advice.why)

    def test_second_best_comes_second(self):
        agreeing = {**PINNED, 'hw:cpu_thread_policy': 'require',
                    'hw:mem_page_size': 'large',
                    'hw:vif_multiqueue_enabled': 'true'}
        advice = _advise('network', flavors=[
            make_flavor(agreeing, name='a'), make_flavor(
                {**agreeing, 'hw:emulator_threads_policy': 'isolate'}, 8,
                name='b')])
        self.assertEqual(('b', 'a'), advice.flavors)
        self.assertNotIn('second best', advice.why)

    @ddt.data(*advise_scenes.HOSTS)
    def test_latency_takes_no_second_best(self, host):
        for name in _advise('latency', host).flavors:
            self.assertNotIn('enterprise', name)

    def test_what_stands_in_the_way(self):
        advice = _advise('lock-bound', flavors=[make_flavor({}, 3)])
        self.assertEqual((), advice.flavors)
        self.assertEqual('f3 comes nearest; in the way: '
                         'size 1 vCPU, otherwise 2, it has 3', advice.why)
        advice = advisor.advise(
            advise_scenes.ask('cpu'), flavors=[make_flavor({})],
            refused={'f2': 'no room'})
        self.assertEqual('f2 comes nearest; in the way: no room', advice.why)
        # Of the class above all.
        advice = _advise('memory', flavors=[
            make_flavor({'hw:mem_page_size': 'large',
                         'hw:cpu_thread_policy': 'require'}),
            make_flavor(PINNED, 4)])
        self.assertEqual(
            'f4 comes nearest; in the way: memory pages huge, it has small; '
            'thread policy require or isolate, it has prefer', advice.why)
        advice = _advise('cpu', flavors=[
            make_flavor({'pci_passthrough:alias': 'gpu:1'})])
        self.assertEqual('there are no flavors without devices', advice.why)
