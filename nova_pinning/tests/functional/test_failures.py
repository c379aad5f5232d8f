# SPDX-License-Identifier: Apache-2.0


"""Each row of the table "When something fails" in the admin guide.

A test decorated with ``shows`` brings about what its row is about, and sees
what becomes of requests. What the row quotes of the log has to be logged
meanwhile. Another test sees to it that each row has its test.

All of them start nova's real services. Only how a thing breaks is at times
make-believe: a function that is patched to raise, or to answer as another
release of nova would. Options that are read from a file are given to nova's
own classes within this process, since a nova-scheduler of its own would need
databases on disk.
"""

import collections
import contextlib
import functools
import logging
import pathlib
import re
import sys
from unittest import mock

import fixtures
from oslotest import base as oslotest

from demo import threads  # noqa: F401 isort: skip

from nova.compute import claims as nova_claims
import nova.conf
from nova import context as nova_context
from nova.db.main import api
from nova import objects
from nova.scheduler import manager
from nova import service
from nova.virt import hardware

from demo import cloud
from demo import hosts
import nova_pinning
from nova_pinning.model import nova_release
from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import errorlog
from nova_pinning.scheduler import fitting
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import requests
from nova_pinning.scheduler import selftest
from nova_pinning.scheduler import traits_reader
from nova_pinning.scheduler import weights
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import operated_cloud
from nova_pinning.tests.functional import test_nova_numa_fit
from nova_pinning.tests.functional import test_nova_numa_fit_again
from nova_pinning.tests.functional import test_traits_source
from nova_pinning.tests.unit import unit_base

CONF = nova.conf.CONF
GIB = functional_base.GIB
CHECKOUT = pathlib.Path(nova_pinning.__file__).resolve().parent.parent
PAGE = CHECKOUT / 'doc' / 'source' / 'admin' / 'failures.rst'

#: The rows that tests of this module show.
_SHOWN = collections.Counter()


def quoted():
    """What the table quotes of the log.

    :returns: by row, a list of (level, message); ``...`` in a message stands
        for anything
    """
    found = {}
    for text in PAGE.read_text().split('\n   * - .. _failure-')[1:]:
        name, _colon, row = text.partition(':')
        found[name] = [
            (level, ' '.join(message.split())) for level, message in
            re.findall(r'``(CRITICAL|ERROR|WARNING|INFO)\s+([^`]+)``', row)]
    return found


def shows(row):
    """A test of one row of the table."""
    _SHOWN[row] += 1

    def decorate(test):
        @functools.wraps(test)
        def run(self):
            with contextlib.ExitStack() as stack:
                self.said = stack.enter_context(
                    unit_base.log_records(level=logging.INFO))
                self.said_by_nova = stack.enter_context(
                    unit_base.log_records('nova', logging.INFO))
                test(self)
            self.assert_quoted(row)
        return run

    return decorate


class TestTable(oslotest.BaseTestCase):

    def test_each_row_has_its_test(self):
        rows = quoted()
        self.assertGreater(len(rows), 20)
        self.assertEqual(sorted(rows), sorted(_SHOWN.elements()))

    def test_each_row_quotes_the_log(self):
        for row, lines in quoted().items():
            self.assertTrue(lines, row)


