# SPDX-License-Identifier: Apache-2.0
"""Reading a cloud for the audit, also while it changes or fails."""

import collections
import dataclasses
import threading

import ddt
import hypothesis
from hypothesis import strategies

from nova_pinning import errors
from nova_pinning.placement import client
from nova_pinning.placement import placement_traits
from nova_pinning.segregation.audit import audit_run
from nova_pinning.segregation.audit import audited
from nova_pinning.tests.unit.segregation import audit_cloud
from nova_pinning.tests.unit import unit_base
from nova_pinning.upgrade import known_hits
from nova_pinning.upgrade import register

DEDICATED, SHARED = audit_cloud.DEDICATED, audit_cloud.SHARED
CLASSES = (DEDICATED, SHARED, None)

HOSTS = tuple(
    audit_cloud.host(f'h{number}', *(
        ()
        if host_class is None else (placement_traits.TRAIT_OF[host_class],)))
    for number, host_class in enumerate(CLASSES))


def codes(audit):
    """How many findings there are of each code."""
    return dict(collections.Counter(
        finding.code for finding in audit.findings))


def small_cloud(**changes):
    """A cloud in which nothing is wrong."""
    return audit_cloud.FakeCloud(**{
        'hosts': [HOSTS[0], HOSTS[1]],
        'servers': [audit_cloud.server('a', 'h0', DEDICATED),
                    audit_cloud.server('b', 'h1', SHARED)],
        'flavors': [audit_cloud.flavor('d', audit_cloud.DEDICATED_SPECS),
                    audit_cloud.flavor('s', audit_cloud.SHARED_SPECS)],
        **changes})


def audit(cloud, **settings):
    return audit_run.run_audit(cloud, audited.AuditSettings(**settings))


