# SPDX-License-Identifier: Apache-2.0
"""Requests served at the same time, by one object of each filter and weigher.

That is what nova-scheduler does: it runs native threads, several processes of
them, and makes its filters and weighers once, before it forks.
"""

import collections
import copy
import functools
import gc
import itertools
import logging
import multiprocessing
import os
import sys
import threading
from unittest import mock

import fixtures
import hypothesis
from hypothesis import strategies

from nova_pinning.scheduler import filters
from nova_pinning.scheduler import mix
from nova_pinning.scheduler import requests
from nova_pinning.tests import forms
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import scheduled_cases
from nova_pinning.tests import runner
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit.scheduler import scheduling
from nova_pinning.tests.unit import unit_base

THREADS = 6
ROUNDS = 2 if forms.SHORT else 4
#: Seconds after which a thread or process that nobody comes to meet has
#: failed.
PATIENCE = 120

_LIMITS = {'cpu': 16.0, 'ram': 1.5, 'network': None}
_GIB, _MIB = 1048576, 2048


class _Listener(logging.Handler):
    """Makes up each line, as a log file would have it, and keeps none.

    :ivar meeting: a threading.Barrier for threads to wait at where nova says
        what hosts weigh, before it reads on; none if None
    """

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.count = 0
        self.meeting = None

    def handle(self, record):
        # Without the lock that logging.Handler has.
        record.getMessage()
        self.count += 1
        if self.meeting is not None and 'raw weights' in record.msg:
            self.meeting.wait()


class _TestCase(unit_base.TestCase):
    """A test in which all is logged."""

    def setUp(self):
        super().setUp()
        self.listener = _Listener()
        for name in ('nova', 'nova_pinning'):
            logger = logging.getLogger(name)
            self.addCleanup(logger.setLevel, logger.level)
            self.addCleanup(logger.removeHandler, self.listener)
            self.addCleanup(setattr, logger, 'propagate', logger.propagate)
            logger.addHandler(self.listener)
            logger.propagate = False
            logger.setLevel(logging.DEBUG)


def _together(*tasks, patience=PATIENCE):
    """What each task returns, all begun at the same moment.

    :param tasks: called in a thread each
    :param patience: seconds after which one has failed
    """
    found = [None] * len(tasks)
    errors = []
    barrier = threading.Barrier(len(tasks), timeout=PATIENCE)

    def work(number):
        try:
            barrier.wait()
            found[number] = tasks[number]()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,), daemon=True)
               for number in range(len(tasks))]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(patience)
    finally:
        sys.setswitchinterval(before)
    if errors:
        raise errors[0]
    return found


@functools.cache
def _topologies(number):
    """Topologies of hosts with more and more CPUs taken.

    Hosts of different requests differ in size, so that what is true of one
    request is false for another.
    """
    cpus = 8 + 4 * (number % 4)
    return [
        builders.host_topology(*[
            oracle_cases.host_cell(
                cell, range(cell * cpus, (cell + 1) * cpus),
                pinned=range(cell * cpus, cell * cpus + count),
                siblings=[[cpu, cpu + 1] for cpu in range(
                    cell * cpus, (cell + 1) * cpus, 2)])
            for cell in range(1 + number % 2)])
        for count in range(0, cpus + 1, 1 + number % 3)]


def _states(number):
    topologies = _topologies(number)
    found = []
    for host in range(100 + 40 * (number % THREADS)):
        aggregates = [builders.aggregate(
            pinning__l3_cpus=str(2 + 2 * (host % 3)))]
        if host % 7 == number % 7:
            aggregates.append(builders.aggregate(pinning__class='shared'))
        found.append(builders.host_state(
            f'r{number}-{host}', topologies[host % len(topologies)],
            aggregates=aggregates))
    return found


