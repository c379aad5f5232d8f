# SPDX-License-Identifier: Apache-2.0

import dataclasses
import functools
from importlib import resources
import itertools
import operator

import ddt
import hypothesis
from hypothesis import strategies as st

from nova_pinning.cli import advise as advise_command
from nova_pinning import cpuset
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import flavor_model
from nova_pinning.host import host_loader
from nova_pinning.instance_bench.advise import advisor
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import statistics
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit import unit_base

FLAVORS = catalogue.load(cli_case.CATALOGUE).flavors
HOSTS = {path.stem: host_loader.load(str(path))
         for path in sorted((cli_case.ETC / 'hosts').glob('*.yaml'))}
GUESTS = ('vm', 'vmcn', 'nova')
PINNED = bench_model.Provisioning.PINNED
VANILLA = bench_model.Provisioning.VANILLA
CPU = bench_model.WorkloadClass.CPU
LAYOUT = {'dedicated': cpuset.CpuSet(range(8)),
          'shared': cpuset.CpuSet(range(8, 16)), 'host': cpuset.CpuSet()}
CONDITIONS = bench_model.Conditions(
    cpu_model='a CPU', topology='', cpus=80, memory_mib=1, kernel='',
    governor='', smt='', load=0.0, mitigations={}, layout=LAYOUT,
    versions={})


def ask(load='cpu', platform='nova', is_steady=False, host=None, workload='',
        workload_class=CPU):
    return advisor.Question(
        workload=workload, workload_class=workload_class,
        load=advisor.WorkloadBound(load), is_steady=is_steady,
        platform=bench_model.PlatformName(platform), host=HOSTS.get(host))


def line(advice, topic):
    return next(line for line in advice.lines if line.topic == topic)


def make_flavor(vcpus=2, memory_mib=1024, **specs):
    return flavor_model.Flavor(
        name=f'f{vcpus}', vcpus=vcpus, memory_mib=memory_mib, extra_specs={
            key.replace('__', ':'): value for key, value in specs.items()})


def says(flavor, topic, answer):
    """Whether a flavor's extra specs are what an answer says.

    Written down once more, key by key, as nova's documents have them.
    """
    specs = flavor.extra_specs
    has = functools.partial(specs.get)
    is_on = {key: has(key, 'false').lower() in ('true', 'yes', '1', 'on')
             for key in ('hw:vif_multiqueue_enabled', 'hw:cpu_realtime')}
    return {
        ('class', 'dedicated'): has('hw:cpu_policy') == 'dedicated'
        and has('pinning:class') != 'shared',
        ('class', 'shared'): has('hw:cpu_policy', 'shared') == 'shared'
        and has('pinning:class') != 'dedicated',
        ('emulator', 'on-vcpus'): 'hw:emulator_threads_policy' not in specs,
        ('emulator', 'share'): has('hw:emulator_threads_policy') == 'share',
        ('emulator', 'isolate'):
            has('hw:emulator_threads_policy') == 'isolate',
        ('multiqueue', 'on'): is_on['hw:vif_multiqueue_enabled'],
        ('multiqueue', 'off'): not is_on['hw:vif_multiqueue_enabled'],
        ('pages', 'huge'):
            has('hw:mem_page_size') in ('large', '2048', '1GB'),
        ('pages', 'small'):
            has('hw:mem_page_size') in (None, 'small', '4'),
        ('cells', 'none'): not {
            'hw:numa_nodes', 'hw:mem_page_size'} & specs.keys()
        and has('hw:cpu_policy') != 'dedicated',
        ('cells', 'fewest'): has('hw:cpu_policy') == 'dedicated' or bool({
            'hw:numa_nodes', 'hw:mem_page_size'} & specs.keys()),
        ('threads', 'prefer'):
            has('hw:cpu_thread_policy', 'prefer') == 'prefer',
        ('threads', 'require'): has('hw:cpu_thread_policy') == 'require',
        ('threads', 'isolate'): has('hw:cpu_thread_policy') == 'isolate',
        ('realtime', 'on'): is_on['hw:cpu_realtime'],
        ('realtime', 'off'): not is_on['hw:cpu_realtime'],
    }[topic, answer]


