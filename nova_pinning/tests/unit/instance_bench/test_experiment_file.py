# SPDX-License-Identifier: Apache-2.0

import dataclasses
import itertools
import pathlib
import textwrap

import ddt
import fixtures
import hypothesis
from hypothesis import strategies as st
import yaml

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.instance_bench import experiment_file
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.tests.unit.host.check import fact_samples
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit import unit_base

_PAGE = (pathlib.Path(__file__).parents[4] / 'doc' / 'source' / 'admin'
         / 'bench.rst')
_SIZE = {'vcpus': 1, 'memory_mib': 1024}


def host(cores, threads=1, memory_mib=1 << 20, per_l3=8):
    """A layout of a host: a core for itself, the others halved."""
    units = [cpuset.CpuSet(range(core * threads, (core + 1) * threads))
             for core in range(cores)]
    half = (cores + 1) // 2
    return cpu_layout.CpuLayout(
        host=units[0], shared=cpuset.union(units[:half]),
        dedicated=cpuset.union(units[half:]), cores=tuple(units),
        l3_domains=tuple(cpuset.union(units[first:first + per_l3])
                         for first in range(0, cores, per_l3)),
        nodes=(cpuset.union(units),), memory_mib=memory_mib)


def trial(**changes):
    """A document, as small as it can be."""
    return {'version': 1, 'name': 'trial', 'about': 'Tries.',
            'table': 'levels', **changes,
            'axes': {'workload': ['spin'], 'platform': ['cn'],
                     'size': [_SIZE], **changes.get('axes', {})}}


class TestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.dir = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def prepared(self, document, on=bench_fakes.LAYOUT, **options):
        path = self.dir / 'trial.yaml'
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return experiment_file.read(
            path, on, bench_fakes.WORKLOADS,
            experiment_file.ExperimentOptions(**options))

    def read(self, *arguments, **options):
        return self.prepared(*arguments, **options).experiment

    def wrong(self, document, **options):
        return str(self.assertRaises(errors.InputError, self.read, document,
                                     **options))


