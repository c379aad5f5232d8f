# SPDX-License-Identifier: Apache-2.0

import dataclasses
import itertools
import json
import textwrap

import ddt
import hypothesis
from hypothesis import strategies as st

from nova_pinning import cpuset
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import flavor_model
from nova_pinning.host import host_loader
from nova_pinning.host import host_model
from nova_pinning.instance_bench.advise import advice_rules
from nova_pinning.instance_bench.advise import advisor
from nova_pinning.instance_bench.advise import choose
from nova_pinning.instance_bench.advise import hosts
from nova_pinning.instance_bench.advise import model
from nova_pinning.instance_bench import bench_model
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit import unit_base

PLATFORMS = ('cn', 'vm', 'vmcn', 'nova')
FLAVORS = catalogue.load(cli_case.CATALOGUE).flavors
DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED
GIB = 1024


def ask(load='cpu', platform='nova', is_steady=False):
    return model.Question(
        workload='', workload_class=bench_model.WorkloadClass.CPU,
        load=model.WorkloadBound(load), is_steady=is_steady,
        platform=bench_model.PlatformName(platform))


def make_room(nodes=2, cpus=40, dedicated=36, shared=4, l3=20,
              memory=384 * GIB, pages=0):
    """A host whose nodes are alike; shared CPUs are those after dedicated."""
    described = []
    ids = {'dedicated': [], 'shared': []}
    for number in range(nodes):
        own = range(number * cpus, (number + 1) * cpus)
        ids['dedicated'] += own[:dedicated]
        ids['shared'] += own[dedicated:dedicated + shared]
        described.append(host_model.NumaNode(
            id=number, socket=number, cores=tuple((cpu,) for cpu in own),
            memory_mib=memory, huge_pages={1024 * 1024: pages},
            l3_domains=tuple(
                cpuset.CpuSet(own[first:first + l3])
                for first in range(0, cpus, l3))))
    return hosts.bare_host(host_model.HostDescription(
        name='here', nodes=tuple(described), nova=host_model.NovaSettings(
            dedicated_cpus=cpuset.CpuSet(ids['dedicated']) or None,
            shared_cpus=cpuset.CpuSet(ids['shared']) or None)))


def make_flavor(vcpus=2, memory_mib=GIB, **specs):
    return flavor_model.Flavor(
        name=f'f{vcpus}', vcpus=vcpus, memory_mib=memory_mib, extra_specs={
            key.replace('__', ':'): value for key, value in specs.items()})


def texts(advice, topic):
    return [str(line.value) for line in advice.lines if line.topic == topic]


def thin(advice):
    return [remark for line in advice.lines for remark in line.thin]


def situations():
    for load_, platform, steady, has_shared, guest_class in itertools.product(
            model.WorkloadBound, PLATFORMS, (False, True), (False, True),
            ('dedicated', 'shared')):
        yield advice_rules.Situation(
            load=load_, platform=platform, is_steady=steady,
            has_shared_cpus=has_shared, guest_class=guest_class)