@functools.cache
def refused(host):
    """What nova and our checks have against the shipped flavors there."""
    if host is None:
        return {}
    return advise_command.refusals(HOSTS[host])(FLAVORS)


_SPECS = st.fixed_dictionaries({}, optional={
    'hw:cpu_policy': st.sampled_from(('dedicated', 'shared', 'mixed')),
    'pinning:class': st.sampled_from(('dedicated', 'shared', 'nonsense')),
    'hw:cpu_thread_policy': st.sampled_from(('prefer', 'require', 'isolate')),
    'hw:emulator_threads_policy': st.sampled_from(('share', 'isolate')),
    'hw:vif_multiqueue_enabled': st.sampled_from(('true', 'false', 'yes')),
    'hw:mem_page_size': st.sampled_from(
        ('large', 'small', 'any', '2048', '4', '1GB')),
    'hw:numa_nodes': st.sampled_from(('1', '2')),
    'hw:cpu_realtime': st.sampled_from(('true', 'no')),
    'pci_passthrough:alias': st.just('nvme:1')})
# Extra specs that make a flavor what an answer says.
_SAYING = {
    'class': {'dedicated': {'hw:cpu_policy': 'dedicated'}, 'shared': {}},
    'emulator': {'on-vcpus': {}, **{
        policy: {'hw:emulator_threads_policy': policy}
        for policy in ('share', 'isolate')}},
    'multiqueue': {'on': {'hw:vif_multiqueue_enabled': 'true'}, 'off': {}},
    'pages': {'huge': {'hw:mem_page_size': 'large'}, 'small': {}},
    'cells': {'none': {}, 'fewest': {'hw:numa_nodes': '1'},
              'more': {'hw:numa_nodes': '2'}},
    'threads': {policy: {'hw:cpu_thread_policy': policy}
                for policy in ('prefer', 'require', 'isolate')},
    'realtime': {'on': {'hw:cpu_realtime': 'true'}, 'off': {}},
}


@st.composite
def flavor_lists(draw, lines):
    """Flavors that are as advised, or but for one topic, and any others."""
    advised = {one.topic: draw(st.sampled_from(one.answers))
               for one in lines if one.topic != 'size'}
    specs = [draw(_SPECS) for _number in range(draw(st.integers(0, 4)))]
    specs += [
        functools.reduce(operator.or_, (
            _SAYING[each][value if each == topic else advised[each]]
            for each in advised))
        for topic in advised for value in _SAYING[topic]]
    return [flavor_model.Flavor(
        name=f'f{number}', extra_specs=each, vcpus=draw(st.integers(1, 64)),
        memory_mib=draw(st.integers(1, 2 ** 19)))
        for number, each in enumerate(specs)]


QUESTIONS = st.builds(
    ask, st.sampled_from(list(advisor.WorkloadBound)),
    st.sampled_from(('cn', *GUESTS)), st.booleans(),
    st.sampled_from((None, *HOSTS)), st.sampled_from(('', 'redis')))


