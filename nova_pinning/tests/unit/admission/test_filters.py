# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt
from nova import objects
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager

from nova_pinning.admission import filter_rules
from nova_pinning.admission import filters
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import image_properties
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning.fleet import document
from nova_pinning.model import hostclass
from nova_pinning.tests.oracle import filter_oracle
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit import unit_base

DEDICATED = hostclass.HostClass.DEDICATED
_REQUEST = guest_request.GuestRequest(
    name='wanted', vcpus=2, memory_mib=2048, guest_class=DEDICATED,
    topology=None)
_WISHES = guest_request.GuestWishes()
_HOST = offered_host.OfferedHost(name='host', cells=(), host_class=DEDICATED)
_SEPARATED = '''{"version": 2, "enabled_filters": [
    "ComputeFilter", "AggregateImagePropertiesIsolation",
    "AggregateTypeAffinityFilter", "AggregateNumInstancesFilter",
    "NUMATopologyFilter"],
  "aggregates": [{"name": "a", "metadata": {
    "instance_type": "other.flavor", "os_distro": "windows",
    "max_instances_per_host": "0"}}],
  "layouts": [[{
    "id": 0, "shared_cpus": "", "dedicated_cpus": "0-1", "cores": [[0], [1]],
    "memory_mib": 4096, "pages": [{"size_kib": 4, "total": 1048576}]}]],
  "hosts": [{"name": "cmp-1", "cells": 0, "host_class": "dedicated",
             "aggregates": ["a"]}],
  "guests": []}'''


def _verdict(request=_REQUEST, wishes=_WISHES, host=_HOST, guests=(),
             **rules):
    settings = scheduler_rules.SchedulerRules(**rules)
    return filters.gate(request, wishes, host, settings).and_of(
        filters.by_guests(request, wishes,
                          host_occupancy.of_host(host, guests), settings))


def _in_aggregate(metadata, **options):
    """A host in an aggregate with these metadata."""
    return {'host': dataclasses.replace(_HOST, aggregates=('a',)),
            'aggregates': {'a': offered_host.Aggregate(
                'a', None, metadata)}} | options


class TestAsNova(unit_base.TestCase):

    def test_random_cases(self):
        wrong, refused = filter_oracle.disagreements(1, range(300))
        self.assertEqual([], wrong)
        self.assertEqual({*filter_oracle.CLASSES, 'aggregates', 'affinity',
                          'anti-affinity'}, {*+refused})

    def test_every_filter_of_nova_is_placed(self):
        self.assertEqual(
            set(), {kind.__name__ for kind in nova_filters.all_filters()}
            - filters.RULES.keys() - filters.TRANSIENT)

    def test_every_image_property_is_known(self):
        self.assertEqual(
            set(), {name for name in objects.ImageMetaProps.fields
                    if not image_properties.is_kept(name)})

    def test_every_attribute_of_hosts_is_known(self):
        state = host_manager.HostState('host', 'node', None)
        self.assertEqual(set(), {
            name for name in {*dir(state), *vars(state)}
            if not filter_rules.HOST_STATE.fullmatch(name)})