@ddt.ddt
class TestRead(TestCase):

    def test_the_least(self):
        found = self.read(trial())
        self.assertEqual(bench_model.Experiment(
            name='trial', about='Tries.', table='levels', baseline={},
            cases=(bench_model.Case(
                factors={'workload': 'spin', 'platform': 'cn', 'size': '1'},
                tenants=(bench_fakes.tenant(
                    'instances',
                    platform=bench_model.PlatformName.CONTAINER),)),)), found)

    def test_axes_are_multiplied_in_their_order(self):
        found = self.read(trial(axes={
            'provisioning': ['pinned', 'vanilla'], 'weight': [100, 50],
            'threads': [1, {'per_vcpu': 2}]}))
        self.assertEqual(
            [{'workload': 'spin', 'platform': 'cn', 'size': '1',
              'provisioning': provisioning, 'weight': weight,
              'threads': threads}
             for provisioning, weight, threads in itertools.product(
                 ('pinned', 'vanilla'), ('100', '50'), ('1', '2x'))],
            [case.factors for case in found.cases])
        self.assertEqual(
            ('workload', 'platform', 'size', 'provisioning', 'weight',
             'threads'), tuple(found.cases[0].factors))
        last = found.cases[-1].tenants[0]
        self.assertEqual((bench_model.Provisioning.VANILLA, 50, {
            'threads': 2}), (last.provisioning, last.weight, last.parameters))

    def test_a_scenario_has_axes_of_its_own(self):
        found = self.read(trial(
            axes={'platform': ['cn', 'vm'], 'weight': [100, 50]},
            scenarios=[{'name': 'host', 'platform': ['bm'],
                        'weight': [100]},
                       {'name': 'other', 'class': 'shared'}],
            baseline={'scenario': 'host', 'weight': 100}))
        self.assertEqual(
            [('host', 'bm', '100'), ('other', 'cn', '100'),
             ('other', 'cn', '50'), ('other', 'vm', '100'),
             ('other', 'vm', '50')],
            [(case.factors['scenario'], case.factors['platform'],
              case.factors['weight']) for case in found.cases])
        self.assertEqual({'scenario': 'host', 'weight': '100'},
                         found.baseline)
        self.assertEqual(
            [bench_model.Provisioning.PINNED] +
            [bench_model.Provisioning.VANILLA] * 4,
            [case.tenants[0].provisioning for case in found.cases])

    def test_where_parameters_come_from(self):
        """From the widest to the narrowest; each outdoes those before."""
        document = trial(
            parameters={'spin': {'threads': 2, 'duration': 2}},
            axes={'workload': ['spin', {
                'name': 'spin', 'label': 'three',
                'parameters': {'threads': 3}}]},
            scenarios=[
                {'name': 'plain'},
                {'name': 'four', 'parameters': {'threads': 4}},
                {'name': 'five', 'parameters': {'threads': 4},
                 'tenants': [{'parameters': {'threads': 5}}]},
                {'name': 'others', 'parameters': {'threads': 4},
                 'neighbours': {'workload': 'peered'}}],
            short={'parameters': {'spin': {'duration': 1}}})
        found = self.read(document)
        self.assertEqual(
            [2, 3, 4, 4, 5, 5, 4, 4],
            [case.tenants[0].parameters['threads'] for case in found.cases])
        # Parameters are for the workload of the case.
        self.assertEqual({}, found.cases[-1].tenants[1].parameters)
        self.assertEqual({2}, {case.tenants[0].parameters['duration']
                               for case in found.cases})
        self.assertEqual({1}, {
            case.tenants[0].parameters['duration']
            for case in self.read(document, is_short=True).cases})

    def test_a_scenario_can_set_an_axis_of_parameters(self):
        found = self.read(trial(
            axes={'threads': [1, 2]},
            scenarios=[{'name': 'a', 'parameters': {'threads': 7}},
                       {'name': 'b'}]))
        self.assertEqual([('a', '7'), ('b', '1'), ('b', '2')], [
            (case.factors['scenario'], case.factors['threads'])
            for case in found.cases])

    def test_neighbours(self):
        found = self.read(trial(scenarios=[{
            'name': 'crowded', 'class': 'dedicated', 'tenant': 'enterprise',
            'neighbours': {'class': 'shared', 'oversubscription': 3}}]))
        enterprise, neighbours = found.cases[0].tenants
        self.assertEqual(('enterprise', bench_model.Role.MEASURED, 1),
                         (enterprise.name, enterprise.role, enterprise.count))
        # Three vCPUs for each of the two shared CPUs.
        self.assertEqual(
            ('neighbours', bench_model.Role.NEIGHBOUR, 6, 'spin'),
            (neighbours.name, neighbours.role, neighbours.count,
             neighbours.workload))

    def test_sizes_of_the_host(self):
        found = self.read(trial(axes={'size': [
            {'vcpus': {'most': 3}, 'memory_mib': {'per_vcpu': 100}},
            {'vcpus': {'most': 30}, 'memory_mib': 2000},
            {'vcpus': {'share': 0.5}, 'memory_mib': 2000},
            {'vcpus': {'share': 1}, 'memory_mib': 4000}]}))
        self.assertEqual(
            [('up to 3', 3, 300), ('up to 30', 4, 2000),
             ('50% of the CPUs', 2, 2000), ('all CPUs', 4, 4000)],
            [(case.factors['size'], case.tenants[0].size.vcpus,
              case.tenants[0].size.memory_mib) for case in found.cases])

    def test_sizes_that_differ_in_memory_only(self):
        found = self.read(trial(axes={'size': [
            _SIZE, {'vcpus': 1, 'memory_mib': 2048}]}))
        self.assertEqual(['1, 1024 MiB', '1, 2048 MiB'],
                         [case.factors['size'] for case in found.cases])

    @ddt.data(
        ({'vcpus': 1}, 'dedicated', 4), ({'vcpus': 3}, 'dedicated', 1),
        ({'vcpus': 1}, 'shared', 2), ({'vcpus': {'share': 1}}, 'shared', 1))
    @ddt.unpack
    def test_fill(self, size, guest_class, count):
        found = self.read(trial(
            axes={'size': [{**size, 'memory_mib': 64}]},
            scenarios=[{'name': 'full', 'class': guest_class,
                        'count': 'fill'}]))
        self.assertEqual(count, found.cases[0].tenants[0].count)

    @ddt.data(
        ({'count': 3}, [3, 1]),
        # Those of another class have other CPUs.
        ({'count': 2, 'class': 'shared', 'provisioning': ['pinned']}, [2, 4]))
    @ddt.unpack
    def test_fill_beside_others(self, scenario, counts):
        found = self.read(trial(scenarios=[{
            'name': 'full', **scenario,
            'neighbours': {'count': 'fill', 'class': 'dedicated'}}]))
        self.assertEqual(counts, [tenant.count for tenant
                                  in found.cases[0].tenants])
        self.assertEqual('', found.cases[0].skipped)

    @ddt.data(
        ({'size': [{'vcpus': 5, 'memory_mib': 64}]}, {},
         'instances: an instance has 5 vCPUs, and there are 4 dedicated '
         'CPUs'),
        ({}, {'count': 5}, 'needs 1 more dedicated CPUs'),
        ({}, {'count': 4, 'neighbours': {'count': 'fill'}},
         'the others leave fewer dedicated CPUs'),
        ({'size': [{'vcpus': 1, 'memory_mib': 60000}]}, {},
         'needs 60000 MiB of memory, and the host has 58982 MiB'),
        ({'network_cpus': ['other-cache'], 'platform': ['vm'],
          'size': [{'vcpus': 4, 'memory_mib': 64}]},
         {'class': 'shared'}, 'vCPUs, and there are 2 shared CPUs'),
        ({'network_cpus': ['same-cache'], 'platform': ['vm'],
          'size': [{'vcpus': 4, 'memory_mib': 64}]},
         {}, 'there are no CPUs for interrupts in same-cache'))
    @ddt.unpack
    def test_what_does_not_fit(self, axes, scenario, reason):
        found = self.read(trial(axes=axes, scenarios=[
            {'name': 'large', **scenario}]))
        self.assertEqual(1, len(found.cases))
        self.assertIn(reason, found.cases[0].skipped)

    @ddt.data(({}, None), ({'count': 'fill'}, None),
              ({}, 'plan'), ({'oversubscription': 3}, 'plan'))
    @ddt.unpack
    def test_no_cpus_of_a_class(self, scenario, planned):
        """One reason in the same words, whatever number is asked for."""
        bare = dataclasses.replace(bench_fakes.LAYOUT, shared=cpuset.CpuSet(),
                                   planned=planned)
        found = self.read(trial(scenarios=[
            {'name': 'a', 'class': 'shared', **scenario}]), bare)
        self.assertEqual('there are no shared CPUs' + (
            ' in the plan; make one with nova-pinning host plan '
            '--shared-cpus, or leave --plan out' if planned else ''),
            found.cases[0].skipped)

    @ddt.data({}, {'class': 'shared', 'count': 'fill'})
    def test_a_cloud_is_not_this_host(self, scenario):
        found = self.read(trial(
            axes={'platform': ['nova'],
                  'size': [{'vcpus': 50, 'memory_mib': 1 << 20}]},
            scenarios=[{'name': 'large', **scenario}]))
        self.assertEqual('', found.cases[0].skipped)
        self.assertEqual(1, found.cases[0].tenants[0].count)

    def test_what_is_the_same_here(self):
        found = self.read(trial(axes={'threads': [
            1, {'per_vcpu': 1}, {'per_vcpu': 1.5}]}))
        self.assertEqual(
            ['', 'is the same on this host as threads 1', ''],
            [case.skipped for case in found.cases])
        self.assertEqual(
            [1, 1, 2], [case.tenants[0].parameters['threads']
                        for case in found.cases])

    @ddt.data(('layout', bench_fakes.LAYOUT),
              ('all', bench_fakes.LAYOUT.undivided()),
              ('one', bench_fakes.LAYOUT.of_one_cpu()))
    @ddt.unpack
    def test_cpus(self, cpus, expected):
        """A plan says what they are for, whatever the experiment says."""
        document = trial(cpus=cpus)
        self.assertEqual(expected, self.prepared(document).layout)
        planned = dataclasses.replace(bench_fakes.LAYOUT, planned=object())
        self.assertEqual(planned, self.prepared(document, planned).layout)

    def test_workloads_are_those_used(self):
        self.assertEqual({'spin': bench_fakes.WORKLOAD},
                         self.prepared(trial()).workloads)


