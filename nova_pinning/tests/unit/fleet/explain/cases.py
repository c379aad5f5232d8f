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

"""Fleets and wanted guests for the tests of what is made of them."""

import itertools

from hypothesis import strategies

from nova_pinning.bridge import wanted as bridge_wanted
from nova_pinning.flavors import model as flavor_model
from nova_pinning.fleet import generate
from nova_pinning.fleet import model as fleet_model
from nova_pinning.fleet import shapes
from nova_pinning.fleet import standing
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning.model import hostclass
from nova_pinning.tests.unit import builders

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED

#: Small fleets that are nearly full.
FLEETS = strategies.builds(
    lambda shape, hosts, seed, filled: generate.generate(
        hosts, shape, seed, filled=filled, shared=0.3, churn=1.0),
    strategies.sampled_from(sorted(shapes.SHAPES)),
    strategies.integers(1, 4), strategies.integers(0, 10 ** 6),
    strategies.sampled_from((0.7, 0.9, 1.0)))

_POLICIES = ({}, {'hw:cpu_thread_policy': 'require'},
             {'hw:cpu_thread_policy': 'isolate'},
             {'hw:emulator_threads_policy': 'isolate'})
_PAGES = ({}, {}, {'hw:mem_page_size': 'large'}, {'hw:mem_page_size': '1GB'},
          {'hw:mem_page_size': '2MB'})
_CELLS = ({}, {}, {'hw:numa_nodes': '2'})

#: Flavors of pinned guests that nova accepts.
FLAVORS = strategies.builds(
    lambda vcpus, gib, *specs: flavor(
        vcpus, gib, **dict(itertools.chain.from_iterable(
            one.items() for one in specs))),
    strategies.sampled_from((2, 4, 8, 12, 16, 24, 32)),
    strategies.sampled_from((1, 2, 4)), strategies.sampled_from(_POLICIES),
    strategies.sampled_from(_PAGES), strategies.sampled_from(_CELLS))


def flavor(vcpus, gib_each=2, policy='dedicated', **extra_specs):
    """A flavor with so much memory for each vCPU."""
    return flavor_model.Flavor(
        name='wanted', vcpus=vcpus, memory_mib=vcpus * gib_each * 1024,
        extra_specs={'hw:cpu_policy': policy} | extra_specs)


def read(one, image=None, aliases=None):
    """What nova makes of a flavor."""
    return bridge_wanted.wanted(one, image or {}, aliases or {})


def host(*cells, name='host1', **values):
    """A dedicated host."""
    return fleet_model.FleetHost(
        name=name, cells=cells, **{'host_class': DEDICATED} | values)


def wanted(topology=None, queries=(), **values):
    """A dedicated guest with this topology; values override."""
    vcpus = 1
    if topology is not None:
        vcpus = sum(len(cell.dedicated_vcpus) + len(cell.shared_vcpus)
                    for cell in topology.cells)
    return fleet_wanted.Wanted(
        flavor=flavor_model.Flavor(name='wanted', vcpus=vcpus,
                                   memory_mib=vcpus),
        **{'guest_class': DEDICATED, 'topology': topology,
           'queries': queries} | values)


def fill(where, topology, uuid='guest1', **values):
    """A host's standing with one more guest, which has to fit."""
    return where.adding(lodger(where, topology, uuid, **values))


def lodger(where, topology, uuid='guest1', **values):
    """A guest for a standing, as nova would place it."""
    one = wanted(topology)
    outcome = standing.fit_on(where, one)
    return fleet_model.FleetGuest(**{
        'uuid': uuid, 'host': where.host.name, 'vcpus': one.flavor.vcpus,
        'memory_mib': one.flavor.memory_mib, 'guest_class': DEDICATED,
        'topology': topology, 'fit': outcome} | values)


def pinned(*cells, **values):
    """As builders.guest."""
    return builders.guest(*cells, **values)
