# SPDX-License-Identifier: Apache-2.0

import functools
import itertools
import operator

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
#: The values of extra specs that are what an answer says, None for none: once
#: more, key by key, as nova's documents have them.
SAYING = {
    ('class', 'dedicated'): {
        'hw:cpu_policy': ('dedicated',),
        'pinning:class': (None, 'dedicated', 'nonsense')},
    ('class', 'shared'): {
        'hw:cpu_policy': (None, 'shared'),
        'pinning:class': (None, 'shared', 'nonsense')},
    ('emulator', 'on-vcpus'): {'hw:emulator_threads_policy': (None,)},
    ('emulator', 'share'): {'hw:emulator_threads_policy': ('share',)},
    ('emulator', 'isolate'): {'hw:emulator_threads_policy': ('isolate',)},
    ('multiqueue', 'on'): {'hw:vif_multiqueue_enabled': ('true', 'yes')},
    ('multiqueue', 'off'): {'hw:vif_multiqueue_enabled': (None, 'False')},
    ('pages', 'huge'): {'hw:mem_page_size': ('large', '2048', '1GB')},
    ('pages', 'small'): {'hw:mem_page_size': (None, 'small', '4')},
    ('cells', 'none'): {
        'hw:numa_nodes': (None,), 'hw:mem_page_size': (None,),
        'hw:cpu_policy': (None, 'shared')},
    ('cells', 'fewest'): {'hw:numa_nodes': (None, '1')},
    ('threads', 'prefer'): {'hw:cpu_thread_policy': (None, 'prefer')},
    ('threads', 'require'): {'hw:cpu_thread_policy': ('require',)},
    ('threads', 'isolate'): {'hw:cpu_thread_policy': ('isolate',)},
    ('realtime', 'on'): {'hw:cpu_realtime': ('true', 'yes')},
    ('realtime', 'off'): {'hw:cpu_realtime': (None, 'no')}}
#: Other values that there are.
OTHERS = {'hw:cpu_policy': ('mixed',), 'hw:mem_page_size': ('any',),
          'hw:numa_nodes': ('2',), 'pci_passthrough:alias': ('nvme:1',)}


def says(flavor, line):
    """Whether a flavor is what a line of advice says."""
    if line.topic == 'size':
        return line.low is None or (
            line.low <= flavor.vcpus <= (line.high or flavor.vcpus))

    def has(answer):
        return all(flavor.extra_specs.get(key) in values for key, values
                   in SAYING[line.topic, answer].items())

    if line.answers == ('fewest',):
        # Pinning and pages give a guest one cell as well.
        return has('fewest') and any(
            flavor.extra_specs.get(key) not in values
            for key, values in SAYING['cells', 'none'].items())
    return any(map(has, line.answers))


def make_flavor(vcpus=2, memory_mib=1024, **specs):
    return flavor_model.Flavor(
        name=f'f{vcpus}', vcpus=vcpus, memory_mib=memory_mib, extra_specs={
            key.replace('__', ':'): value for key, value in specs.items()})


def _flavors(lines):
    """All that are as advised, and all that differ from one by an extra spec.
    """
    values = {}
    for specs in (*SAYING.values(), OTHERS):
        for key, some in specs.items():
            values.setdefault(key, {None: None}).update(dict.fromkeys(some))
    bases = [
        functools.reduce(operator.or_, (
            SAYING[line.topic, answer] for line, answer in zip(lines, chosen)))
        for chosen in itertools.product(*(
            line.answers for line in lines if line.topic != 'size'))]
    changes = [{}, *({key: (value,)} for key, some in values.items()
                     for value in some)]
    kinds = itertools.product(bases, changes, (1, 3))
    return [
        flavor_model.Flavor(
            name=f'f{number}', vcpus=vcpus, memory_mib=1024, extra_specs={
                key: some[0] for key, some in (base | change).items()
                if some[0]})
        for number, (base, change, vcpus) in enumerate(kinds)]