@ddt.ddt
class TestOptions(TestCase):

    DOCUMENT = trial(
        repetitions=20, rounds=2, seed=7, settle_seconds=4,
        axes={'platform': ['cn', 'vm'], 'threads': [1, 2]},
        scenarios=[{'name': 'host', 'platform': ['bm']}, {'name': 'other'}],
        short={'rounds': 1, 'warm_ups': 0, 'axes': {'threads': [1]}})

    def test_nothing(self):
        found = self.read(self.DOCUMENT)
        self.assertEqual((20, 2, 7, 4.0, 1), (
            found.repetitions, found.rounds, found.seed,
            found.settle_seconds, found.warm_ups))

    def test_short(self):
        found = self.read(self.DOCUMENT, is_short=True)
        self.assertEqual((20, 1, 7, 0), (found.repetitions, found.rounds,
                                         found.seed, found.warm_ups))
        self.assertEqual({'1'}, {case.factors['threads']
                                 for case in found.cases})
        self.assertEqual(3, len(found.cases))

    def test_numbers(self):
        found = self.read(self.DOCUMENT, is_short=True,
                          settings={'seed': 0, 'repetitions': 5})
        self.assertEqual((5, 0), (found.repetitions, found.seed))

    def test_platforms(self):
        found = self.read(self.DOCUMENT,
                          platforms=(bench_model.PlatformName.NOVA,))
        self.assertEqual(
            {('host', 'bm'), ('other', 'nova')},
            {(case.factors['scenario'], case.factors['platform'])
             for case in found.cases})

    def test_platforms_without_the_baseline(self):
        document = trial(axes={'platform': ['bm', 'cn']},
                         baseline={'platform': 'bm'})
        found = self.read(document, platforms=(bench_model.PlatformName.NOVA,))
        self.assertEqual({'platform': 'bm'}, found.baseline)

    def test_platforms_that_cannot_be_chosen(self):
        document = trial(scenarios=[{'name': 'a', 'platform': ['bm']}])
        del document['axes']['platform']
        self.assertIn('--platform: this experiment does not let', self.wrong(
            document, platforms=(bench_model.PlatformName.NOVA,)))


