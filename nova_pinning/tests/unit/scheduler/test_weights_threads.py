# SPDX-License-Identifier: Apache-2.0
"""Requests that are weighed at the same time, by the same weighers."""

import logging
import threading

from nova.scheduler import weights as nova_weights

from nova_pinning.scheduler import weights
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base

HOSTS = 300
ROUNDS = 6
#: Seconds after which a thread that nobody comes to meet has failed.
PATIENCE = 60


def _states(*pinned):
    """Hosts of one cell, on which so many CPUs are taken, over and over."""
    topologies = [
        builders.host_topology(oracle_cases.host_cell(
            0, range(16), pinned=range(count),
            siblings=[[cpu, cpu + 1] for cpu in range(0, 16, 2)]))
        for count in pinned]
    return [
        builders.host_state(
            f'host{number}', topologies[number % len(topologies)],
            aggregates=[builders.aggregate(pinning__l3_cpus='4')])
        for number in range(HOSTS)]


class TestThreads(unit_base.TestCase, oracle_cases.TestCase):

    def setUp(self):
        super().setUp()
        self.set_option('fragmentation_mix', [
            {'vcpus': '4', 'memory_mib': '1', 'thread_policy': 'require'}])

    def test_requests_do_not_meet(self):
        """Each gets what it gets alone."""
        handler = nova_weights.HostWeightHandler()
        requests = [
            # Hosts that differ by 2 CPUs for one guest, by little for the
            # other: what the best weighs is far apart.
            (_states(2, 10, 12), (4, 1)), (_states(0, 1, 3), (2, 1))]

        def weigh(weighers, number):
            states, cell = requests[number]
            spec = builders.spec(builders.guest_topology(cell))
            return sorted(
                (int(weighed.obj.host.removeprefix('host')), weighed.weight)
                for weighed in handler.get_weighed_objects(
                    weighers, states, spec))

        def weighers():
            return [kind() for kind in weights.all_weighers()]

        alone = [weigh(weighers(), number) for number in range(2)]
        shared = weighers()
        barrier = threading.Barrier(2, timeout=PATIENCE)
        together = [[], []]

        def meet(record):
            """Wait where nova says what hosts weigh, before it reads on."""
            if 'raw weights' in record.msg:
                barrier.wait()
            return True

        def work(number):
            for _round in range(ROUNDS):
                together[number].append(weigh(shared, number))

        threads = [threading.Thread(target=work, args=(number,))
                   for number in range(2)]
        logger = logging.getLogger('nova.weights')
        logger.addFilter(meet)
        self.addCleanup(logger.removeFilter, meet)
        with unit_base.log_records(logger.name):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for number in range(2):
            self.assertEqual(ROUNDS, len(together[number]))
            for found in together[number]:
                self.assertEqual(alone[number], found)