@functools.cache
def _refused(host):
    """What nova and our checks have against the shipped flavors there."""
    return advise_command.refused(FLAVORS, advise_scenes.HOSTS[host])


def _advise(load, host=None, flavors=FLAVORS):
    return advisor.advise(
        advise_scenes.ask(load, host=host), flavors=flavors,
        refused=_refused(host) if host else {})


@ddt.ddt
class AgreementTest(unit_base.TestCase):

    @ddt.data(*itertools.product(
        advice_model.WorkloadBound, (False, True), ('', 'redis')))
    @ddt.unpack
    def test_those_that_say_the_same_are_named(self, load, steady, workload):
        question = advise_scenes.ask(load, 'nova', steady, workload=workload)
        lines = advisor.advise(question).lines
        flavors = _flavors([one for one in lines if one.topic != 'size'])
        advice = advisor.advise(question, flavors=flavors,
                                refused={'f0': 'no room'})
        expected = {
            flavor.name for flavor in flavors
            if 'pci_passthrough:alias' not in flavor.extra_specs
            and all(says(flavor, line) for line in lines)}
        self.assertTrue(expected)
        self.assertEqual(expected - {'f0'}, set(advice.flavors))
        self.assertTrue(advice.why)

    @ddt.data(*itertools.product(advice_model.WorkloadBound,
                                 advise_scenes.HOSTS))
    @ddt.unpack
    def test_shipped_flavors(self, load, host):
        advice = _advise(load, host)
        for flavor in FLAVORS:
            if flavor.name in advice.flavors:
                self.assertNotIn(flavor.name, _refused(host))
                # How many cells are the fewest depends on the host.
                self.assertTrue(all(says(flavor, line)
                                    for line in advice.lines
                                    if line.topic != 'cells'), flavor.name)

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

    def test_what_stands_in_the_way(self):
        advice = _advise('lock-bound')
        self.assertEqual((), advice.flavors)
        self.assertEqual('shared.large comes nearest; in the way: '
                         'size 1 vCPU, it has 2', advice.why)
        advice = advisor.advise(
            advise_scenes.ask('cpu'), flavors=[make_flavor()],
            refused={'f2': 'no room'})
        self.assertEqual('f2 comes nearest; in the way: no room', advice.why)
        # Of the class above all.
        advice = _advise('memory', flavors=[
            make_flavor(2, hw__mem_page_size='large',
                        hw__cpu_thread_policy='require'),
            make_flavor(4, hw__cpu_policy='dedicated')])
        self.assertEqual(
            'f4 comes nearest; in the way: memory pages huge, it has small; '
            'thread policy require or isolate, it has prefer', advice.why)
        advice = _advise('cpu', flavors=[
            make_flavor(pci_passthrough__alias='gpu:1')])
        self.assertEqual('there are no flavors without devices', advice.why)

    @ddt.data(
        ({'hw__numa_nodes': '2'}, 'cells', '2 where 1 would do'),
        ({'hw__mem_page_size': 'any'}, 'pages', 'any'),
        ({'hw__cpu_policy': 'mixed'}, 'class', 'another'),
        ({'hw__cpu_policy': 'dedicated', 'pinning__class': 'shared'},
         'class', 'another'))
    @ddt.unpack
    def test_values_that_are_no_answer(self, specs, topic, expected):
        self.assertEqual(expected, flavor_agreement.flavor_values(
            make_flavor(**specs))[topic])

    @ddt.data((41, 1024, 'fewest'), (40, 1024, '2 where 1 would do'),
              (2, 400 * 1024, 'fewest'))
    @ddt.unpack
    def test_cells_that_a_host_needs(self, vcpus, memory_mib, expected):
        self.assertEqual(expected, flavor_agreement.flavor_values(
            make_flavor(vcpus, memory_mib, hw__numa_nodes='2'),
            advise_scenes.HOSTS['xeon-80-dedicated'])['cells'])
