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

"""Reading a cloud for the audit, also while it changes or fails."""

import collections
import dataclasses
import itertools
import threading

import ddt
import hypothesis
from hypothesis import strategies

from nova_pinning import errors
from nova_pinning.placement import client
from nova_pinning.placement import traits
from nova_pinning.segregation.audit import run
from nova_pinning.segregation import finding
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.segregation import auditcloud as fake

DEDICATED, SHARED = fake.DEDICATED, fake.SHARED
CLASSES = (DEDICATED, SHARED, None)

HOSTS = tuple(
    fake.host(f'h{number}', *(
        () if host_class is None else (traits.TRAIT_OF[host_class],)))
    for number, host_class in enumerate(CLASSES))


def codes(audit):
    """How many findings there are of each code."""
    return dict(collections.Counter(one.code for one in audit.findings))


def small_cloud(**changes):
    """A cloud in which nothing is wrong."""
    return fake.FakeCloud(**{
        'hosts': [HOSTS[0], HOSTS[1]],
        'servers': [fake.server('a', 'h0', DEDICATED),
                    fake.server('b', 'h1', SHARED)],
        'flavors': [fake.flavor('d', fake.DEDICATED_SPECS),
                    fake.flavor('s', fake.SHARED_SPECS)],
        **changes})


def audit(cloud, **settings):
    return run.audit(cloud, run.Settings(**settings))


class TestAudit(base.TestCase):

    def test_nothing_is_wrong(self):
        found = run.audit(small_cloud(), clock=iter([100.0, 103.5]).__next__)
        self.assertEqual(run.Audit(
            findings=(), hosts={DEDICATED: 1, SHARED: 1},
            servers={(DEDICATED, DEDICATED): 1, (SHARED, SHARED): 1},
            flavors=2, aggregates=0, started=100.0, duration_s=3.5), found)

    def test_an_empty_cloud(self):
        self.assertEqual((), run.audit(fake.FakeCloud()).findings)

    def test_no_second_look_without_need(self):
        cloud = small_cloud()
        audit(cloud)
        self.assertEqual(1, cloud.count('hosts'))
        self.assertEqual(0, cloud.count('has_pinned_cpus'))

    def test_second_look_is_at_what_was_found(self):
        cloud = small_cloud()
        cloud.all_servers.append(fake.server('x', 'h0', SHARED))
        cloud.offers['rp-h1'] = fake.inventories(PCPU=1, VCPU=1)
        cloud.all_hosts.append(HOSTS[2])
        cloud.offers['rp-h2'] = fake.inventories(VCPU=8)
        self.assertEqual({'S101': 1, 'S302': 1, 'S503': 1},
                         codes(audit(cloud)))
        self.assertEqual(
            {('servers', 'h0'): 2, ('servers', 'h1'): 1, ('servers', 'h2'): 1,
             ('inventories', 'rp-h0'): 2, ('inventories', 'rp-h1'): 2,
             ('inventories', 'rp-h2'): 1},
            {call: count for call, count
             in collections.Counter(cloud.calls).items() if call[1]})

    @base.settings(200)
    @hypothesis.given(strategies.lists(strategies.tuples(
        strategies.sampled_from(HOSTS),
        strategies.sampled_from(CLASSES),
        strategies.booleans(), strategies.booleans()), max_size=8))
    def test_servers(self, drawn):
        # Every host has PCPU, so what is not certain matters everywhere.
        cloud = fake.FakeCloud(HOSTS)
        for one in HOSTS:
            cloud.offers[one.provider] = fake.inventories(PCPU=1, VCPU=1)
        wrong = set()
        for number, (host, known, is_certain, is_pinned) in enumerate(drawn):
            own = known
            if known is SHARED and not is_certain and is_pinned:
                own = DEDICATED
                cloud.pinned.add(f'id-{number}')
            cloud.all_servers.append(fake.server(
                str(number), host.name, known, is_certain=is_certain))
            host_class = CLASSES[HOSTS.index(host)]
            if own and host_class and own is not host_class:
                wrong.add(('S101' if own is SHARED else 'S102',
                           f'id-{number}', host.name))
            elif known is None and is_certain:
                wrong.add(('S103', f'id-{number}', host.name))

        found = audit(cloud)

        self.assertEqual(wrong, {
            one.key for one in found.findings if one.code < 'S2'})
        self.assertEqual(len(drawn), sum(found.servers.values()))

    def test_classes_are_settled_only_where_it_matters(self):
        cloud = small_cloud(servers=[
            fake.server('a', 'h0', DEDICATED, is_certain=False),
            fake.server('b', 'h1', SHARED, is_certain=False),
            fake.server('c', 'h0', SHARED)])
        self.assertEqual({'S101': 1}, codes(audit(cloud)))
        self.assertEqual(0, cloud.count('has_pinned_cpus'))

    def test_some_hosts(self):
        cloud = small_cloud(flavors=[fake.flavor('bare')])
        cloud.all_servers += [fake.server('x', 'h0', SHARED),
                              fake.server('y', 'h1', DEDICATED)]
        found = audit(cloud, hosts=frozenset({'h1'}))
        self.assertEqual({'S102': 1}, codes(found))
        self.assertEqual({SHARED: 1}, found.hosts)
        self.assertEqual(2, sum(found.servers.values()))
        self.assertNotIn(('servers', 'h0'), cloud.calls)

        error = self.assertRaises(
            errors.InputErrors, audit, cloud, hosts=frozenset({'x', 'h1'}))
        self.assertIn('no host x', str(error))

    def test_order(self):
        cloud = small_cloud(servers=[
            fake.server(name, 'h0', SHARED) for name in 'cab'])
        cloud.all_hosts[1] = dataclasses.replace(
            cloud.all_hosts[1], traits=frozenset())
        cloud.all_flavors = [fake.flavor('f')]
        self.assertEqual(
            [('S302', 'h1'), ('S202', 'f'), ('S101', 'a'), ('S101', 'b'),
             ('S101', 'c')],
            [(one.code, one.name) for one in audit(cloud).findings])

    def test_progress(self):
        told = []

        def progress(seen, total):
            count = 0
            for one in seen:
                yield one
                count += 1
            told.append((count, total))

        cloud = small_cloud(servers=[fake.server('x', 'h0', SHARED)])
        run.audit(cloud, progress=progress)
        self.assertEqual([(2, 2), (1, 1)], told)

    def test_files_of_unknown_hosts(self):
        self.assertEqual(('x', 'y'), audit(
            small_cloud(), descriptions={'y': None},
            configs={'x': (), 'h0': ()}).unmatched)