@ddt.ddt
class RulesTest(unit_base.TestCase):

    def test_each_is_reached(self):
        reached = {
            line.rule for situation in situations()
            for line in (
                *advice_rules.cautions(advice_rules.shipped(), situation), *(
                    advice_rules.find(advice_rules.shipped(), topic, situation)
                    for topic in model.Topic
                    if topic not in (model.Topic.FLAVOR,
                                     model.Topic.CAUTION)))}
        self.assertEqual({rule.name for rule in advice_rules.shipped()},
                         reached)

    def test_published_practice(self):
        by_name = {rule.name: rule for rule in advice_rules.shipped()}
        for name, expected in (('size-cpu', '0.07 to 0.14 CHR'),
                               ('size-io', '0.14 to 0.28 CHR'),
                               ('size-very-io', '0.28 to 0.57 CHR'),
                               ('size-lock-bound', '1 vCPU'),
                               ('class-io', 'dedicated'),
                               ('class-cpu-container', 'dedicated'),
                               ('class-cpu-guest', 'shared')):
            self.assertEqual(expected, str(by_name[name].value))

    def test_values_are_of_their_topic(self):
        choices = {
            model.Topic.CLASS: {'dedicated', 'shared'},
            model.Topic.EMULATOR: {'share', 'isolate', 'on-vcpus', ''},
            model.Topic.MULTIQUEUE: {'on', 'off', ''},
        }
        units = {model.Topic.SIZE: {'CHR', 'vCPU', ''},
                 model.Topic.GAIN: {'%', ''}}
        for rule in advice_rules.shipped():
            self.assertIn(rule.value.choice,
                          choices.get(rule.topic, {''}), rule.name)
            self.assertIn(rule.value.unit,
                          units.get(rule.topic, {''}), rule.name)

    @ddt.data(
        ('choice: shared', 'choice: shred', 'did you mean shared?'),
        ('name: two', 'name: one', 'is the name of two rules'),
        ('[cern-2015]', '[cern-2016]', 'did you mean cern-2015'),
        ('load: [cpu]', 'loads: [cpu]', 'loads is not known here'),
        ('why: so', 'wy: so', 'why is missing'))
    @ddt.unpack
    def test_bad(self, old, new, expected):
        text = textwrap.dedent('''\
            version: 1
            rules:
              - name: one
                topic: class
                when: {load: [cpu]}
                choice: shared
                why: so
                sources: [cern-2015]
                is_checked: true
              - name: two
                topic: class
                when: {}
                choice: dedicated
                why: so
                sources: [cern-2015]
                is_checked: true
            ''')
        self.assertEqual(
            2, len(advice_rules.read(source.parse(text, 'rules.yaml'))))
        error = self.assertRaises(
            errors.InputError, advice_rules.read,
            source.parse(text.replace(old, new), 'rules.yaml'))
        self.assertIn(expected, str(error))


@ddt.ddt
class RoomTest(unit_base.TestCase):

    def test_of_host_file(self):
        room = hosts.bare_host(host_loader.load(cli_case.HOST))
        self.assertEqual((80, 76, 40, 0, 40, False), (
            room.cpus, room.of(DEDICATED), room.node_cpus, room.of(SHARED),
            room.l3_cpus, room.has_shared_set))

    @ddt.data((0.07, 0.14, 100, (7, 14)), (0.14, 0.28, 50, (7, 14)),
              (0.07, 0.14, 80, (6, 11)), (0.07, 0.14, 2, (1, 0)),
              (0.28, 0.57, 2, (1, 1)), (0.07, 0.14, 24, (2, 3)),
              (0.28, 0.57, 100, (28, 57)))
    @ddt.unpack
    def test_vcpus(self, low, high, cpus, expected):
        room = make_room(nodes=1, cpus=cpus, dedicated=cpus, shared=0)
        self.assertEqual(expected, room.vcpus(
            model.AdvisedValue(low=low, high=high, unit='CHR')))

    @ddt.data(
        (36, 100 * GIB, {}, True),
        (37, 100 * GIB, {}, False),
        (36, 385 * GIB, {}, False),
        # Where no size is asked for nova takes the smallest pages.
        (72, 568 * GIB, {'hw__numa_nodes': '2'}, True),
        (72, 569 * GIB, {'hw__numa_nodes': '2'}, False),
        (72, 568 * GIB, {'hw__numa_nodes': '2', 'hw__mem_page_size': 'any'},
         True),
        (4, 285 * GIB, {'hw__mem_page_size': 'any'}, False),
        (72, 100 * GIB, {}, False),
        (74, 100 * GIB, {'hw__numa_nodes': '2'}, False),
        (4, 100 * GIB, {'hw__mem_page_size': 'large'}, True),
        (4, 101 * GIB, {'hw__mem_page_size': 'large'}, False),
        (4, 100 * GIB, {'hw__mem_page_size': '1048576'}, True),
        (4, 1, {'hw__mem_page_size': '2048'}, False),
        (4, 284 * GIB, {'hw__mem_page_size': 'small'}, True),
        (4, 285 * GIB, {'hw__mem_page_size': 'small'}, False))
    @ddt.unpack
    def test_fits(self, vcpus, memory_mib, specs, expected):
        flavor = make_flavor(vcpus, memory_mib, **specs)
        room = make_room(pages=100)
        self.assertEqual(expected, room.fits(flavor, DEDICATED))

    def test_reserved(self):
        description = host_loader.load(cli_case.HOST)
        size = 1024 * 1024
        room = hosts.bare_host(dataclasses.replace(
            description, nova=dataclasses.replace(
                description.nova, reserved_memory_mib=8 * GIB,
                reserved_huge_pages={(1, size): 60})))
        self.assertEqual([360 * GIB, 300 * GIB],
                         [dict(node.pools)[size] // 1024
                          for node in room.rooms])
        self.assertEqual(760 * GIB, room.memory_mib)

    def test_floating_fits(self):
        room = make_room(shared=4)
        self.assertTrue(room.fits(make_flavor(8), SHARED))
        self.assertFalse(room.fits(make_flavor(9), SHARED))
        self.assertFalse(room.fits(make_flavor(1, 769 * GIB), SHARED))