class TestAudit(unit_base.TestCase):

    def test_nothing_is_wrong(self):
        found = audit_run.run_audit(small_cloud())
        self.assertEqual(audit_run.Audit(
            findings=(), hosts={DEDICATED: 1, SHARED: 1},
            servers={(DEDICATED, DEDICATED): 1, (SHARED, SHARED): 1},
            flavors=2, aggregates=0, bare_metal=0), found)

    def test_an_empty_cloud(self):
        self.assertEqual((),
                         audit_run.run_audit(audit_cloud.FakeCloud()).findings)

    def test_no_second_look_without_need(self):
        cloud = small_cloud()
        audit(cloud)
        self.assertEqual(1, cloud.count('hosts'))
        self.assertEqual(0, cloud.count('topology'))

    def test_second_look_is_at_what_was_found(self):
        cloud = small_cloud()
        cloud.all_servers.append(audit_cloud.server('x', 'h0', SHARED))
        cloud.offers['rp-h1'] = audit_cloud.inventories(PCPU=1, VCPU=1)
        cloud.all_hosts.append(HOSTS[2])
        cloud.offers['rp-h2'] = audit_cloud.inventories(VCPU=8)
        self.assertEqual({'S101': 1, 'S302': 1, 'S503': 1},
                         codes(audit(cloud)))
        self.assertEqual(
            {('servers', 'h0'): 2, ('servers', 'h1'): 1, ('servers', 'h2'): 1,
             ('inventories', 'rp-h0'): 2, ('inventories', 'rp-h1'): 2,
             ('inventories', 'rp-h2'): 1},
            {call: count for call, count
             in collections.Counter(cloud.calls).items() if call[1]})

    @unit_base.settings(200)
    @hypothesis.given(strategies.lists(strategies.tuples(
        strategies.sampled_from(HOSTS),
        strategies.sampled_from(CLASSES),
        strategies.booleans(), strategies.booleans()), max_size=8))
    def test_servers(self, drawn):
        # Every host has PCPU, so what is not certain matters everywhere.
        cloud = audit_cloud.FakeCloud(HOSTS)
        for one in HOSTS:
            cloud.offers[one.provider] = audit_cloud.inventories(PCPU=1,
                                                                 VCPU=1)
        wrong = set()
        for number, (host, known, is_certain, is_pinned) in enumerate(drawn):
            own = known
            if known is SHARED and not is_certain and is_pinned:
                own = DEDICATED
                cloud.pinned.add(f'id-{number}')
            cloud.all_servers.append(audit_cloud.server(
                str(number), host.name, known, is_certain=is_certain))
            host_class = CLASSES[HOSTS.index(host)]
            if own and host_class and own is not host_class:
                wrong.add(('S101' if own is SHARED else 'S102',
                           f'id-{number}', host.name))
            elif known is None and is_certain:
                wrong.add(('S103', f'id-{number}', host.name))

        found = audit(cloud)

        self.assertEqual(
            wrong, {(finding.code, finding.id, finding.host)
                    for finding in found.findings
                    if finding.code < 'S2'})
        self.assertEqual(len(drawn), sum(found.servers.values()))

    def test_classes_are_settled_only_where_it_matters(self):
        cloud = small_cloud(servers=[
            audit_cloud.server('a', 'h0', DEDICATED, is_certain=False),
            audit_cloud.server('b', 'h1', SHARED, is_certain=False),
            audit_cloud.server('c', 'h0', SHARED)])
        self.assertEqual({'S101': 1}, codes(audit(cloud)))
        self.assertEqual(0, cloud.count('topology'))

    def test_what_keeps_a_server(self):
        """A pinned server that this nova does not live-migrate."""
        for release, status, expected in (
                ('2026.1', 'ACTIVE', True), ('2025.1', 'ACTIVE', False),
                ('2026.1', 'SHUTOFF', False), (None, 'ACTIVE', False)):
            cloud = small_cloud()
            cloud.all_servers += [audit_cloud.server(
                'y', 'h1', DEDICATED, status=status)]
            defects = register.shipped()
            found, = audit(cloud, known=known_hits.KnownDefects(
                defects.of_release(release) if release else None)).findings
            self.assertEqual(expected, 'bug 2152697' in found.message)

    def test_what_keeps_a_shared_server(self):
        """One that floats over NUMA cells, as one with huge pages does."""
        for has_cells in (True, False):
            cloud = small_cloud()
            cloud.all_servers += [audit_cloud.server(
                'x', 'h0', SHARED, has_cells=has_cells)]
            found, = audit(cloud, known=known_hits.KnownDefects(
                register.shipped().of_release('2026.1'))).findings
            self.assertEqual(has_cells, 'bug 2152697' in found.message)

    def test_some_hosts(self):
        cloud = small_cloud(flavors=[audit_cloud.flavor('bare')])
        cloud.all_servers += [audit_cloud.server('x', 'h0', SHARED),
                              audit_cloud.server('y', 'h1', DEDICATED)]
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
            audit_cloud.server(name, 'h0', SHARED) for name in 'cab'])
        cloud.all_hosts[1] = dataclasses.replace(
            cloud.all_hosts[1], traits=frozenset())
        cloud.all_flavors = [audit_cloud.flavor('f')]
        self.assertEqual([('S302', 'h1'), ('S202', 'f'), ('S101', 'a'),
                          ('S101', 'b'), ('S101', 'c')],
                         [(finding.code, finding.name)
                          for finding in audit(cloud).findings])

    def test_progress(self):
        told = []

        def progress(seen, total):
            count = 0
            for one in seen:
                yield one
                count += 1
            told.append((count, total))

        cloud = small_cloud(servers=[audit_cloud.server('x', 'h0', SHARED)])
        audit_run.run_audit(cloud, progress=progress)
        self.assertEqual([(2, 2), (1, 1)], told)

    def test_files_of_unknown_hosts(self):
        self.assertEqual(('x', 'y'), audit(
            small_cloud(),
            descriptions=dict.fromkeys(('y', 'x', 'h0'))).unmatched)


@ddt.ddt
class TestChanges(unit_base.TestCase):
    """What changes while it is read gives no false alarm."""

    def test_a_server_that_moves(self):
        cloud = small_cloud(servers=[audit_cloud.server('x', 'h0', SHARED)])

        def hook(method, argument, count):
            if (method, count) == ('hosts', 2):
                cloud.all_servers[0] = audit_cloud.server('x', 'h1', SHARED)

        cloud.hook = hook
        self.assertEqual((), audit(cloud).findings)

    @ddt.data('servers', 'inventories', 'flavors', 'hosts')
    def test_what_is_gone(self, kind):
        cloud = small_cloud(
            servers=[audit_cloud.server('x', 'h0', SHARED, is_certain=False)],
            flavors=[audit_cloud.flavor('bare')])
        cloud.offers['rp-h0'] = audit_cloud.inventories()

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
        cloud = small_cloud(servers=[audit_cloud.server('x', 'h0', SHARED)])

        def hook(method, argument, count):
            if (method, count) == ('hosts', 2):
                cloud.all_servers.append(audit_cloud.server('y', 'h0', SHARED))

        cloud.hook = hook
        self.assertEqual(['x'],
                         [finding.name for finding in audit(cloud).findings])