class _Case(oslotest.BaseTestCase):
    """A test that starts its cloud itself.

    :ivar said: what our code has logged
    :ivar said_by_nova: what nova has
    """

    #: PinnedTopologyFilter by itself lets all hosts have guests of both
    #: classes.
    FILTERS = ('PinnedTopologyFilter',)
    SPECS = {'hw:cpu_policy': 'dedicated'}

    def setUp(self):
        super().setUp()
        self._count = 0
        # What is logged once in a process is to be logged in each test.
        self.enterContext(mock.patch.object(
            requests, '_ERRORS', errorlog.ErrorLog()))
        selftest.at_start_up.cache_clear()
        self.addCleanup(selftest.at_start_up.cache_clear)

    def assert_quoted(self, row):
        """All that the table quotes in a row has been logged."""
        said = [(record.levelname, ' '.join(record.getMessage().split()))
                for record in (*self.said, *self.said_by_nova)]
        for level, message in quoted()[row]:
            pattern = '.*'.join(map(re.escape, message.split('...')))
            # Nova hands hosts that are alike to filters in any order.
            pattern = re.sub(r'compute\\-\d', r'compute-\\d', pattern)
            self.assertTrue(
                any(level == its_level and re.fullmatch(pattern, its_message)
                    for its_level, its_message in said),
                f'{level} {message}\nwas not logged, but:\n' + '\n'.join(
                    map(' '.join, said)))

    def start(self, **shapes):
        """Start a cloud with these hosts; a dash in a name is left out."""
        self.nova = self.useFixture(operated_cloud.Cloud(filters=self.FILTERS))
        for name, shape in shapes.items():
            self.nova.start_host(name.replace('_', '-'), shape)

    def configure(self, **options):
        self.nova.stage.flags(**options, group='pinning')

    def boot(self, specs, vcpus=2, memory_mib=2 * GIB, host=None):
        """Boot a server; on this host, if that will do."""
        self._count += 1
        flavor = self.nova.create_flavor(
            f'flavor-{self._count}', vcpus, memory_mib, specs)
        return self.nova.boot(f'server-{self._count}', flavor, host)

    def boot_dedicated(self, **values):
        return self.boot(self.SPECS, **values)

    def boot_shared(self, **values):
        """A server whose vCPUs float, but which has a topology."""
        return self.boot({'hw:numa_nodes': '1'}, **values)

    def assert_goes(self, server, host):
        self.assertEqual(
            ('ACTIVE', host), (server.status, server.host), server)

    def assert_refused(self, server, fault='No valid host was found'):
        self.assertEqual(('ERROR', None), (server.status, server.host), server)
        self.assertIn(fault, server.fault)


def _host(memory_gib=64, **values):
    """A host for guests of either class."""
    return hosts.HostShape(**{
        'cores_per_cell': 8, 'threads': 1, 'memory_mib': memory_gib * GIB,
        'dedicated': '0-3', 'shared': '4-7', **values})


def _fails_for(host, function):
    """A function of a HostState that raises for that of one host."""
    @functools.wraps(function)
    def fails(*args, **kwargs):
        for one in args:
            if getattr(one, 'host', None) == host:
                raise RuntimeError('oops')
        return function(*args, **kwargs)
    return fails


class TestErrors(_Case):

    def _boot_all(self):
        """Boot a server of each class on the host in question."""
        return [boot(host='compute-1').status for boot in
                (self.boot_dedicated, self.boot_shared)]

    @shows('filter-error')
    def test_filter(self):
        self.start(compute_1=_host(), compute_2=_host(32))
        self.enterContext(
            mock.patch.object(fitting, 'fit_on_host',
                              _fails_for('compute-1', fitting.fit_on_host)))
        self.assertEqual(['ERROR', 'ACTIVE'], self._boot_all())
        self.assert_goes(self.boot_dedicated(), 'compute-2')
        self.configure(on_error='refuse')
        self.assertEqual(['ERROR', 'ERROR'], self._boot_all())
        self.configure(on_error='pass')
        self.assertEqual(['ACTIVE', 'ACTIVE'], self._boot_all())

    @shows('weigher-error')
    def test_weigher(self):
        # The first would be best, since the guest fills it.
        self.start(compute_1=_host(dedicated='0,1'), compute_2=_host(),
                   compute_3=_host(dedicated='0-7', shared=None))
        # To nova a host that is late to report is still building a server.
        self.nova.stage.flags(
            cpu_weight_multiplier=0.0, ram_weight_multiplier=0.0,
            io_ops_weight_multiplier=0.0, group='filter_scheduler')
        kind = weights.FragmentationWeigher
        with mock.patch.object(
                kind, 'weight', _fails_for('compute-1', kind.weight)):
            for _server in range(2):
                self.assert_goes(self.boot_dedicated(), 'compute-2')
        self.assert_goes(self.boot_dedicated(), 'compute-1')


class _TraitsCase(_Case):
    """With a Placement that can be out of order."""

    FILTERS = cloud.PINNING_FILTERS

    def start(self, **shapes):
        super().start(**shapes)
        self.door = self.useFixture(test_traits_source.Door(self.nova.stage))

    def use_clock(self):
        """A reader whose time passes, and which reads, as a test says."""
        clock = test_traits_source.Clock()
        traits_reader.use(traits_reader.TraitsReader(
            traits_reader.connect, traits_reader.TraitsSettings(60, 3600, 0),
            clock))
        self.assertTrue(traits_reader.refresh())
        return clock

    def mark(self, host, *names):
        self.nova.change_traits(host, add=names)