@ddt.ddt
class TestChanges(base.TestCase):
    """What changes while it is read gives no false alarm."""

    def test_a_server_that_moves(self):
        cloud = small_cloud(servers=[fake.server('x', 'h0', SHARED)])

        def hook(method, argument, count):
            if (method, count) == ('hosts', 2):
                cloud.all_servers[0] = fake.server('x', 'h1', SHARED)

        cloud.hook = hook
        self.assertEqual((), audit(cloud).findings)

    @ddt.data('servers', 'inventories', 'flavors', 'hosts')
    def test_what_is_gone(self, kind):
        cloud = small_cloud(
            servers=[fake.server('x', 'h0', SHARED, is_certain=False)],
            flavors=[fake.flavor('bare')])
        cloud.offers['rp-h0'] = fake.inventories()

        def hook(method, argument, count):
            if (method, count) == ('aggregates', 2):
                getattr(cloud, {
                    'servers': 'all_servers', 'inventories': 'offers',
                    'flavors': 'all_flavors', 'hosts': 'all_hosts',
                }[kind]).clear()

        cloud.hook = hook
        left = {'S101': 1, 'S202': 1, 'S501': 1}
        for code in {'servers': ['S101'], 'inventories': [],
                     'flavors': ['S202'], 'hosts': ['S101', 'S501']}[kind]:
            del left[code]
        self.assertEqual(left, codes(audit(cloud)))

    def test_what_is_new_is_left_for_the_next_audit(self):
        cloud = small_cloud(servers=[fake.server('x', 'h0', SHARED)])

        def hook(method, argument, count):
            if (method, count) == ('hosts', 2):
                cloud.all_servers.append(fake.server('y', 'h0', SHARED))

        cloud.hook = hook
        self.assertEqual(['x'], [one.name for one in audit(cloud).findings])