class AgreementTest(unit_base.TestCase):

    def check(self, question, advice, flavors):
        chosen = [flavor for flavor in flavors
                  if flavor.name in advice.flavors]
        self.assertEqual(len(advice.flavors), len(chosen))
        for flavor, one in itertools.product(chosen, advice.lines):
            if one.topic != 'size':
                self.assertTrue(any(
                    says(flavor, one.topic, answer)
                    for answer in one.answers),
                    f'{flavor.extra_specs} is not {one.topic} {one}')
            elif one.low is not None:
                self.assertTrue(
                    one.low <= flavor.vcpus <= (one.high or 1000))
        for flavor in chosen:
            self.assertNotIn('pci_passthrough:alias', flavor.extra_specs)

    @unit_base.settings(max_examples=200)
    @hypothesis.given(QUESTIONS, st.data())
    def test_any_flavors(self, question, data):
        flavors = data.draw(flavor_lists(advisor.advise(question).lines))
        refusals = data.draw(st.dictionaries(
            st.sampled_from([flavor.name for flavor in flavors] or ['f']),
            st.just('no room')))
        advice = advisor.advise(question, flavors=flavors,
                                refusals=lambda _flavors: refusals)
        self.check(question, advice, flavors)
        self.assertFalse(refusals.keys() & set(advice.flavors))
        # There is a reason, whichever way it went.
        self.assertEqual(question.platform != 'cn', bool(advice.why))

    def test_shipped_flavors(self):
        """Each question there is, on each host there is, and on none."""
        for load, platform, steady, host, workload in itertools.product(
                advisor.WorkloadBound, ('cn', *GUESTS), (False, True),
                (None, *HOSTS), ('', 'redis')):
            question = ask(load, platform, steady, host, workload)
            advice = advisor.advise(
                question, flavors=FLAVORS,
                refusals=lambda _flavors: refused(host))
            self.check(question, advice, FLAVORS)
            self.assertFalse(refused(host).keys() & set(advice.flavors))
            self.assertLessEqual({'class', 'size'}, {
                one.topic for one in advice.lines})
            # No ratio of containers for guests, ever.
            if platform != 'cn':
                self.assertNotIn('CHR', str(advice))

    def test_all_that_agree_are_named(self):
        advice = advisor.advise(ask('memory'), flavors=FLAVORS)
        self.assertEqual(
            tuple(f'enterprise.{size}' for size in (
                'large', 'xlarge', '2xlarge', '4xlarge', '8xlarge')),
            advice.flavors)
        # The largest has two cells, which only a host can show to be few.
        host = 'xeon-80-dedicated'
        advice = advisor.advise(
            ask('memory', host=host), flavors=FLAVORS,
            refusals=lambda _flavors: refused(host))
        self.assertIn('enterprise.16xlarge', advice.flavors)

    def test_latency_prefers_realtime(self):
        host = 'epyc-256-nps1'
        advice = advisor.advise(
            ask('latency', host=host), flavors=FLAVORS,
            refusals=lambda _flavors: refused(host))
        self.assertEqual('latency.large', advice.flavors[0])

    def test_what_stands_in_the_way(self):
        advice = advisor.advise(ask('lock-bound'), flavors=FLAVORS)
        self.assertEqual((), advice.flavors)
        self.assertEqual('shared.large comes nearest; in the way: '
                         'size 1 vCPU, it has 2', advice.why)
        advice = advisor.advise(
            ask('cpu'), flavors=[make_flavor()],
            refusals=lambda _flavors: {'f2': 'no room'})
        self.assertEqual('f2 comes nearest; in the way: no room', advice.why)
        advice = advisor.advise(ask('cpu'), flavors=[
            make_flavor(pci_passthrough__alias='gpu:1')])
        self.assertEqual('there are no flavors without devices', advice.why)