@ddt.ddt
class TestErrors(TestCase):

    @ddt.data(
        ({'axes': {'workload': ['spim']}},
         'axes.workload[0]: there is no workload spim; did you mean spin?'),
        ({'axes': {'place': ['vm']}},
         'axes.place[0]: workload spin has no parameter place'),
        ({'axes': {'platform': ['xen']}}, 'axes.platform[0]: xen is not one'),
        ({'axes': {'threads': ['many']}},
         "axes.threads[0]: 'many' is not a whole number"),
        ({'axes': {'threads': [1, 1]}},
         "there is a case 'spin / cn / 1 / 1' already"),
        ({'axes': {'workload': ['spin', {'name': 'spin'}]}},
         "there is a case 'spin / cn / 1' already; tell them apart by names, "
         'labels or axes'),
        ({'scenarios': [{'name': 'a'}, {'name': 'a'}]},
         "scenarios[1]: there is a case 'a / spin / cn / 1' already"),
        # What is no axis of the experiment tells no cases apart.
        ({'scenarios': [{'name': 'a', 'weight': [1000, 2]}]},
         "scenarios[0]: there is a case 'a / spin / cn / 1' already"),
        ({'scenarios': [{'name': 'a', 'tenants': [
            {'name': 'x'}, {'name': 'x'}]}]},
         'scenarios[0]: several tenants are called x'),
        # Neighbours have a key of their own.
        ({'scenarios': [{'name': 'a', 'tenants': [{'role': 'neighbour'}]}]},
         'scenarios[0].tenants[0].role: role is not known here'),
        ({'scenarios': [{'name': 'a', 'neighbours': {
            'workload': {'name': 'peered', 'parameters': {'thread': 1}}}}]},
         'scenarios[0].neighbours.workload.parameters.thread: workload '
         'peered has no parameter thread; did you mean threads?'),
        ({'baseline': {'platform': 'bm'}},
         "baseline: no case has platform 'bm'"),
        ({'baseline': {'platform': 'cn', 'size': 'x'}},
         "baseline: no case has platform 'cn' and size 'x'"),
        ({'repetitions': 0}, 'repetitions: 0 is not a number of repetitions'),
        ({'table': 'tables'}, 'table: tables is not one of'),
        ({'tabel': 'levels'}, 'tabel is not known here; did you mean table'),
        ({'version': 2}, 'this release reads version 1'),
        ({'axes': {'size': [{'vcpus': 0, 'memory_mib': 64}]}},
         'axes.size[0].vcpus: 0 is not'))
    @ddt.unpack
    def test_documents(self, changes, said):
        found = self.wrong(trial(**changes))
        self.assertIn(said, found)
        self.assertIn('trial.yaml:', found)

    def test_a_baseline_that_no_case_has_as_a_whole(self):
        document = trial(
            axes={'weight': [100, 50]},
            scenarios=[{'name': 'a', 'weight': [100]},
                       {'name': 'b', 'weight': [50]}],
            baseline={'scenario': 'a', 'weight': 50})
        self.assertIn("baseline: no case has scenario 'a' and weight '50'",
                      self.wrong(document))

    def test_short_axes(self):
        document = trial(axes={'threads': [1]},
                         short={'axes': {'thread': [1]}})
        self.read(document)
        self.assertIn('short.axes.thread: thread is not an axis of this '
                      'experiment; did you mean threads?',
                      self.wrong(document, is_short=True))

    def test_missing_axes(self):
        document = trial()
        del document['axes']['size']
        self.assertIn('size is missing; give it here, or as an axis',
                      self.wrong(document))

    def test_names(self):
        error = self.assertRaises(errors.InputError, experiment_file.read,
                                  'smp-mutx', bench_fakes.LAYOUT, {})
        self.assertEqual("there is no experiment 'smp-mutx', and no such "
                         'file; did you mean smp_mutex?',
                         str(error).replace('smp-mutex', 'smp_mutex'))

    def test_too_many(self):
        document = trial(axes={'threads': list(range(1, 100)),
                               'duration': list(range(1, 100))})
        self.assertIn('more than 5000 cases', self.wrong(document))