def _spec(number):
    shapes = [(4, 1)], [(2, 1)], [(1, 1), (3, 1)], [(2, 1), (2, 1)], [(6, 1)]
    threads = (None, 'require', 'prefer', 'isolate')[number % 4]
    spec = builders.spec(
        builders.guest_topology(*shapes[number % 5], threads=threads),
        {'hw:cpu_policy': 'dedicated'})
    for name, value in scheduling.REST.items():
        setattr(spec, name, value)
    return spec


class TestRequests(_TestCase):
    """Each gets what it gets alone."""

    def setUp(self):
        super().setUp()
        self.set_option('fragmentation_mix', [
            {'vcpus': '4', 'memory_mib': '1', 'thread_policy': 'require'},
            {'vcpus': '2', 'memory_mib': '1'}])

    @staticmethod
    def _serve(scheduler, number):
        return scheduler.ordered(_states(number), _spec(number))

    def test_hosts_and_their_order(self):
        numbers = range(THREADS)
        alone = [self._serve(_scheduler(), number) for number in numbers]
        self.assertGreater(len(set(map(len, alone))), 2)
        scheduler = _scheduler()

        def serve(number):
            return [self._serve(scheduler, number) for _ in range(ROUNDS)]

        # Those who are left one host or none do not come to the meeting.
        meeting = threading.Barrier(
            sum(len(one) > 1 for one in alone), timeout=PATIENCE)
        self.assertGreater(meeting.parties, 3)
        for meeting in (None, meeting):
            self.listener.meeting = meeting
            for number, found in zip(numbers, _together(*[
                    functools.partial(serve, number) for number in numbers])):
                self.assertEqual([alone[number]] * ROUNDS, found)
        self.assertGreater(self.listener.count, 1000)

    def test_options_and_errors_of_all_at_once(self):
        """Some requests are refused by everything, others by nothing."""
        self.set_option('on_error', 'pass')
        scheduler = _scheduler()
        broken = _states(0)
        for state in broken[::2]:
            state.allocation_candidates = [{}]
            state.numa_topology = mock.Mock(cells=None)
        alone = len(scheduler.ordered(broken, _spec(0)))
        numbers = range(1, THREADS)
        expected = [self._serve(_scheduler(), number) for number in numbers]
        found = _together(
            lambda: [len(scheduler.ordered(broken, _spec(0)))
                     for _ in range(ROUNDS)],
            *[functools.partial(self._serve, scheduler, number)
              for number in numbers])
        self.assertEqual([[alone] * ROUNDS, *expected], found)

    def test_nothing_is_left_of_requests(self):
        runner.freeze(self)
        scheduler = _scheduler()
        gc.collect()
        before = len(requests._known)
        _together(*[
            functools.partial(self._serve, scheduler, number)
            for number in range(THREADS)])
        gc.collect()
        self.assertLessEqual(len(requests._known), before)


def _scheduler():
    return scheduling.Scheduler(filters.all_filters())


def _large_pages(count):
    """Hosts with 1 GiB pages and hosts with 2 MiB pages, for two guests each.

    :param count: of each kind
    """
    guest = oracle_cases.guest((2, 1024), pagesize=-2)
    found = []
    for number in range(2 * count):
        pool = ([_GIB, 2, 0, 0], [_MIB, 1024, 0, 0])[number % 2]
        found.append(oracle_cases.case(
            [oracle_cases.host_cell(0, range(4),
                                    pages=[[4, 1048576, 0, 0], pool])],
            guest, limits=_LIMITS))
    return found


def _uneven():
    """Nova's fit finds no place for some that it could have found."""
    guest = oracle_cases.guest((1, 256), (3, 256))
    return [
        oracle_cases.case([
            oracle_cases.host_cell(0, range(6), siblings=cores),
            oracle_cases.host_cell(1, range(6, 10 + extra))],
            guest, limits=_LIMITS)
        for extra, cores in (
            (0, [[0, 1], [2, 3], [4, 5]]), (2, [[cpu] for cpu in range(6)]),
            (4, [[0, 1, 2], [3, 4, 5]]))]


_NICS = {'count': 1, 'spec': [{'vendor_id': '8086'}], 'alias': 'nic',
         'policy': 'required'}


