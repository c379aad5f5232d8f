# SPDX-License-Identifier: Apache-2.0
"""What nova-scheduler says of the hosts' marks when it starts."""

import time
from unittest import mock

from nova import context as nova_context
from nova import objects

from demo import hosts
from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import census
from nova_pinning.scheduler import traits_reader
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.unit import unit_base

#: Nothing here takes as long; only a test that fails waits for it.
_PATIENCE_S = 60


class TestCensus(functional_base.TestCase):

    def setUp(self):
        self.census = census.HostCensus()
        self.enterContext(mock.patch.object(census, 'CENSUS', self.census))
        self.records = self.enterContext(
            unit_base.log_records(census.__name__))
        super().setUp()
        small = functional_base.small_host
        for name, shape in (
                ('by-trait', small(dedicated='0-5', shared='6-7')),
                ('by-aggregate', small(dedicated='0-5', shared='6-7')),
                ('both', small(dedicated='0-5', shared='6-7')),
                ('one-set', small(dedicated='0-7')),
                ('new', hosts.HostShape(
                    sockets=1, cores_per_cell=4, threads=2,
                    memory_mib=8192)),
                ('metal', small(dedicated='0-5', shared='6-7'))):
            self.nova.start_host(name, shape)
        self.nova.change_traits(
            'by-trait', *placement_traits.class_traits('shared'))
        self.nova.create_aggregate(
            'a', ['by-aggregate'], {'pinning:class': 'shared'})
        metal = objects.ComputeNode.get_by_host_and_nodename(
            nova_context.get_admin_context(), 'metal', 'metal')
        metal.hypervisor_type = 'ironic'
        metal.save()

    def wait(self):
        """Until it has said what it has counted."""
        end = time.monotonic() + _PATIENCE_S
        while not self.records and time.monotonic() < end:
            time.sleep(0.05)

    def said(self):
        return [(record.levelname, record.getMessage())
                for record in self.records]

    def test_the_first_request_has_hosts_counted(self):
        plain = self.nova.create_flavor('plain', 1, 512)
        self.assertEqual('ACTIVE', self.nova.boot('a', plain).status)
        self.wait()
        self.assertEqual(
            {'mark': 2, 'cpu_sets': 1, 'both_cpu_sets': 1, 'nothing': 1,
             'bare_metal': 1}, self.census.counts)
        traits_reader.refresh()
        self.assertEqual([(
            'WARNING', '2 of 5 hosts are marked as dedicated or shared, '
            'besides 1 bare metal nodes; 1 of 5 hosts have both '
            'cpu_dedicated_set and cpu_shared_set and no mark: they count as '
            'dedicated, and shared guests are refused there; 1 of 5 hosts '
            'have neither CPU set and no mark: [pinning] unknown_host_class '
            '= by-guests applies to them; mark them with "openstack pinning '
            'host set --class" or pinning:class of an aggregate')],
            self.said())

    def test_all_is_marked(self):
        self.nova.create_aggregate('b', ['both', 'new'],
                                   {'pinning:class': 'dedicated'})
        self.census.note(set(map(self.nova.stage.compute_rp_uuids.get,
                                 ('by-trait',))))
        self.assertEqual([(
            'INFO', '4 of 5 hosts are marked as dedicated or shared, besides '
            '1 bare metal nodes')], self.said())

    def test_a_database_that_fails(self):
        with mock.patch.object(objects.AggregateList, 'get_all',
                               side_effect=OSError('gone')):
            for _time in range(3):
                self.census.note(set())
        self.assertIsNone(self.census.counts)
        [(level, said)] = self.said()
        self.assertEqual('ERROR', level)
        self.assertIn('Cannot count the marked hosts', said)
        self.census.note(set())
        self.assertEqual(6, sum(self.census.counts.values()))
