# SPDX-License-Identifier: Apache-2.0

import types

import hypothesis
from hypothesis import strategies
from nova.objects import numa

from nova_pinning.admission import offered_host
from nova_pinning import cpuset
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits
from nova_pinning.scheduler import classes
from nova_pinning.scheduler import traits_reader
from nova_pinning.tests.unit import unit_base

METADATA = strategies.sampled_from((
    {}, {'other': 'x'}, {'pinning:class': 'dedicated'},
    {'pinning:class': ' Shared '}, {'pinning:class': 'gold'}))
TRAITS = strategies.sets(strategies.sampled_from((
    placement_traits.DEDICATED, placement_traits.SHARED, 'CUSTOM_X')))
CELLS = strategies.lists(strategies.tuples(
    strategies.sampled_from(('', '0-3', '4-7')),
    strategies.sampled_from(('', '0-3', '8-11'))), max_size=3)


class HostClassTestCase(unit_base.TestCase):

    @unit_base.settings(300)
    @hypothesis.given(strategies.lists(METADATA, max_size=3), TRAITS, CELLS)
    def test_as_the_filter_tells(self, metadata, names, cells):
        def told(tell):
            try:
                return tell()
            except hostclass.UnknownClass:
                return 'unknown'

        state = types.SimpleNamespace(
            uuid='u', vcpus_used=0, aggregates=[
                types.SimpleNamespace(name='a', metadata=one)
                for one in metadata],
            numa_topology=numa.NUMATopology(cells=[
                numa.NUMACell(
                    id=number, cpuset=set(cpuset.CpuSet.parse(shared)),
                    pcpuset=set(cpuset.CpuSet.parse(dedicated)),
                    pinned_cpus=set(), cpu_usage=0)
                for number, (shared, dedicated) in enumerate(cells)]))
        view = traits_reader.TraitsView(
            {'u': traits_reader._marks(frozenset(names))})
        self.assertEqual(
            told(lambda: classes.host_class(state, view, 'allow')),
            told(lambda: placement_traits.host_class(
                [offered_host.Aggregate('a', None, one) for one in metadata],
                placement_traits.classes_of(names),
                [model.HostCell(
                    number, cpuset.CpuSet.parse(shared),
                    cpuset.CpuSet.parse(dedicated), cpuset.CpuSet(), (), 1)
                 for number, (shared, dedicated) in enumerate(cells)])))
