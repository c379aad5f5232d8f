# SPDX-License-Identifier: Apache-2.0


import dataclasses
import json
import os
import threading

import ddt
from nova import conf as nova_conf
from oslo_config import fixture as config_fixture
from oslo_context import context
from oslo_context import fixture as oslo_fixture

from nova_pinning.scheduler import record
from nova_pinning.tests.unit import unit_base

CAUSE = record.RecordedCause('free-cpus', 48, 'cmp-1', 'cell 0 has 4 free')


def no_host(instance='uuid', **values):
    """A refusal of an instance."""
    made = record.no_host(
        instance, 'enterprise.8', {'PinnedTopologyFilter': (CAUSE,)})
    return dataclasses.replace(made, **values)


class TestNoHost(unit_base.TestCase):

    def test_of_the_current_request(self):
        self.useFixture(oslo_fixture.ClearRequestContext())
        context.RequestContext(request_id='req-1')
        made = no_host()
        self.assertEqual('req-1', made.request_id)
        self.assertRegex(
            made.time, r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$')
        self.assertEqual(record.host_name(), made.host)

    def test_of_none(self):
        made = []
        # No request was ever served in a new thread.
        thread = threading.Thread(target=lambda: made.append(no_host()))
        thread.start()
        thread.join()
        self.assertIsNone(made[0].request_id)

    def test_host(self):
        """As nova calls it, if there is nova."""
        self.useFixture(config_fixture.Config(nova_conf.CONF)).config(
            host='ctl-1')
        self.assertEqual('ctl-1', no_host().host)


@ddt.ddt
class TestRing(unit_base.TestCase):

    def _names(self, ring):
        return [refusal['instance']
                for refusal in json.loads(ring.text())['refusals']]

    @ddt.data((0, []), (1, ['3']), (3, ['1', '2', '3']),
              (9, ['0', '1', '2', '3']))
    @ddt.unpack
    def test_the_last_are_kept(self, kept, names):
        ring = record.RefusalRing(kept)
        self.assertEqual([], self._names(ring))
        for number in range(4):
            ring.add(no_host(str(number)))
        self.assertEqual(names, self._names(ring))
        self.assertEqual(4, ring.count)
        memory = json.loads(ring.text())
        self.assertEqual((kept, 4 - len(names), os.getpid()),
                         (memory['limit'], memory['forgotten'],
                          memory['process']))

    def test_threads(self):
        """Each refusal counts once, and any text is a sound document."""
        ring = record.RefusalRing(50)
        barrier = threading.Barrier(9)
        wrong = []

        def add(thread):
            barrier.wait()
            for number in range(200):
                ring.add(no_host(f'{thread}-{number}'))

        def look():
            barrier.wait()
            for _ in range(20):
                memory = json.loads(ring.text())
                for thread in range(8):
                    numbers = [
                        int(refusal['instance'].split('-')[1])
                        for refusal in memory['refusals']
                        if refusal['instance'].startswith(f'{thread}-')]
                    if numbers != sorted(numbers):
                        wrong.append(numbers)

        threads = [threading.Thread(target=add, args=(thread,))
                   for thread in range(8)]
        threads.append(threading.Thread(target=look))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], wrong)
        memory = json.loads(ring.text())
        self.assertEqual((1600, 1550, 50), (
            ring.count, memory['forgotten'], len(memory['refusals'])))
        self.assertEqual(
            50, len({refusal['instance'] for refusal in memory['refusals']}))
