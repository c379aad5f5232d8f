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

import types

import hypothesis
from hypothesis import strategies
from nova.objects import numa

from nova_pinning import cpuset
from nova_pinning.fleet.importers import classes
from nova_pinning.fleet import model as fleet_model
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.placement import traits as placement_traits
from nova_pinning.scheduler import classes as scheduler_classes
from nova_pinning.scheduler import traits
from nova_pinning.tests.unit import base

METADATA = strategies.sampled_from((
    {}, {'other': 'x'}, {'pinning:class': 'dedicated'},
    {'pinning:class': ' Shared '}, {'pinning:class': 'gold'}))
TRAITS = strategies.sets(strategies.sampled_from((
    placement_traits.DEDICATED, placement_traits.SHARED, 'CUSTOM_X')))
CELLS = strategies.lists(strategies.tuples(
    strategies.sampled_from(('', '0-3', '4-7')),
    strategies.sampled_from(('', '0-3', '8-11'))), max_size=3)


class HostClassTestCase(base.TestCase):

    @base.settings(300)
    @hypothesis.given(strategies.lists(METADATA, max_size=3), TRAITS, CELLS)
    def test_as_the_filter_tells(self, metadata, names, cells):
        def told(tell):
            try:
                return tell()
            except hostclass.UnknownClass:
                return 'unknown'

        state = types.SimpleNamespace(
            uuid='u', aggregates=[
                types.SimpleNamespace(name='a', metadata=one)
                for one in metadata],
            numa_topology=numa.NUMATopology(cells=[
                numa.NUMACell(
                    id=number, cpuset=set(cpuset.CpuSet.parse(shared)),
                    pcpuset=set(cpuset.CpuSet.parse(dedicated)))
                for number, (shared, dedicated) in enumerate(cells)]))
        view = traits.View({'u': traits._marks(frozenset(names))})
        self.assertEqual(
            told(lambda: scheduler_classes.stated_class(state, view)
                 or scheduler_classes.class_from_topology(state)),
            told(lambda: classes.host_class(
                [fleet_model.Aggregate('a', None, one) for one in metadata],
                frozenset(names),
                [model.HostCell(
                    number, cpuset.CpuSet.parse(shared),
                    cpuset.CpuSet.parse(dedicated), cpuset.CpuSet(), (), 1)
                 for number, (shared, dedicated) in enumerate(cells)])))
