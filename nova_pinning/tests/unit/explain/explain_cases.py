# SPDX-License-Identifier: Apache-2.0
"""Fleets and wanted guests for the tests of what is made of them."""

import itertools

from hypothesis import strategies

from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.bridge.offline import flavor_request
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import generate
from nova_pinning.fleet import shapes
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.admission import placing
from nova_pinning.tests.unit import builders

DEDICATED = hostclass.HostClass.DEDICATED
SHARED = hostclass.HostClass.SHARED

#: Small fleets that are nearly full.
FLEETS = strategies.builds(
    lambda shape, hosts, seed, filled: generate.generate_fleet(
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
            spec.items() for spec in specs))),
    strategies.sampled_from((2, 4, 8, 12, 16, 24, 32)),
    strategies.sampled_from((1, 2, 4)), strategies.sampled_from(_POLICIES),
    strategies.sampled_from(_PAGES), strategies.sampled_from(_CELLS))


def flavor(vcpus, gib_each=2, policy='dedicated', **extra_specs):
    """A flavor with so much memory for each vCPU."""
    return flavor_model.Flavor(
        name='wanted', vcpus=vcpus, memory_mib=vcpus * gib_each * 1024,
        extra_specs={'hw:cpu_policy': policy} | extra_specs)


def read(flavor, image=None, aliases=None):
    """What nova makes of a flavor."""
    return flavor_request.request_for(flavor, image or {}, aliases or {})


def host(*cells, name='host1', **values):
    """A dedicated host."""
    return offered_host.OfferedHost(
        name=name, cells=cells, **{'host_class': DEDICATED} | values)


def wanted(topology=None, queries=(), **values):
    """A dedicated guest with this topology; values override."""
    vcpus = 1
    if topology is not None:
        vcpus = sum(len(cell.dedicated_vcpus) + len(cell.shared_vcpus)
                    for cell in topology.cells)
    return guest_request.GuestRequest(
        name='wanted', vcpus=vcpus, memory_mib=vcpus,
        **{'guest_class': DEDICATED, 'topology': topology,
           'queries': queries} | values)


def fill(where, topology, uuid='guest1', **values):
    """A host's standing with one more guest, which has to fit."""
    return where.adding(placed_guest(where, topology, uuid, **values))


def placed_guest(where, topology, uuid='guest1', **values):
    """A guest for a standing, as nova would place it."""
    request = wanted(topology)
    outcome = placing.fit_on(where, request)
    return resident_guest.ResidentGuest(**{
        'uuid': uuid, 'host': where.host.name, 'vcpus': request.vcpus,
        'memory_mib': request.memory_mib, 'guest_class': DEDICATED,
        'topology': topology, 'fit': outcome} | values)


def pinned(*cells, **values):
    """As builders.guest."""
    return builders.guest(*cells, **values)