class ChooseTest(unit_base.TestCase):

    def nearest(self, *flavors, **wanted):
        return choose.nearest(
            flavors,
            choose.AdvisedFlavor(**{'guest_class': DEDICATED, **wanted}),
            None)

    def dedicated(self, vcpus=2, **specs):
        return make_flavor(vcpus, hw__cpu_policy='dedicated', **specs)

    def test_only_of_the_class(self):
        self.assertIsNone(self.nearest(make_flavor()))
        self.assertIsNone(self.nearest(self.dedicated(), guest_class=SHARED))
        self.assertIsNone(self.nearest(
            self.dedicated(pinning__class='nonsense')))

    def test_smallest_in_range(self):
        match = self.nearest(*map(self.dedicated, (2, 4, 8, 16)), low=3,
                             high=9)
        self.assertEqual((4, True), (match.flavor.vcpus, match.is_in_range))

    def test_nearest_to_range(self):
        match = self.nearest(*map(self.dedicated, (2, 16)), low=8, high=9)
        self.assertEqual((2, False), (match.flavor.vcpus, match.is_in_range))

    def test_empty_range(self):
        match = self.nearest(*map(self.dedicated, (1, 2)), low=1, high=0)
        self.assertEqual((1, True), (match.flavor.vcpus, match.is_in_range))

    def test_nothing_that_is_not_wanted(self):
        plain = self.dedicated(16)
        match = self.nearest(
            self.dedicated(4, hw__cpu_realtime='true'),
            self.dedicated(4, pci_passthrough__alias='nvme:1'), plain,
            low=4, high=4)
        self.assertIs(plain, match.flavor)
        realtime = self.dedicated(4, hw__cpu_realtime='true')
        match = self.nearest(realtime, plain, low=16, high=16,
                             is_realtime=True)
        self.assertIs(realtime, match.flavor)

    def test_what_is_missing(self):
        match = self.nearest(self.dedicated(), emulator='share',
                             has_multiqueue=True)
        self.assertEqual(('add hw:emulator_threads_policy=share',
                          'add hw:vif_multiqueue_enabled=true'),
                         match.misses)
        match = self.nearest(self.dedicated(
            hw__emulator_threads_policy='isolate',
            hw__vif_multiqueue_enabled='true'), emulator='on-vcpus')
        self.assertEqual(('it has hw:emulator_threads_policy=isolate',),
                         match.misses)

    def test_less_to_add_of_one_size(self):
        with_policy = self.dedicated(
            4, hw__emulator_threads_policy='share', a='b')
        match = self.nearest(self.dedicated(4), with_policy, low=4, high=4,
                             emulator='share')
        self.assertIs(with_policy, match.flavor)

    def test_size_before_what_can_be_added(self):
        small = self.dedicated(2, hw__emulator_threads_policy='share')
        match = self.nearest(small, self.dedicated(4), low=4, high=4,
                             emulator='share')
        self.assertEqual(4, match.flavor.vcpus)