def _devices(providers=False):
    """Hosts of two cells; guests go to the second first, which is emptier.

    Where nova finds no cells for a guest, it books the first devices.
    """
    guest = oracle_cases.guest((2, 1024), pagesize=-2)
    found = []
    for number, counts in enumerate(((1, 2), (2, 0), (0, 1), (1, 1))):
        pools = [
            {'vendor_id': '8086', 'product_id': '1520', 'count': count,
             'numa_node': node, 'dev_type': 'type-PCI'} | (
                {'rp_uuid': oracle_case.provider_id(node)}
                if providers else {})
            for node, count in enumerate(counts) if count]
        page = ([_GIB, 4, 0, 0], [_MIB, 2048, 0, 0])[number % 2]
        found.append(oracle_cases.case(
            [oracle_cases.host_cell(cell, range(5 * cell, 5 * cell + 5),
                                    pinned=[[0], []][cell],
                                    pages=[[4, 1048576, 0, 0], page])
             for cell in range(2)],
            guest, limits=_LIMITS, pci={
                'pools': pools, 'requests': [_NICS], 'mapping': None}))
    return found


#: Mappings to the device of either cell.
_CANDIDATES = [
    {f'{oracle_case.request_id(0)}-0': [oracle_case.provider_id(node)]}
    for node in range(2)]


class TestLoad(_TestCase):
    """The machine may do anything else meanwhile."""

    BUSY = 8

    def _left(self, seconds):
        """Which hosts are left of those that all take a search and fit."""
        self.set_option('request_budget_seconds', seconds)
        unlike = oracle_cases.case(
            [oracle_cases.host_cell(0, range(3)),
             oracle_cases.host_cell(1, range(3, 5))],
            oracle_cases.guest((1, 256), (3, 256)))
        left = []
        for case in oracle_cases.near_a_device(), unlike:
            states, specs = zip(*[builders.scheduled(case) for _ in range(8)])
            passed = filters.PinnedTopologyFilter().filter_all(
                list(states), specs[0])
            left.append([states.index(state) for state in passed])
        return left

    def test_as_idle(self):
        """Budgets of all hosts, of some, and of too few for one."""
        budgets = 0.005, 0.001, 0.0001
        alone = list(map(self._left, budgets))
        self.assertEqual(3, len(set(map(str, alone))))
        stop = threading.Event()

        def work():
            while not stop.is_set():
                sum(range(1000))

        threads = [threading.Thread(target=work, daemon=True)
                   for _ in range(self.BUSY)]
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            for thread in threads:
                thread.start()
            self.assertEqual(alone, list(map(self._left, budgets)))
        finally:
            stop.set()
            for thread in threads:
                thread.join(PATIENCE)
            sys.setswitchinterval(before)