@ddt.ddt
class RulesTest(unit_base.TestCase):

    def test_each_is_reached(self):
        """A rule behind another that is always met first is none."""
        reached = set()
        for load, platform, steady, host, workload in itertools.product(
                advisor.WorkloadBound, ('cn', *GUESTS), (False, True),
                (None, 'no-threads', *HOSTS), ('', 'redis')):
            question = ask(load, platform, steady, host, workload)
            if host == 'no-threads':
                question = dataclasses.replace(
                    question, host=without_threads())
            reached |= {(one.topic, one.why.partition('; 0.')[0])
                        for one in advisor.advise(question).lines}
        self.assertEqual({
            (topic, rule['why']) for topic, rules in advisor.shipped().items()
            for rule in rules}, reached)

    @ddt.data(*itertools.product(advisor.WorkloadBound, GUESTS))
    @ddt.unpack
    def test_guests_have_an_answer_on_each_topic(self, load, platform):
        advice = advisor.advise(ask(load, platform))
        self.assertEqual(tuple(advisor.TOPICS),
                         tuple(one.topic for one in advice.lines))

    @ddt.data(
        ('answer: [dedicated]', 'answer: [deducated]',
         'did you mean dedicated?'),
        ('[360-enterprise]', '[360-enterprize]',
         'did you mean 360-enterprise'),
        ('when: {is_steady', 'when: {steady', 'steady is not known here'),
        ('why: its level', 'wy: its level', 'why is missing'),
        ('strength: measured', 'strength: said',
         'documented, measured, our reading'),
        ('vcpus: [1, 1]', 'answer: [small]', 'vcpus or chr'),
        ('  realtime:', '  real:', 'realtime is missing'))
    @ddt.unpack
    def test_bad(self, old, new, expected):
        text = resources.files(advisor.__package__).joinpath(
            'rules.yaml').read_text()
        self.assertIn(old, text)
        error = self.assertRaises(
            errors.InputErrors if old != '[360-enterprise]'
            else errors.InputError, advisor.read,
            source.parse(text.replace(old, new, 1), 'rules.yaml'))
        self.assertIn(expected, str(error))

    @ddt.data((80, '6 to 11 vCPUs'), (16, '2 vCPUs'), (4, '1 vCPU'))
    @ddt.unpack
    def test_ratio_of_a_host(self, cpus, expected):
        host = dataclasses.replace(HOSTS['xeon-80-dedicated'], nodes=tuple(
            dataclasses.replace(node, cores=tuple(
                (cpu,) for cpu in range(node.id * 100,
                                        node.id * 100 + cpus // 2)))
            for node in HOSTS['xeon-80-dedicated'].nodes))
        question = dataclasses.replace(ask('cpu', 'cn'), host=host)
        self.assertEqual(expected, str(line(advisor.advise(question),
                                            'size')))

    def test_ratio_without_a_host(self):
        advice = advisor.advise(ask('cpu', 'cn'))
        self.assertEqual('0.07 to 0.14 CHR', str(line(advice, 'size')))

    def test_host_without_such_cpus(self):
        one = line(advisor.advise(ask('cpu', 'cn', host='xeon-80-shared')),
                   'size')
        self.assertEqual('xeon-80-shared has 0 dedicated CPUs, fewer than '
                         'that', one.remark)

    def test_redis_is_small_wherever(self):
        for platform in ('cn', *GUESTS):
            advice = advisor.advise(ask('very-io', platform,
                                        workload='redis'))
            self.assertEqual('2 to 4 vCPUs', str(line(advice, 'size')))


def without_threads():
    host = HOSTS['xeon-80-dedicated']
    return dataclasses.replace(host, nodes=tuple(
        dataclasses.replace(node, cores=tuple((cpu,) for cpu in node.cpus))
        for node in host.nodes))


@ddt.ddt
class FlavorValuesTest(unit_base.TestCase):

    @ddt.data(
        ({}, 'cells', 'none'),
        ({'hw__cpu_policy': 'dedicated'}, 'cells', 'fewest'),
        ({'hw__mem_page_size': 'small'}, 'cells', 'fewest'),
        ({'hw__numa_nodes': '2'}, 'cells', '2 where 1 would do'),
        ({'hw__mem_page_size': 'any'}, 'pages', 'any'),
        ({'hw__vif_multiqueue_enabled': 'False'}, 'multiqueue', 'off'),
        ({'hw__cpu_realtime': 'yes'}, 'realtime', 'on'),
        ({'hw__cpu_policy': 'mixed'}, 'class', 'another'),
        ({'hw__cpu_policy': 'dedicated', 'pinning__class': 'shared'},
         'class', 'another'))
    @ddt.unpack
    def test_odd_ones(self, specs, topic, expected):
        self.assertEqual(
            expected, advisor.flavor_values(make_flavor(**specs))[topic])

    def test_cells_that_a_host_needs(self):
        host = HOSTS['xeon-80-dedicated']
        for vcpus, memory, expected in (
                (41, 1024, 'fewest'), (40, 1024, '2 where 1 would do'),
                (2, 400 * 1024, 'fewest')):
            self.assertEqual(expected, advisor.flavor_values(make_flavor(
                vcpus, memory, hw__numa_nodes='2'), host)['cells'])


def make_workload(name='primes', higher=True, workload_class=CPU):
    return bench_model.Workload(
        name=name, workload_class=workload_class, about='', command='',
        figures=(bench_model.WorkloadFigure(
            name='figure', unit='1/s', pattern=None,
            better=bench_model.Better.HIGHER if higher
            else bench_model.Better.LOWER),))


def make_tenant(provisioning=PINNED, workload='primes', vcpus=8, name='own',
                role=bench_model.Role.MEASURED, platform='vm', **changes):
    return bench_model.Tenant(
        name=name, role=role, workload=workload,
        platform=bench_model.PlatformName(platform),
        provisioning=provisioning,
        guest_class=hostclass.HostClass.DEDICATED if provisioning is PINNED
        else hostclass.HostClass.SHARED,
        size=bench_model.InstanceSize(vcpus=vcpus, memory_mib=1024), **changes)


def summarise(measured, *workloads, baseline='', stretch=1.0, **changes):
    """A run of rounds.

    :param measured: by the name of a case, its tenants and the level of the
        first of these
    :param changes: of the conditions
    """
    workloads = workloads or (make_workload(),)
    cases = {name: bench_model.Case(factors={'scenario': name},
                                    tenants=tenants)
             for name, (tenants, _values) in measured.items()}
    return statistics.summarise(bench_model.Results(
        experiment=bench_model.Experiment(
            name='run', about='', table='levels', cases=tuple(cases.values()),
            baseline={'scenario': baseline} if baseline else {}),
        workloads={workload.name: workload for workload in workloads},
        conditions=(dataclasses.replace(CONDITIONS, **changes),),
        measurements=tuple(
            bench_model.Measurement(
                factors=cases[name].factors, round=number, repetition=0,
                started=0.0, load=0.0, readings=(bench_model.Reading(
                    tenant=tenants[0].name, instance='own-0', command='',
                    figures={'figure': value}, started=0.0, ended=1.0),))
            for name, (tenants, values) in measured.items()
            for number, value in enumerate(values))), stretch)


def around(mean, spread=0.001, count=20):
    """Values that vary a little, not alike in any two samples."""
    return [mean * (1 + spread * ((number * int(mean) + number) % 5 - 2))
            for number in range(count)]


def pair(pinned, floating, higher=True, **changes):
    """Pinned and floating instances that fill the same number of CPUs."""
    return summarise({
        'pinned': ((make_tenant(PINNED),), pinned),
        'floating': ((make_tenant(VANILLA),), floating)},
        make_workload(higher=higher), **changes)


def advise(summary, load='cpu', workload='primes', **changes):
    return advisor.advise(ask(load, 'vm', workload=workload, **changes),
                          summaries=[summary])


@ddt.ddt
class OwnResultsTest(unit_base.TestCase):

    @ddt.data((100, 80, True, 'dedicated'), (80, 100, False, 'dedicated'),
              (100, 100, True, 'shared'), (80, 100, True, 'shared'),
              (100, 80, False, 'shared'))
    @ddt.unpack
    def test_class(self, pinned, floating, higher, expected):
        one = line(advise(pair(around(pinned), around(floating), higher)),
                   'class')
        self.assertEqual(((expected,), 'own results', ()),
                         (one.answers, one.strength, one.sources))

    def test_they_override_rules(self):
        advice = advise(pair(around(100), around(100)), 'io')
        self.assertEqual('shared', str(line(advice, 'class')))
        # What follows from the class, follows from this one.
        self.assertEqual('on-vcpus', str(line(advice, 'emulator')))
        self.assertEqual('prefer', str(line(advice, 'threads')))

    def test_wide_intervals_do_not_decide(self):
        one = line(advise(pair(around(100, 0.2), around(97, 0.2))), 'class')
        self.assertEqual('measured', one.strength)
        self.assertIn('own results do not decide: dedicated is', one.remark)
        one = line(advise(pair([100], [50])), 'class')
        self.assertEqual('measured', one.strength)

    def test_self_test_widens(self):
        summary = pair(around(103), around(100))
        self.assertEqual('own results', line(
            advise(summary), 'class').strength)
        one = line(advise(dataclasses.replace(summary, stretch=50)), 'class')
        self.assertEqual('measured', one.strength)

    def test_steadiness_is_no_level(self):
        one = line(advise(pair(around(100), around(100)), is_steady=True),
                   'class')
        self.assertEqual(('dedicated', 'measured'),
                         (str(one), one.strength))

    def test_only_at_the_same_density(self):
        """What floats over CPUs sold three times is not pinning's gain."""
        crowd = make_tenant(VANILLA, count=3)
        beside = (crowd, make_tenant(PINNED, name='enterprise'))
        summary = summarise({
            'pinned': ((make_tenant(PINNED),), around(100)),
            'three times': (beside, around(33))})
        self.assertEqual('measured', line(advise(summary), 'class').strength)
        summary = summarise({
            'pinned': ((make_tenant(PINNED),), around(100)),
            'three times': (beside, around(33)),
            'floating': ((make_tenant(VANILLA),), around(100))})
        one = line(advise(summary), 'class')
        self.assertEqual(('shared', 'own results'), (str(one), one.strength))
        self.assertIn('with 1 vCPU for each CPU', one.why)

    def test_fullest_counts(self):
        summary = summarise({
            name: ((make_tenant(provisioning, count=count, vcpus=2),), values)
            for name, provisioning, count, values in (
                ('a', PINNED, 1, around(100)), ('b', VANILLA, 1, around(100)),
                ('c', PINNED, 4, around(100)), ('d', VANILLA, 4, around(50)))})
        self.assertEqual('dedicated', str(line(advise(summary), 'class')))

    def test_fullest_host_counts(self):
        """Instances of either class fill their CPUs, alone or together."""
        pinned = make_tenant(PINNED)
        floating = make_tenant(VANILLA, name='floating')
        summary = summarise({
            'pinned alone': ((pinned,), around(100)),
            'floating alone': ((floating,), around(100)),
            'pinned beside it': ((pinned, floating), around(100)),
            'floating beside it': ((floating, pinned), around(50))})
        self.assertIn('beside it', line(advise(summary), 'class').why)
        self.assertEqual('dedicated', str(line(advise(summary), 'class')))

    @ddt.data(
        ({'emulated': True}, 'guests that were emulated'),
        ({'virtualised': 'kvm'}, 'a host that is a guest itself'))
    @ddt.unpack
    def test_where(self, changes, expected):
        one = line(advise(pair(around(100), around(80), **changes)), 'class')
        self.assertIn(f'run on 80 CPUs, {expected}', one.holds)

    def test_of_something_else(self):
        summary = pair(around(100), around(50))
        for question in (
                ask('cpu', 'cn', workload='primes'),
                ask('cpu', 'vm', workload='others'),
                ask('memory', 'vm',
                    workload_class=bench_model.WorkloadClass.MEMORY)):
            advice = advisor.advise(question, summaries=[summary])
            self.assertNotIn('own results', str(advice))
        # A server of nova is a guest of libvirt, and a class has workloads.
        for question in (ask('cpu', 'nova', workload='primes'),
                         ask('cpu', 'vm')):
            advice = advisor.advise(question, summaries=[summary])
            self.assertEqual('own results', line(advice, 'class').strength)

    def emulator(self, *classes, higher=True):
        threads = bench_model.EmulatorThreads
        return summarise({
            **{str(policy): ((make_tenant(emulator_threads=policy),),
                             around(level)) for policy, level in (
                (threads.SHARE, 90), (threads.ISOLATE, 100),
                (threads.VCPUS, 60))},
            **dict(classes)}, make_workload(
                workload_class=bench_model.WorkloadClass.NETWORK,
                higher=higher))

    def test_emulator(self):
        for higher, expected, times in ((True, 'isolate', '1.11'),
                                        (False, 'on-vcpus', '1.5')):
            one = line(advise(self.emulator(higher=higher), 'network'),
                       'emulator')
            self.assertEqual(expected, str(one))
            self.assertIn(f'{expected} is {times} times as good', one.why)

    def test_shared_guests_have_no_policy(self):
        threads = bench_model.EmulatorThreads
        summary = self.emulator(('floating', (
            (make_tenant(VANILLA, emulator_threads=threads.SHARE),),
            around(99))))
        advice = advise(summary, 'network')
        self.assertEqual(('shared', 'own results'), (
            str(line(advice, 'class')), line(advice, 'class').strength))
        self.assertEqual('on-vcpus', str(line(advice, 'emulator')))

    def sizes(self, levels, **changes):
        return summarise({
            'bare metal': ((make_tenant(vcpus=64, name='host',
                                        platform='bm'),), around(100)),
            **{f'{vcpus} vCPUs': ((make_tenant(vcpus=vcpus),),
                                  around(100 * level))
               for vcpus, level in levels.items()}},
            make_workload(higher=False), baseline='bare metal', **changes)

    def test_size(self):
        for overhead, expected in ((1.04, '4 or more vCPUs'),
                                   (1.06, '8 or more vCPUs')):
            summary = self.sizes({2: 1.5, 4: overhead, 8: 1})
            self.assertEqual(expected, str(line(advise(summary), 'size')))

    def test_size_of_another_machine(self):
        summary = self.sizes({2: 1.5, 4: 1}, cpus=4)
        one = line(advise(summary, host='xeon-80-dedicated'), 'size')
        self.assertEqual('as large as it needs', str(one))
        self.assertIn('own results do not decide: with 4 vCPUs', one.remark)

    def test_one_size_says_nothing(self):
        one = line(advise(self.sizes({2: 1.5})), 'size')
        self.assertEqual(('our reading', ''), (one.strength, one.remark))

    def mutex(self, on_one, on_two, spread=0.001):
        return summarise(
            {name: ((make_tenant(VANILLA, name),), around(level, spread))
             for name, level in (('mutex-up', on_one),
                                 ('mutex-smp', on_two))},
            *(make_workload(name, False,
                            bench_model.WorkloadClass.SYNCHRONISATION)
              for name in ('mutex-up', 'mutex-smp')))

    @ddt.data((20, 60, '1 vCPU'), (60, 20, '2 vCPUs'))
    @ddt.unpack
    def test_lock_bound(self, on_one, on_two, expected):
        for workload in ('mutex-up', 'mutex-smp', ''):
            one = line(advise(
                self.mutex(on_one, on_two), 'lock-bound', workload,
                workload_class=bench_model.WorkloadClass.SYNCHRONISATION),
                'size')
            self.assertEqual((expected, 'own results'),
                             (str(one), one.strength))

    def test_lock_bound_is_not_decided(self):
        one = line(advise(
            self.mutex(20, 20, 0.1), 'lock-bound',
            workload_class=bench_model.WorkloadClass.SYNCHRONISATION), 'size')
        self.assertEqual(('1 vCPU', 'measured'), (str(one), one.strength))
        self.assertIn('own results do not decide', one.remark)

    def test_workloads_that_are_compared_are_there(self):
        attribute, answers = advisor._COMPARED['size']
        self.assertEqual('workload', attribute)
        self.assertLessEqual(answers.keys(),
                             workload_catalogue.load([]).keys())