class TestTraits(_TraitsCase):

    @shows('traits-at-start')
    def test_at_start(self):
        # The second host does not show what it is for.
        self.start(compute_1=_host(), compute_2=_host(
            dedicated=None, shared=None))
        self.door.status = 500
        self.assert_goes(self.boot_dedicated(), 'compute-1')
        self.assert_refused(self.boot_dedicated(host='compute-2'))
        self.assert_goes(self.boot({}), 'compute-2')
        self.nova.create_aggregate(
            'named', ['compute-2'], {'pinning:class': 'dedicated'})
        self.assert_goes(self.boot_dedicated(host='compute-2'), 'compute-2')
        self.door.status = None
        self.assertTrue(traits_reader.refresh())

    @shows('traits-later')
    def test_later(self):
        self.start(compute_1=_host(), compute_2=_host())
        self.mark('compute-1', placement_traits.DEDICATED)
        self.mark('compute-2', placement_traits.SHARED)
        clock = self.use_clock()
        self.door.status = 500
        clock.now += 3600
        self.assertFalse(traits_reader.refresh())
        self.assert_goes(self.boot_dedicated(), 'compute-1')
        clock.now += 1
        self.assertFalse(traits_reader.refresh())
        self.assert_refused(self.boot_dedicated())
        self.assert_goes(self.boot({}), 'compute-2')
        self.door.status = None
        self.assertTrue(traits_reader.refresh())
        self.assert_goes(self.boot_dedicated(), 'compute-1')

    @shows('traits-unused')
    def test_unused(self):
        """No host has any: what tells their classes cannot get too old."""
        self.start(compute_1=_host())
        clock = self.use_clock()
        self.door.status = 500
        clock.now += 100_000
        self.assertFalse(traits_reader.refresh())
        self.assert_goes(self.boot_dedicated(), 'compute-1')
        self.assert_refused(self.boot({}))

    @shows('class-disagrees')
    def test_aggregates_disagree(self):
        self.start(compute_1=_host())
        self.mark('compute-1', placement_traits.DEDICATED)
        self.nova.create_aggregate(
            'named', ['compute-1'], {'pinning:class': 'shared'})
        self.assert_refused(self.boot_dedicated())
        self.assert_refused(self.boot({}))

    @shows('class-nonsense')
    def test_nonsense(self):
        self.start(compute_1=_host(), compute_2=_host())
        self.nova.create_aggregate(
            'named', ['compute-1'], {'pinning:class': 'gold'})
        self.assert_refused(self.boot_dedicated(host='compute-1'))
        self.assert_goes(self.boot_dedicated(), 'compute-2')
        # nova-api refuses it if nova-pinning is installed there.
        name = self.nova.create_flavor('gold', 2, 2 * GIB, self.SPECS)
        flavor = objects.Flavor.get_by_flavor_id(
            nova_context.get_admin_context(), name)
        flavor.extra_specs = {**flavor.extra_specs, 'pinning:class': 'gold'}
        flavor.save()
        self.assert_refused(self.nova.boot('gold', name))


class TestTopologies(_Case):

    def _spoil(self, host, old, new):
        """Change what nova's database has of a host's topology."""
        node = objects.ComputeNode.get_by_nodename(
            nova_context.get_admin_context(), host)
        self.assertIn(old, node.numa_topology)
        node.numa_topology = node.numa_topology.replace(old, new)
        node.save()

    @shows('host-json')
    def test_json(self):
        self.start(compute_1=_host(), compute_2=_host(32))
        self._spoil('compute-1', '{', '')
        self.assert_refused(self.boot_dedicated(), 'JSONDecodeError')
        self.nova.restart_host('compute-1')
        self.assert_goes(self.boot_dedicated(host='compute-1'), 'compute-1')

    @shows('host-fields')
    def test_fields(self):
        self.start(compute_1=_host(), compute_2=_host(32))
        self._spoil('compute-1', '"memory_usage": ', '"memory_use": ')
        self.assert_refused(self.boot_dedicated(host='compute-1'))
        self.assert_goes(self.boot_dedicated(), 'compute-2')

    @shows('guest-topology')
    def test_guest(self):
        self.start(compute_1=_host())
        found = manager.SchedulerManager._get_all_host_states

        def spoils(scheduler, context, spec, *args):
            for cell in spec.numa_topology.cells if spec.numa_topology else ():
                cell._obj_cpu_policy = 'lavish'
            return found(scheduler, context, spec, *args)

        self.enterContext(mock.patch.object(
            manager.SchedulerManager, '_get_all_host_states', spoils))
        self.assert_refused(self.boot_dedicated())
        self.assert_goes(self.boot({}), 'compute-1')