@ddt.ddt
class TestFailures(unit_base.TestCase):

    @ddt.data('hosts', 'aggregates', 'flavors', 'members', 'servers',
              'inventories', 'topology')
    def test_errors_of_the_cloud(self, method):
        cloud = small_cloud(
            servers=[audit_cloud.server('x', 'h0', SHARED, is_certain=False)],
            aggregates=[audit_cloud.isolating('a', DEDICATED, 'h0')])

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
        hosts = [audit_cloud.host(f'h{number}', placement_traits.SHARED)
                 for number in range(300)]
        cloud = audit_cloud.FakeCloud(hosts)

        def hook(method, argument, count):
            if argument == 'h0':
                raise errors.CloudError('down')

        cloud.hook = hook
        self.assertRaises(errors.CloudError, audit, cloud, jobs=2)
        self.assertLess(cloud.count('servers'), 20)


class TestLargeCloud(unit_base.TestCase):

    def test_jobs(self):
        hosts = [audit_cloud.host(f'h{number}', placement_traits.SHARED)
                 for number in range(12)]
        cloud = audit_cloud.FakeCloud(hosts)
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
        hosts = [audit_cloud.host(f'h{number}', placement_traits.SHARED)
                 for number in range(100)]
        cloud = audit_cloud.FakeCloud(hosts)
        ahead = []

        def progress(seen, total):
            for done, one in enumerate(seen):
                ahead.append(cloud.count('servers') - done)
                yield one

        audit_run.run_audit(cloud, audited.AuditSettings(jobs=2), progress)
        self.assertEqual(100, len(ahead))
        self.assertLessEqual(max(ahead), 2 * audit_run._AHEAD)

    def test_servers_are_not_kept(self):
        alive, most = set(), []

        def servers(host=''):
            for number in range(2000):
                one = audit_cloud.server(str(number), host, SHARED)
                alive.add(number)
                most.append(len(alive))
                yield one
                alive.discard(number)

        cloud = audit_cloud.FakeCloud(
            [audit_cloud.host('h', placement_traits.SHARED)])
        cloud.servers = servers
        found = audit(cloud)
        self.assertEqual({(SHARED, SHARED): 2000}, found.servers)
        self.assertEqual(1, max(most))


class TestRules(unit_base.TestCase):

    def test_a_ratio_below_one_hurts_pcpu_only(self):
        cloud = small_cloud()
        less = client.ProviderInventory(8, 0, 0.5)
        cloud.offers['rp-h0'] = audit_cloud.inventories(PCPU=less,
                                                        MEMORY_MB=less)
        self.assertEqual({'S505': 1}, codes(audit(cloud)))


class TestReport(unit_base.TestCase):

    def made(self):
        return audit_run.make_report(audit_run.Audit(
            findings=(), hosts={DEDICATED: 2, None: 1},
            servers={(DEDICATED, DEDICATED): 1, (DEDICATED, SHARED): 1234},
            flavors=1, aggregates=0, bare_metal=2, unmatched=('y',)), 'north')

    def test_head(self):
        report = self.made()
        self.assertEqual({
            'cloud': 'north', 'flavors': 1, 'aggregates': 0, 'bare_metal': 2,
            'hosts': {'none': 1, 'dedicated': 2}, 'unmatched': ['y'],
            'servers': [
                {'host_class': 'dedicated', 'server_class': 'dedicated',
                 'count': 1},
                {'host_class': 'dedicated', 'server_class': 'shared',
                 'count': 1234}]}, report.head)
        self.assertEqual('nothing found in 2 bare metal nodes, 3 hosts, 1,235 '
                         'servers, 1 flavor, 0 aggregates', report.totals)

    def test_figures(self):
        hosts, servers = self.made().figures
        self.assertEqual({('dedicated',): 2, ('shared',): 0, ('none',): 1},
                         hosts.values)
        self.assertEqual(1234, servers.values['dedicated', 'shared'])
        self.assertEqual(0, servers.values['shared', 'shared'])
        self.assertEqual(9, len(servers.values))

    def test_what_a_finding_is_about(self):
        for subject, expected in (
                (audit_cloud.server('a', 'h', SHARED),
                 ('server a id-a', 'server', 'id-a', 'a', 'h')),
                (audit_cloud.host('h'), ('host h', 'host', 'rp-h', 'h', 'h'))):
            one = audited.violation(subject, 'x')
            self.assertEqual(expected, (
                one.subject, one.kind, one.id, one.name, one.host))
