# SPDX-License-Identifier: Apache-2.0
"""CacheLocalityWeigher on cores in the order in which nova-compute has them.

Hosts as nova's driver reports them, in which guests come and go as nova's own
claims put them.
"""

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import random

import ddt
from nova import objects
from nova.virt import hardware

from nova_pinning import cpuset
from nova_pinning.host import host_model
from nova_pinning.host import hostfile
from nova_pinning.scheduler import requests
from nova_pinning.scheduler import weights
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.host import test_engine
from nova_pinning.tests.unit import unit_base


def _described(cells, cores, threads=2, l3_cores=8, numbering='split',
               kept=0):
    """A host without guests.

    :param cores: of each cell
    :param kept: cores of each cell that guests do not get
    """
    every = hostfile.split_cores(
        cpuset.CpuSet(range(cells * cores * threads)), threads, numbering)
    nodes = []
    for number in range(cells):
        own = every[number * cores:(number + 1) * cores]
        nodes.append(host_model.NumaNode(
            id=number, socket=number, cores=own, memory_mib=1 << 20,
            l3_domains=hostfile.even_domains(own, l3_cores)))
    sold = cpuset.CpuSet(cpu for node in nodes for core in node.cores[kept:]
                         for cpu in core)
    return host_samples.host(nodes=tuple(nodes),
                             nova=host_samples.settings(str(sold)))


def _reported(description):
    """The topology that nova-compute reports, as it stands in JSON."""
    with test_engine.nova_options(description):
        return test_engine.NovaDriver(
            host_samples.capabilities(description), description.cpus,
            {}).topology()._to_json()


def _read(text):
    return objects.NUMATopology.obj_from_db_obj(text)


def _caches(description, claimed):
    """How many caches have CPUs of a guest."""
    pins = {cpu for cell in claimed.cells for cpu in cell.cpu_pinning.values()}
    return sum(
        not pins.isdisjoint(domain) for node in description.nodes
        for domain in node.l3_domains)


def _weight(name, text, description, spec):
    domain = description.nodes[0].l3_domains[0]
    state = builders.host_state(name, _read(text), aggregates=[
        builders.aggregate(pinning__l3_cpus=str(len(domain)))])
    return weights.CacheLocalityWeigher()._weight(state, requests.read(spec))


SHAPES = {
    'one cell a socket': {'cells': 2, 'cores': 64},
    'cores kept': {'cells': 2, 'cores': 64, 'kept': 3},
    'NPS4': {'cells': 8, 'cores': 16},
    'L3 as NUMA': {'cells': 16, 'cores': 8},
    'neighbours': {'cells': 2, 'cores': 32, 'numbering': 'adjacent'},
    'no threads': {'cells': 1, 'cores': 64, 'threads': 1}}


@ddt.ddt
class TestCacheOrder(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        oracle_case.setup()

    @ddt.data(*SHAPES)
    def test_counts_what_the_claim_takes(self, name):
        shape = SHAPES[name]
        description = _described(**shape)
        text = _reported(description)
        rng = random.Random(0)
        policies = (None, 'require')[:shape.get('threads', 2)]
        there, counted = [], []
        for _turn in range(24):
            spec = builders.spec(builders.guest_topology(
                *[(rng.choice((2, 4, 8, 16)), 64) for _cell in range(
                    min(shape['cells'], rng.choice((1, 1, 2))))],
                threads=rng.choice(policies)))
            claimed = hardware.numa_fit_instance_to_host(
                _read(text), spec.numa_topology.obj_clone(), {})
            if claimed is None or rng.random() < 0.3:
                if there:
                    gone = there.pop(rng.randrange(len(there)))
                    text = hardware.numa_usage_from_instance_numa(
                        _read(text), gone, free=True)._to_json()
                continue
            caches = _caches(description, claimed)
            self.assertEqual(
                -caches, _weight('h', text, description, spec))
            counted.append(caches)
            there.append(claimed)
            text = hardware.numa_usage_from_instance_numa(
                _read(text), claimed)._to_json()
        self.assertGreater(len(counted), 8)
        self.assertGreater(len(set(counted)), 1)