class TestClaims(test_nova_numa_fit.NovaNumaFitTestCase, _Case):
    """What nova-compute would make of guests that fit."""

    def setUp(self):
        super().setUp()
        self.start(('PinnedTopologyFilter',))

    def start(self, filters):
        test_nova_numa_fit.NovaNumaFitTestCase.start(self, filters)

    def assert_goes(self, server, host):
        _Case.assert_goes(self, server, host)

    def assert_refused(self, server, fault='No valid host was found'):
        _Case.assert_refused(self, server, fault)

    @shows('request-budget')
    def test_budget(self):
        self.configure(request_budget_seconds=1e-9)
        case = test_nova_numa_fit.TestPciOverTwoCells
        self.start_host_with_devices(
            'compute-1', case.HOST,
            (test_nova_numa_fit.OTHER, test_nova_numa_fit.NIC,
             test_nova_numa_fit.OTHER, test_nova_numa_fit.NIC))
        self.assert_refused(self.boot(case.SPECS))
        # Other guests need no search.
        self.assert_goes(self.boot_dedicated(vcpus=1), 'compute-1')

    @shows('claim-wrong')
    def test_wrong(self):
        case = test_nova_numa_fit.TestFitNotFound
        self.nova.start_host('compute-1', case.HOST)
        self.assert_refused(self.boot(case.SPECS, 6))
        self.nova.start_host('compute-2', case.EASY_HOST)
        self.assert_goes(self.boot(case.SPECS, 6), 'compute-2')

    @shows('claim-slow')
    def test_slow(self):
        self.configure(nova_claim_max_seconds=0.0)
        self.nova.stage.flags(max_attempts=1, group='scheduler')
        case = test_nova_numa_fit_again.TestSecondAttempt
        self.nova.start_host('compute-1', case.CROSSED_HOST)
        self.nova.start_host('compute-2', case.EASY_HOST)
        self.assert_goes(self.boot(case.CROSSED, 6), 'compute-2')
        self.assert_goes(self.boot(case.CROSSED, 6), 'compute-1')

    @shows('claim-again')
    def test_again(self):
        case = test_nova_numa_fit_again.TestSecondAttempt
        self.nova.start_host('compute-1', case.CROSSED_HOST)
        self.nova.start_host('compute-2', case.EASY_HOST)
        self.assert_goes(self.boot(case.CROSSED, 6), 'compute-2')
        self.assert_goes(self.boot(case.CROSSED, 6), 'compute-1')

    @shows('claim-unknown')
    def test_release_not_known(self):
        """The emptier cell of the host is the one with a device."""
        self.start_host_with_devices(
            'compute-1', hosts.HostShape(
                sockets=2, cores_per_cell=4, threads=1, memory_mib=16 * GIB,
                dedicated='0-3,4-5'), (test_nova_numa_fit.OTHER,))
        self.assert_goes(self.boot_dedicated(vcpus=1), 'compute-1')
        self.assertFalse(any(
            'second choice' in record.getMessage() for record in self.said))
        context = nova_context.get_admin_context()
        compute = objects.Service.get_by_compute_host(context, 'compute-1')
        api.service_update(context, compute.id, {'version': 73})
        self.assert_goes(self.boot_dedicated(vcpus=1), 'compute-1')

    @shows('packing')
    def test_packing(self):
        name = 'packing_host_numa_cells_allocation_strategy'
        self.nova.stage.flags(**{name: True}, group='compute')
        case = test_nova_numa_fit.TestFitNotFound
        self.nova.start_host('compute-1', hosts.HostShape(
            sockets=3, cores_per_cell=4, threads=1, memory_mib=24 * GIB,
            dedicated='0,1,4-7,8,9', options={('compute', name): False}))
        self.assert_refused(
            self.boot(case.SPECS, 6), 'Exhausted all hosts available')
        # Told of it, nova-scheduler knows better.
        del self.claims[:]
        self.nova.create_aggregate(
            'named', ['compute-1'], {f'pinning:{name}': 'false'})
        self.assert_refused(self.boot(case.SPECS, 6))
        self.assertEqual([], self.claims)

    @shows('nova-differs')
    def test_nova_differs(self):
        """A nova-compute that takes nothing."""
        self.nova.start_host('compute-1', _host())
        with mock.patch.object(
                nova_claims, 'hardware', mock.Mock(
                    wraps=hardware,
                    numa_fit_instance_to_host=lambda *args, **kwargs: None)):
            self.assert_refused(
                self.boot_dedicated(), 'Exhausted all hosts available')
        self.assertEqual(
            [('compute-1', 'ComputeResourcesUnavailable')], self.claims)