class TestFleet(unit_base.TestCase):
    """Many hosts, and guests with devices asked for by many at once.

    ``tox -e fleet`` has 5,000 hosts and 40 requests.
    """

    HOSTS = int(os.environ.get('NOVA_PINNING_FLEET_HOSTS', '60'))
    REQUESTS = int(os.environ.get('NOVA_PINNING_FLEET_REQUESTS', '8'))

    def setUp(self):
        super().setUp()
        self.set_option('fragmentation_mix', [
            {'vcpus': '2', 'memory_mib': '1'}])
        self.kinds = []
        for sizes, policy in itertools.product(
                (((2, 1024),), ((5, 1024),), ((2, 256), (2, 256)),
                 ((6, 1024),)), ('required', 'preferred')):
            cases = _devices(providers=True)
            for case in cases:
                case.data['guest'] = oracle_cases.guest(*sizes)
                case.data['pci']['requests'] = [{**_NICS, 'policy': policy}]
            self.kinds.append([
                scheduled_cases.state_of(case) for case in cases] + [
                    scheduled_cases.spec_of(cases[0])])

    def _serve(self, scheduler, number):
        """The hosts in their order, with the candidates that are left."""
        *shapes, spec = self.kinds[number % len(self.kinds)]
        states = []
        for host in range(self.HOSTS):
            state = copy.copy(shapes[host % len(shapes)])
            state.host, state.limits = str(host), {}
            state.allocation_candidates = [
                {'mappings': mappings}
                for mappings in _CANDIDATES[::1 - 2 * (host % 3 % 2)]]
            states.append(state)
        asked = spec.obj_clone()
        for name, value in scheduling.REST.items():
            setattr(asked, name, value)
        order = scheduler.ordered(states, asked)
        left = {state.host: state.allocation_candidates for state in states}
        return [(host, weight, left[host]) for host, weight in order]

    def test_each_gets_what_it_gets_alone(self):
        alone = [self._serve(scheduling.Scheduler(), number)
                 for number in range(len(self.kinds))]
        self.assertGreater(len({len(found) for found in alone}), 2)
        self.assertIn(1, {len(candidates) for found in alone
                          for _host, _weight, candidates in found})
        scheduler = scheduling.Scheduler()
        for number, found in enumerate(_together(*[
                functools.partial(self._serve, scheduler, number)
                for number in range(self.REQUESTS)],
                patience=PATIENCE * max(1, self.HOSTS // 100))):
            self.assertEqual(alone[number % len(self.kinds)], found, number)


class TestSeveral(_TestCase):
    """Several servers in one request."""

    def setUp(self):
        super().setUp()
        self.set_option('nova_claim_max_seconds', 1000.0)
        self.set_option('fragmentation_mix', [
            {'vcpus': '2', 'memory_mib': '1'}])

    def _assert_placed(self, expected, asked, count, candidates=None):
        placed = scheduling.Scheduler().schedule(asked, count, candidates)
        self.assertEqual(
            [], scheduling.judge(asked, count, placed, candidates))
        self.assertEqual(expected, len(placed), placed)
        return placed

    def test_large_pages_of_two_sizes(self):
        """Nova books none of those after the first of another size."""
        placed = self._assert_placed(5, _large_pages(3), 5)
        self.assertLessEqual(
            max(collections.Counter(host for host, _ in placed).values()), 2)
        # All rooms, and no more than there are.
        self._assert_placed(8, _large_pages(2), 8)
        self._assert_placed(8, _large_pages(2), 9)

    def test_uneven_guests(self):
        self._assert_placed(3, _uneven(), 3)
        self._assert_placed(7, _uneven(), 7)
        self._assert_placed(7, _uneven(), 8)

    def test_devices(self):
        self._assert_placed(3, _devices(), 3)
        self._assert_placed(8, _devices(), 9)

    def test_devices_that_placement_allots(self):
        self._assert_placed(
            8, _devices(providers=True), 9, candidates=_CANDIDATES)

    @unit_base.settings(120)
    @hypothesis.given(strategies.integers(0, 10 ** 6))
    def test_any(self, number):
        asked = scheduling.request(number)
        hypothesis.assume(asked)
        placed = scheduling.Scheduler().schedule(asked, 5)
        self.assertEqual(
            [], scheduling.judge(asked, 5, placed), f'request({number})')

    def test_several_at_once(self):
        """In threads, the same hosts as alone, and claims that are right."""
        # Nova's order of host cells is an option of the whole process.
        asked = [_large_pages(3), _uneven(), _devices(), *[
            one for one in map(scheduling.request, range(40))
            if one and not one[0].data['pack']][:THREADS - 3]]
        alone = [scheduling.Scheduler().schedule(one, 5) for one in asked]
        scheduler = scheduling.Scheduler()
        for _round in range(ROUNDS):
            found = _together(*[
                functools.partial(scheduler.schedule, one, 5)
                for one in asked])
            self.assertEqual(alone, found)
            for one, placed in zip(asked, found):
                self.assertEqual([], scheduling.judge(one, 5, placed))

    def test_refusals_name_their_own_hosts(self):
        """The line of a request that finds no host is about its hosts."""
        full = [
            oracle_cases.case(
                [oracle_cases.host_cell(0, range(4), pinned=range(taken))],
                oracle_cases.guest((4, 256)),
                limits=_LIMITS) for taken in (1, 2, 3)]
        scheduler = scheduling.Scheduler()
        with unit_base.log_records(level=logging.INFO) as records:
            _together(*[
                functools.partial(scheduler.schedule, [one] * (3 + number), 2)
                for number, one in enumerate(full)])
        lines = [record.getMessage() for record in records
                 if 'No host' in record.getMessage()]
        self.assertEqual(3, len(lines))
        for number, line in enumerate(sorted(
                line.partition(' refused ')[2] for line in lines)):
            self.assertTrue(line.startswith(f'{3 + number} hosts: '), line)
            self.assertIn(f'{3 - number} free dedicated CPUs', line)


class TestMix(_TestCase):
    """What was asked for lately, whoever asked."""

    def _counted(self):
        recent = mix.recent()
        return (set(recent._recent), recent._counts, collections.Counter(
            size for asked in recent._recent.values() for size in asked))

    def test_each_instance_counts_once(self):
        """In filters and weighers, and for all of them in each thread."""
        scheduler = _scheduler()
        specs = [_spec(number) for number in range(THREADS)]
        uuids = {spec.instance_uuid for spec in specs}

        def serve(number):
            for turn in range(THREADS):
                # Nova reads a new RequestSpec for each message, and asks
                # again about an instance that is moved.
                scheduler.ordered(
                    _states(number)[:10],
                    copy.copy(specs[(number + turn) % THREADS]))

        _together(*[functools.partial(serve, number)
                    for number in range(THREADS)])
        known, counts, counted = self._counted()
        self.assertEqual(uuids, known)
        self.assertEqual(counted, counts)

    def test_instances_of_one_request(self):
        scheduler = scheduling.Scheduler()
        asked = _large_pages(3)
        _together(*[
            functools.partial(scheduler.schedule, asked, 5)
            for _ in range(THREADS)])
        known, counts, counted = self._counted()
        self.assertEqual(5 * THREADS, len(known))
        self.assertEqual(counted, counts)
        self.assertEqual([5 * THREADS], list(counts.values()))

    def test_more_than_are_remembered(self):
        self.useFixture(fixtures.MonkeyPatch(
            'nova_pinning.scheduler.mix.RECENT_INSTANCES', 7))
        scheduler = _scheduler()

        def serve(number):
            for _instance in range(20):
                scheduler.ordered(_states(number)[:3], _spec(number))

        _together(*[functools.partial(serve, number)
                    for number in range(THREADS)])
        known, counts, counted = self._counted()
        self.assertEqual(7, len(known))
        self.assertEqual(counted, counts)


class TestProcesses(_TestCase):
    """As nova-scheduler runs: forked after its filters were made."""

    def test_as_alone(self):
        self.set_option('fragmentation_mix', [
            {'vcpus': '4', 'memory_mib': '1', 'thread_policy': 'require'}])
        numbers = range(3)

        def serve(scheduler, number):
            return (scheduler.ordered(_states(number), _spec(number)),
                    scheduler.schedule(_large_pages(2), 8))

        alone = [serve(_scheduler(), number) for number in numbers]
        scheduler = _scheduler()
        fork = multiprocessing.get_context('fork')

        def work(sender):
            sender.send(_together(*[
                functools.partial(serve, scheduler, number)
                for number in numbers]))
            sender.close()

        receivers = []
        for _process in range(4):
            receiver, sender = fork.Pipe(duplex=False)
            process = fork.Process(target=work, args=(sender,), daemon=True)
            process.start()
            self.addCleanup(process.join)
            self.addCleanup(process.kill)
            sender.close()
            receivers.append(receiver)
        for receiver in receivers:
            self.assertTrue(receiver.poll(PATIENCE))
            self.assertEqual(alone, receiver.recv())
            receiver.close()