class NeedsTest(TestCase):

    def test_what_a_scenario_needs(self):
        found = self.read(trial(scenarios=[
            {'name': 'near'}, {'name': 'far', 'needs': 'nodes'}]))
        self.assertEqual(['', 'this host has one NUMA node'],
                         [case.skipped for case in found.cases])


@ddt.ddt
class TestShipped(unit_base.TestCase):

    def _read(self, name, on, **options):
        return experiment_file.read(
            name, on, workload_catalogue.shipped(),
            experiment_file.ExperimentOptions(**options))

    def test_that_of_the_docs(self):
        found = experiment_file.read(
            _PAGE.with_name('bench-nvme.yaml'), bench_fakes.LAYOUT,
            workload_catalogue.shipped()).experiment
        self.assertEqual(6, len(found.cases))
        self.assertFalse(any(case.skipped for case in found.cases))

    @ddt.idata(experiment_file.shipped())
    def test_on_a_large_host(self, name):
        """Nothing is skipped but what is the same."""
        layout = host(80, threads=2, memory_mib=2 << 20)
        found = self._read(name, dataclasses.replace(
            layout, nodes=(layout.shared, layout.dedicated))).experiment
        self.assertEqual(name, found.name)
        # The agent goes by a plan.
        self.assertEqual([], [
            case for case in found.cases if case.skipped
            and case.tenants[0].agent in (
                None, bench_model.AgentScheme.NONE)])

    def test_the_agent_needs_a_plan(self):
        layout = host(80)
        for planned in None, fact_samples.planned():
            found = self._read('network-cache', dataclasses.replace(
                layout, planned=planned)).experiment
            with_agent = [case for case in found.cases
                          if case.factors['agent'] != 'none']
            self.assertEqual(10, len(with_agent))
            self.assertEqual(
                {'' if planned else 'nova-pinning agent goes by the plan of '
                 'the host; give --plan'},
                {case.skipped for case in with_agent})

    @ddt.idata(experiment_file.shipped())
    def test_each_baseline_is_that_of_all_cases(self, name):
        """Each case has one that is like it in all else."""
        found = self._read(name, host(80, threads=2)).experiment
        known = [dict(case.factors) for case in found.cases]
        for case in found.cases:
            # Tools are held against the handover, and not against a baseline.
            if case.factors.get('workload') not in ('sched-pipe', 'ping-pong'):
                self.assertIn({**case.factors, **found.baseline}, known,
                              case.name)

    @unit_base.settings(80)
    @hypothesis.given(
        st.sampled_from(experiment_file.shipped()), st.integers(1, 70),
        st.sampled_from((1, 2)), st.booleans(), st.integers(2, 16),
        st.integers(2048, 1 << 20), st.lists(st.sampled_from(
            list(bench_model.PlatformName)), max_size=1))
    def test_on_any_host(self, name, cores, threads, is_short, per_l3,
                         memory_mib, platforms):
        """Each case has its places, or a reason why it has none."""
        prepared = self._read(
            name, host(cores, threads, memory_mib, per_l3),
            is_short=is_short, platforms=tuple(platforms))
        found = prepared.experiment
        factors = [tuple(case.factors.items()) for case in found.cases]
        self.assertEqual(len(factors), len(set(factors)))
        self.assertEqual(1, len({tuple(case.factors)
                                 for case in found.cases}))
        for case in found.cases:
            if case.skipped:
                continue
            requests = cpu_layout.requests(case, prepared.layout,
                                           prepared.workloads)
            self._check(case, requests)

    def _check(self, case, requests):
        self.assertEqual(sum(tenant.count for tenant in case.tenants),
                         len(requests))
        taken = cpuset.CpuSet()
        for request in requests:
            if (request.instance_cpus is None
                    or request.tenant.provisioning
                    is bench_model.Provisioning.VANILLA):
                continue
            self.assertEqual(request.tenant.size.vcpus,
                             len(request.instance_cpus.cpus))
            self.assertTrue(taken.isdisjoint(request.instance_cpus.cpus),
                            case.name)
            taken |= request.instance_cpus.cpus

    def _kinds(self, layout):
        """Of each scenario its tenants, and the CPUs that they have."""
        found = self._read('enterprise-vs-shared', layout)
        kinds = {}
        for case in found.experiment.cases:
            self.assertEqual('', case.skipped)
            places = cpu_layout.instance_cpus(found.layout, case.tenants)
            kinds[case.factors['scenario']] = [(
                tenant.name, tenant.count, tenant.size.vcpus, str(
                    cpuset.union(one.cpus for one in places[tenant.name])))
                for tenant in case.tenants]
        return kinds

    def test_enterprise_vs_shared_as_the_study_has_it(self):
        """76 of 80 CPUs, over both sockets, for one kind after the other."""
        parse = cpuset.CpuSet.parse
        nodes = parse('0-19,40-59'), parse('20-39,60-79')
        both = '2-39,42-79'
        layout = dataclasses.replace(
            host(80), host=parse('0-1,40-41'), shared=parse('2-39'),
            dedicated=parse('42-79'), nodes=nodes, l3_domains=nodes,
            cores=tuple(cpuset.CpuSet([cpu, cpu + 40]) for cpu in range(40)),
            memory_mib=768 * 1024)
        nine = '2-17,20-39,42-57,60-79'
        self.assertEqual({
            'bare metal': [('host', 1, 8, both)],
            'bare metal, pinned': [('host', 1, 8, '2-5,42-45')],
            'one enterprise, idle host': [('enterprise', 1, 8, '2-5,42-45')],
            'one shared, idle host': [('shared', 1, 8, both)],
            'enterprise alone, 1 vCPU for each CPU':
                [('enterprise', 9, 8, nine)],
            'shared alone, 1 vCPU for each CPU': [('shared', 9, 8, both)],
            'shared alone, 3 vCPUs for each CPU': [('shared', 29, 8, both)],
            'enterprise among bursty ones': [
                ('enterprise', 1, 8, '2-5,42-45'),
                ('neighbours', 8, 8, '6-17,20-39,46-57,60-79')],
            'shared among bursty ones, 1 vCPU for each CPU': [
                ('shared', 1, 8, both), ('neighbours', 8, 8, both)],
            'shared among many bursty ones': [
                ('shared', 1, 8, both), ('neighbours', 29, 8, both)],
        }, self._kinds(layout))

    def test_enterprise_vs_shared_on_two_cpus(self):
        self.assertEqual(
            [('enterprise', 2, 1, '0-1'), ('shared', 2, 1, '0-1'),
             ('shared', 6, 1, '0-1')],
            [tenants[0] for name, tenants in self._kinds(host(2)).items()
             if 'alone' in name])

    def test_neighbours_are_as_dense(self):
        """What floats is one of as many as there are CPUs."""
        for case in self._read('neighbours', host(8)).experiment.cases:
            if not case.skipped and len(case.tenants) > 1:
                victim, others = case.tenants
                self.assertEqual(
                    4 - (victim.provisioning == 'vanilla'), others.count)

    def test_established_tools_beside_the_mutex(self):
        """On the host, where they say whether ours is of their order."""
        found = self._read('smp-mutex', host(2)).experiment
        self.assertEqual(
            [('sched-pipe', 'bm'), ('ping-pong', 'bm')],
            [(tenant.workload, tenant.platform) for case in found.cases
             for tenant in case.tenants
             if not case.skipped and tenant.workload not in (
                 'handover', 'lock', 'sysbench-mutex')])

    def test_latency_has_enough_wakes(self):
        """Ten of them beyond 99.999%, and oslat on CPUs of its own."""
        found = self._read('latency', host(8))
        catalogue = workload_catalogue.shipped()['cyclictest'].parameters
        tenants = [tenant for case in found.experiment.cases
                   for tenant in case.tenants if tenant.role == 'measured']
        self.assertEqual({'cyclictest', 'oslat'},
                         {tenant.workload for tenant in tenants})
        for tenant in tenants:
            if tenant.workload == 'oslat':
                self.assertEqual(bench_model.Provisioning.PINNED,
                                 tenant.provisioning)
                continue
            given = {**catalogue, **tenant.parameters}
            self.assertGreaterEqual(
                given['duration'] * 10 ** 6 / given['interval_us'], 10 ** 6)

    def test_hardware_latency_without_a_tracer(self):
        for reason in ('', 'the kernel has no hwlat tracer'):
            layout = dataclasses.replace(
                host(8), lacks={'hwlat': reason} if reason else {})
            case, = self._read('hardware-latency', layout).experiment.cases
            self.assertEqual(reason, case.skipped)
            self.assertEqual('hwlatdetect', case.tenants[0].workload)

    def test_memory_of_another_node(self):
        found = self._read('memory-placement', host(8)).experiment
        self.assertEqual(
            [('own', ''), ('other', 'this host has one NUMA node')],
            [(case.tenants[0].parameters['memory_node'], case.skipped)
             for case in found.cases])

    @ddt.data((8, 'vm', ['', '']), (8, 'cn', [
        'queues are those of a guest\'s network interface'] * 2),
              # It has one vCPU, and one queue for it.
              (2, 'vm', ['', 'is the same on this host as queues one']))
    @ddt.unpack
    def test_queues(self, cores, platform, skipped):
        found = self._read('network-queues', host(cores), platforms=(
            bench_model.PlatformName(platform),)).experiment
        self.assertEqual(
            [('one', skipped[0]), ('vcpus', skipped[1])],
            [(case.factors['queues'], case.skipped) for case in found.cases
             if case.factors['workload'] == 'iperf3-8'])

    @ddt.data(({'cache-ways': 'no resctrl'}, True, 'vm', 'no resctrl'),
              ({}, False, 'vm', 'the agent goes by the plan'),
              ({}, True, 'cn', 'nova-pinning agent works for guests'),
              ({}, True, 'vm', ''))
    @ddt.unpack
    def test_neighbours_with_cache_ways(self, lacks, has_plan, platform,
                                        reason):
        found = self._read('neighbours', dataclasses.replace(
            host(80), lacks=lacks,
            planned=fact_samples.planned() if has_plan else None),
            platforms=(bench_model.PlatformName(platform),)).experiment
        with_ways = [case for case in found.cases
                     if 'ways' in case.factors['scenario']]
        self.assertEqual(10, len(with_ways))
        for case in with_ways:
            self.assertIn(reason.removeprefix('the '), case.skipped)
            self.assertEqual(bool(reason), bool(case.skipped))

    @ddt.data(('cpu-weights', 'bm', 'have no weights'),
              ('cpu-weights', 'cn', ''),
              ('network-placement', 'cn', 'no interrupts'),
              ('network-placement', 'nova', 'no interrupts'),
              ('network-cache', 'nova', 'agent works for guests'),
              ('network-queues', 'nova', 'cannot reach a peer'),
              ('cpu-weights', 'vm', ''),
              ('cpu-priority', 'cn', ''),
              ('cpu-priority', 'vm', 'some of their own'))
    @ddt.unpack
    def test_what_a_platform_cannot_do_is_skipped(self, name, platform,
                                                  reason):
        found = self._read(name, host(8), platforms=(
            bench_model.PlatformName(platform),)).experiment
        for case in found.cases:
            self.assertIn(reason, case.skipped)
            self.assertEqual(bool(reason), bool(case.skipped))

    def test_cpu_priority_on_four_cpus(self):
        """As it was published: 1, 4 and 6 threads for 4 CPUs."""
        found = self._read('cpu-priority', host(4)).experiment
        self.assertEqual(
            [[('weight-100', 100, threads, 4), ('weight-50', 50, threads, 4)]
             for threads in (1, 4, 6)],
            [[(tenant.name, tenant.weight, tenant.parameters['threads'],
               tenant.size.vcpus) for tenant in case.tenants]
             for case in found.cases])

    def test_the_one_in_the_documentation(self):
        text = _PAGE.read_text().partition('code-block:: yaml')[2]
        lines = itertools.takewhile(
            lambda line: not line or line.startswith('   '),
            text.splitlines()[1:])
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'a'
        path.write_text(textwrap.dedent('\n'.join(lines)))
        found = self._read(path, host(16)).experiment
        self.assertEqual(2 * 2 * 2, len(found.cases))
        self.assertEqual([], [case for case in found.cases if case.skipped])