@ddt.ddt
class TestFailures(base.TestCase):

    @ddt.data('hosts', 'aggregates', 'flavors', 'members', 'servers',
              'inventories', 'has_pinned_cpus')
    def test_errors_of_the_cloud(self, method):
        cloud = small_cloud(
            servers=[fake.server('x', 'h0', SHARED, is_certain=False)],
            aggregates=[fake.isolating('a', DEDICATED, 'h0')])

        def hook(name, argument, count):
            if name == method:
                raise errors.CloudError('down')

        cloud.hook = hook
        error = self.assertRaises(errors.CloudError, audit, cloud)
        self.assertEqual('down', str(error))

    @ddt.data(1, 3)
    def test_no_thread_is_left(self, jobs):
        before = threading.active_count()
        cloud = small_cloud()
        audit(cloud, jobs=jobs)
        cloud.hook = lambda *args: (_ for _ in ()).throw(KeyboardInterrupt)
        self.assertRaises(KeyboardInterrupt, audit, cloud, jobs=jobs)
        self.assertEqual(before, threading.active_count())

    def test_an_error_stops_the_reading(self):
        hosts = [fake.host(f'h{number}', traits.SHARED)
                 for number in range(300)]
        cloud = fake.FakeCloud(hosts)

        def hook(method, argument, count):
            if argument == 'h0':
                raise errors.CloudError('down')

        cloud.hook = hook
        self.assertRaises(errors.CloudError, audit, cloud, jobs=2)
        self.assertLess(cloud.count('servers'), 20)


class TestLargeCloud(base.TestCase):

    def test_jobs(self):
        hosts = [fake.host(f'h{number}', traits.SHARED)
                 for number in range(12)]
        cloud = fake.FakeCloud(hosts)
        together = threading.Barrier(3, timeout=30)
        busy, most = [], []

        def hook(method, argument, count):
            if method == 'servers':
                busy.append(argument)
                most.append(len(busy))
                together.wait()
                busy.remove(argument)

        cloud.hook = hook
        audit(cloud, jobs=3)
        self.assertEqual(3, max(most))

    def test_reading_ahead_has_a_limit(self):
        hosts = [fake.host(f'h{number}', traits.SHARED)
                 for number in range(100)]
        cloud = fake.FakeCloud(hosts)
        ahead = []

        def progress(seen, total):
            for done, one in enumerate(seen):
                ahead.append(cloud.count('servers') - done)
                yield one

        run.audit(cloud, run.Settings(jobs=2), progress)
        self.assertEqual(100, len(ahead))
        self.assertLessEqual(max(ahead), 2 * run._AHEAD)

    def test_servers_are_not_kept(self):
        alive, most = set(), []

        def servers(host=''):
            for number in range(2000):
                one = fake.server(str(number), host, SHARED)
                alive.add(number)
                most.append(len(alive))
                yield one
                alive.discard(number)

        cloud = fake.FakeCloud([fake.host('h', traits.SHARED)])
        cloud.servers = servers
        found = audit(cloud)
        self.assertEqual({(SHARED, SHARED): 2000}, found.servers)
        self.assertEqual(1, max(most))


class TestRules(base.TestCase):

    def test_codes(self):
        self.assertEqual(sorted(run.RULES), list(run.RULES))
        for code, one in run.RULES.items():
            self.assertRegex(code, '^S[1-6][0-9]{2}$')
            self.assertEqual(code, one.code)
            self.assertIn(one.severity, finding.Severity)
            for text in (one.title, one.why, one.advice):
                self.assertRegex(text, r'^\S(.*\S)?$')
                self.assertNotIn(text[-1], '.?')

    def test_no_code_twice(self):
        rules = [*itertools.chain(*(module.RULES for module in (
            run.servers, run.flavors, run.hosts, run.aggregates,
            run.inventories, run.configs)))]
        self.assertEqual(len(rules), len(run.RULES))

    def test_a_ratio_below_one_hurts_pcpu_only(self):
        cloud = small_cloud()
        less = client.Inventory(8, 0, 0.5)
        cloud.offers['rp-h0'] = fake.inventories(PCPU=less, MEMORY_MB=less)
        self.assertEqual({'S505': 1}, codes(audit(cloud)))