class TestStart(_Case):

    @shows('self-test')
    def test_self_test(self):
        with mock.patch.object(
                hardware, 'numa_fit_instance_to_host', return_value=None):
            self.start(compute_1=_host())
        # Nova's own filter takes what fits, and nothing else.
        self.assert_goes(self.boot_dedicated(), 'compute-1')
        self.assert_refused(self.boot_dedicated(vcpus=3))
        self.assert_goes(self.boot_shared(), 'compute-1')
        self.configure(on_error='refuse')
        self.assert_refused(self.boot_dedicated())
        # They have no topology to be judged.
        self.assert_goes(self.boot({}), 'compute-1')

    @shows('filter-order')
    def test_filter_order(self):
        self.FILTERS = ('PinnedTopologyFilter', 'NUMATopologyFilter')
        self.start(compute_1=_host())
        self.assert_goes(self.boot_dedicated(), 'compute-1')

    @shows('nova-not-tested')
    def test_nova_not_tested(self):
        with mock.patch.object(nova_release, 'TESTED', ()):
            self.start(compute_1=_host())
        self.assert_goes(self.boot_dedicated(), 'compute-1')

    def _use_file(self, text):
        """Let nova's options be read from a file with this, and no more."""
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'conf')
        path.write_text(f'[pinning]\n{text}\n')
        self.enterContext(mock.patch.object(
            CONF, 'default_config_files', [str(path)]))
        return path

    @shows('options-at-start')
    def test_options_at_start(self):
        self.start()
        self._use_file('on_error = Refuse!')
        self._fail_to_start()

    def _fail_to_start(self):
        CONF.reload_config_files()
        error = self.assertRaises(
            ValueError, service.Service.create, binary='nova-scheduler',
            topic='scheduler', host='scheduler-2')
        # As oslo.log says it when nova-scheduler ends.
        kind = type(error)
        self.said.append(logging.LogRecord(
            'nova', logging.CRITICAL, '', 0, 'Unhandled error: %s.%s: %s',
            (kind.__module__, kind.__name__, error), None))

    @shows('prometheus-client')
    def test_prometheus_client(self):
        self.start()
        self._use_file('metrics_directory = /x')
        with mock.patch.dict(sys.modules, prometheus_client=None):
            self._fail_to_start()

    @shows('options-later')
    def test_options_later(self):
        self.start(compute_1=_host())
        path = self._use_file('unknown_host_class = refuse')
        CONF.mutate_config_files()
        self.assertEqual('refuse',
                         requests.current_options().unknown_host_class)
        path.write_text('[pinning]\non_error = Refuse!\n')
        # What oslo.service does on SIGHUP, as nova wants it.
        CONF.mutate_config_files()
        self.assert_goes(self.boot_dedicated(), 'compute-1')
        self.assertEqual('refuse',
                         requests.current_options().unknown_host_class)


class TestMetrics(_Case):

    @shows('metrics-directory')
    def test_directory(self):
        self.start(compute_1=_host())
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.configure(metrics_directory=str(directory / 'missing'))
        metrics.use(None)
        self.addCleanup(metrics.use, None)
        self.assert_goes(self.boot_dedicated(), 'compute-1')
        # Whatever was to be written has been tried by then.
        metrics.use(None)
        self.assert_goes(self.boot_dedicated(), 'compute-1')