@ddt.ddt
class AdviseTest(unit_base.TestCase):

    @ddt.data(
        ('cpu', 'shared', None, 'on-vcpus', 'off'),
        ('memory', 'dedicated', None, 'on-vcpus', 'off'),
        ('io', 'dedicated', 'enterprise.4xlarge', 'share', 'on'),
        ('network', 'dedicated', 'enterprise.4xlarge', 'share', 'on'),
        ('disk', 'dedicated', 'enterprise.4xlarge', 'share', 'off'),
        ('very-io', 'dedicated', 'enterprise.8xlarge', 'share', 'on'),
        ('latency', 'dedicated', None, 'share', 'off'))
    @ddt.unpack
    def test_shipped(self, load_, guest_class, flavor, emulator, queues):
        advice = advisor.advise(ask(load_), flavors=FLAVORS,
                                room=make_room(pages=360))
        self.assertEqual([guest_class], texts(advice, 'class'))
        if flavor is not None:
            self.assertEqual(flavor, advice.flavor)
        self.assertEqual([emulator], texts(advice, 'emulator'))
        self.assertEqual([queues], texts(advice, 'multiqueue'))
        self.assertFalse([one for one in thin(advice) if 'fewer than' in one])

    def test_isolate_without_shared_cpus(self):
        advice = advisor.advise(ask('io'), room=make_room(shared=0))
        self.assertEqual(['isolate'], texts(advice, 'emulator'))

    def test_steady(self):
        advice = advisor.advise(ask('cpu', is_steady=True))
        self.assertEqual(['dedicated'], texts(advice, 'class'))

    def test_container(self):
        advice = advisor.advise(ask('cpu', 'cn'), flavors=FLAVORS,
                                room=make_room())
        self.assertEqual(['dedicated'], texts(advice, 'class'))
        self.assertEqual([], texts(advice, 'flavor'))
        self.assertEqual('', advice.flavor)
        self.assertIn('do not use small containers without pinning',
                      texts(advice, 'caution'))
        self.assertEqual(['none'], texts(advice, 'emulator'))

    def test_no_host(self):
        advice = advisor.advise(ask('io'), flavors=FLAVORS)
        self.assertIsNone(advice.vcpus)
        self.assertEqual('', advice.flavor)
        self.assertEqual(['0.14 to 0.28 CHR'], texts(advice, 'size'))
        self.assertIn('no host is given, and CHR goes by its CPUs',
                      thin(advice))

    def test_lock_bound_takes_no_host(self):
        advice = advisor.advise(ask('lock-bound'), flavors=FLAVORS)
        self.assertEqual(1, advice.vcpus)
        self.assertEqual('shared.large', advice.flavor)
        self.assertIn('it has 2 vCPUs, and none has as many as advised',
                      thin(advice))

    def test_host_of_other_class(self):
        room = make_room(shared=0)
        advice = advisor.advise(ask('cpu'), flavors=FLAVORS, room=room)
        self.assertEqual(('shared.2xlarge', 8),
                         (advice.flavor, advice.vcpus))
        self.assertEqual(
            ['here has no shared CPUs'],
            [line.why for line in advice.lines
             if line.topic is model.Topic.CAUTION and not line.rule])
        self.assertFalse([one for one in thin(advice) if 'has 0' in one])

    def test_no_flavor(self):
        advice = advisor.advise(ask('io'), flavors=[make_flavor()],
                                room=make_room())
        self.assertEqual(['none'], texts(advice, 'flavor'))
        self.assertEqual(12, advice.vcpus)

    def test_spans_nodes(self):
        room = make_room(nodes=16, cpus=16, dedicated=15, shared=1, l3=16)
        advice = advisor.advise(ask('very-io'), room=room)
        self.assertEqual(72, advice.vcpus)
        self.assertIn('no NUMA node has more than 15 dedicated CPUs, so that '
                      'it spans several', thin(advice))

    def test_spans_caches(self):
        room = make_room(nodes=1, cpus=80, dedicated=80, shared=0, l3=8)
        advice = advisor.advise(ask('io'), room=room)
        self.assertEqual(12, advice.vcpus)
        self.assertIn('no L3 domain has more than 8 dedicated CPUs, so that '
                      'it spans several', thin(advice))

    def test_too_few_cpus(self):
        room = make_room(nodes=1, cpus=80, dedicated=3, shared=0)
        advice = advisor.advise(ask('io'), room=room)
        self.assertEqual(3, advice.vcpus)
        self.assertIn('here has 3 dedicated CPUs, fewer than that',
                      thin(advice))

    def test_no_whole_number_in_range(self):
        room = make_room(nodes=1, cpus=2, dedicated=1, shared=1, l3=2)
        advice = advisor.advise(ask('cpu'), room=room)
        self.assertEqual(1, advice.vcpus)
        self.assertIn('no whole number of CPUs is in the range on this host',
                      thin(advice))

    def test_what_is_only_cited_says_so(self):
        advice = advisor.advise(ask('io'))
        line = advice.line(model.Topic.CLASS)
        self.assertIs(model.AdviceEvidence.CITED, line.evidence)
        self.assertEqual(('not measured here, and taken over from where it '
                          'was cited',), line.thin)

    def test_facts_are_not_thin(self):
        advice = advisor.advise(ask('cpu'))
        self.assertEqual((), advice.line(model.Topic.EMULATOR).thin)

    def test_no_figure_says_so(self):
        advice = advisor.advise(ask('io'))
        self.assertIn('no figure is known',
                      advice.line(model.Topic.GAIN).thin)
        advice = advisor.advise(ask('cpu'))
        self.assertNotIn('no figure is known',
                         advice.line(model.Topic.GAIN).thin)

    @unit_base.settings(200)
    @hypothesis.given(
        load_=st.sampled_from(model.WorkloadBound),
        platform=st.sampled_from(PLATFORMS),
        is_steady=st.booleans(), nodes=st.integers(1, 8),
        cpus=st.integers(1, 40), dedicated=st.integers(0, 40),
        shared=st.integers(0, 40), pages=st.sampled_from((0, 20, 380)),
        is_given=st.booleans())
    def test_any(self, load_, platform, is_steady, nodes, cpus, dedicated,
                 shared, pages, is_given):
        dedicated = min(dedicated, cpus)
        room = make_room(nodes, cpus, dedicated, min(shared, cpus - dedicated),
                         l3=cpus, pages=pages) if is_given else None
        question = ask(load_, platform, is_steady)
        advice = advisor.advise(question, flavors=FLAVORS, room=room)
        again = advisor.advise(question, flavors=FLAVORS, room=room)
        self.assertEqual(advice, again)
        self.assertEqual(advisor.as_dict(advice), json.loads(
            json.dumps(advisor.as_dict(advice))))
        guest_class = hostclass.HostClass(
            advice.line(model.Topic.CLASS).value.choice)
        flavor = next((one for one in FLAVORS if one.name == advice.flavor),
                      None)
        if flavor is not None:
            self.assertIs(guest_class, choose._class(flavor))
        if room is None:
            return
        if advice.vcpus is not None:
            self.assertGreaterEqual(advice.vcpus, 1)
            self.assertLessEqual(advice.vcpus, room.cpus)
            if room.of(guest_class):
                self.assertLessEqual(advice.vcpus, room.of(guest_class))
        if flavor is not None and room.of(guest_class):
            self.assertTrue(room.fits(flavor, guest_class))
        for line in advice.lines:
            self.assertTrue(str(line.value))
            self.assertTrue(line.why)