@ddt.ddt
class TestFilters(unit_base.TestCase):

    def test_three_refuse(self):
        fleet = document.loads(_SEPARATED)
        found = _verdict(
            dataclasses.replace(_REQUEST, image=(('os_distro', 'ubuntu'),)),
            host=fleet.hosts[0], enabled_filters=fleet.enabled_filters,
            aggregates={one.name: one for one in fleet.aggregates})
        self.assertEqual(
            ['AggregateImagePropertiesIsolation',
             'AggregateTypeAffinityFilter', 'AggregateNumInstancesFilter'],
            [refusal.name for refusal in found.refusals])

    @ddt.data(
        ('ComputeCapabilitiesFilter', {'extra_specs': (
            ('capabilities:hypervisor_type', 'QEMU'),)}),
        ('ComputeCapabilitiesFilter', {'extra_specs': (
            ('free_ram_mb', '>= 1'),)}),
        ('ComputeCapabilitiesFilter', {'extra_specs': (
            ('hw:maxphysaddr_bits', '42'),)}),
        ('ImagePropertiesFilter', {'image': (('architecture', 'x86_64'),)}))
    @ddt.unpack
    def test_named_if_concerned(self, name, asks):
        self.assertEqual(
            filters.FilterVerdict(), _verdict(enabled_filters=(name,)))
        found = _verdict(dataclasses.replace(_REQUEST, **asks),
                         enabled_filters=(name,))
        self.assertEqual([name], [doubt.about for doubt in found.doubts])
        self.assertEqual((), found.refusals)

    @ddt.data(('evacuations', True, True), ('last', False, True),
              ('x', True, True))
    @ddt.unpack
    def test_reserve(self, use, pinned, floating):
        """Whether or not it is known that our filter is enabled."""
        kept = _in_aggregate({'pinning:reserve': use})
        asks = dataclasses.replace(_REQUEST, topology=builders.guest((1, 1)))
        for request, is_refused in ((asks, pinned), (_REQUEST, floating)):
            for enabled in (None, ('PinnedTopologyFilter',)):
                found = _verdict(request, enabled_filters=enabled, **kept)
                self.assertEqual(
                    ['is kept for guests of lost hosts'] * is_refused,
                    [refusal.text.removeprefix('the host ')
                     for refusal in found.refusals])
            self.assertEqual((), _verdict(
                request, guest_request.GuestWishes(is_evacuated=True),
                **kept).refusals)
        self.assertEqual((), _verdict(
            enabled_filters=('NUMATopologyFilter',), **kept).refusals)

    @ddt.data(('JsonFilter', 'query'),
              ('SimpleCIDRAffinityFilter', 'build_near_host_ip'))
    @ddt.unpack
    def test_hints(self, name, hint):
        self.assertEqual(
            filters.FilterVerdict(), _verdict(enabled_filters=(name,)))
        found = _verdict(
            wishes=guest_request.GuestWishes(hints=((hint, 'x'),)),
            enabled_filters=(name,))
        self.assertEqual([name], [doubt.about for doubt in found.doubts])

    def test_of_somebody_else(self):
        found = _verdict(enabled_filters=('RackFilter', 'IoOpsFilter'))
        self.assertEqual(['RackFilter'],
                         [doubt.about for doubt in found.doubts])

    @ddt.data((None, 1), (False, 0), (True, 1))
    @ddt.unpack
    def test_isolated_hosts(self, isolates, doubts):
        found = _verdict(enabled_filters=('IsolatedHostsFilter',),
                         isolates_hosts=isolates)
        self.assertEqual(doubts, len(found.doubts))

    def test_filters_are_not_known(self):
        """What a filter says is then a doubt, but for what is assumed."""
        found = _verdict(**_in_aggregate({'instance_type': 'other'}))
        self.assertEqual((), found.refusals)
        self.assertEqual(['AggregateTypeAffinityFilter'],
                         [doubt.about for doubt in found.doubts])
        found = _verdict(host=dataclasses.replace(
            _HOST, host_class=DEDICATED.other, is_enabled=False))
        self.assertEqual(['ComputeFilter', 'HostClassFilter'],
                         [refusal.name for refusal in found.refusals])
        self.assertEqual(filters.FilterVerdict(), _verdict())

    @ddt.data(('AggregateMultiTenancyIsolation',
               {'filter_tenant_id': 'p'}, {}),
              ('AggregateImagePropertiesIsolation',
               {'os_distro': 'windows'}, {'image': None}),
              ('AggregateTypeAffinityFilter',
               {'instance_type': 'other'}, {'name': ''}))
    @ddt.unpack
    def test_not_known(self, name, metadata, asks):
        found = _verdict(dataclasses.replace(_REQUEST, **asks),
                         **_in_aggregate(metadata, enabled_filters=(name,)))
        self.assertEqual([name], [doubt.about for doubt in found.doubts])
        self.assertEqual((), found.refusals)

    def test_image_may_require_the_trait(self):
        options = _in_aggregate({'trait:CUSTOM_A': 'required'}, isolates=True)
        self.assertEqual(['isolated-aggregate'], [
            refusal.name for refusal in _verdict(**options).refusals])
        found = _verdict(dataclasses.replace(_REQUEST, image=None),
                         **options, enabled_filters=())
        self.assertEqual((), found.refusals)
        self.assertEqual(1, len(found.doubts))

    def test_guests_without_uuids(self):
        there = [resident_guest.ResidentGuest(
            uuid='', host='host', vcpus=1, memory_mib=1,
            guest_class=DEDICATED)]
        for name, hint in (('SameHostFilter', 'same_host'),
                           ('DifferentHostFilter', 'different_host')):
            found = _verdict(
                wishes=guest_request.GuestWishes(hints=((hint, 'x'),)),
                guests=there, enabled_filters=(name,))
            self.assertEqual([name], [doubt.about for doubt in found.doubts])
