# SPDX-License-Identifier: Apache-2.0


import contextlib
import dataclasses
import types

import ddt
import hypothesis
from hypothesis import strategies
from nova import conf as nova_conf
from nova import objects
from nova.virt.libvirt import config as libvirt_config
from nova.virt.libvirt import driver as libvirt_driver
from oslo_config import fixture as config_fixture
from oslotest import base as oslotest

from nova_pinning.bridge import topology
from nova_pinning import cpuset
from nova_pinning.fleet import shapes
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning import model
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base


def cell_as_sets(cell):
    """What the engine reads of a cell, with no order where none matters.

    That of the cores does: nova gives them out one after the other.
    """
    return {
        'id': cell.id,
        'shared': cell.shared_count,
        'dedicated': cell.dedicated_count,
        'free': cell.free_count,
        'memory': (cell.memory_mib, cell.memory_used_mib),
        'pages': sorted(cell.pages),
        'cores': list(map(sorted, cell.cores)),
        'legacy': cell.is_legacy,
    }


@contextlib.contextmanager
def nova_options(description):
    """nova.conf as a description has it, as far as NovaDriver reads it."""
    nova = description.nova
    nova_conf.neutron.register_dynamic_opts(nova_conf.CONF)
    options = config_fixture.Config(nova_conf.CONF)
    options.setUp()
    try:
        for name, cpus in (('cpu_dedicated_set', nova.dedicated_cpus),
                           ('cpu_shared_set', nova.shared_cpus)):
            options.config(group='compute', **{name: cpus and str(cpus)})
        yield
    finally:
        options.cleanUp()


class NovaDriver:
    """The part of nova's driver that reports a host, on given XML."""

    def __init__(self, xml, online, reserved):
        capabilities = libvirt_config.LibvirtConfigCaps()
        capabilities.parse_str(xml)
        self._host = types.SimpleNamespace(
            get_capabilities=lambda: capabilities,
            get_online_cpus=lambda: set(online),
            get_available_cpus=lambda: set(online))
        self._reserved_hugepages = reserved

    def _has_numa_support(self):
        return True

    _get_vcpu_available = libvirt_driver.LibvirtDriver._get_vcpu_available
    _get_pcpu_available = libvirt_driver.LibvirtDriver._get_pcpu_available
    topology = libvirt_driver.LibvirtDriver._get_host_numa_topology


@ddt.ddt
class TestAgainstNova(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        objects.register_all()

    def nova_host(self, description):
        return topology.host_from_nova(self.nova_topology(description))

    def nova_topology(self, description):
        reserved = {}
        for (node, size), pages in (
                description.nova.reserved_huge_pages.items()):
            reserved.setdefault(node, {})[size] = pages
        with nova_options(description):
            return NovaDriver(
                host_samples.capabilities(description), description.cpus,
                reserved).topology()

    @unit_base.settings(max_examples=100)
    @hypothesis.given(host_samples.any_host())
    def test_the_same_cells(self, description):
        self.assertEqual(
            list(map(cell_as_sets, self.nova_host(description).cells)),
            list(map(cell_as_sets, engine.engine_cells(description))))

    @unit_base.settings(max_examples=100)
    @hypothesis.given(host_samples.any_host(), strategies.booleans())
    def test_the_same_sockets(self, description, is_bare):
        """With a cell of none, nova finds no device for policy socket."""
        if is_bare and len(description.nodes) > 1:
            *nodes, last = description.nodes
            description = host_samples.host(nodes=(
                *nodes, dataclasses.replace(last, cores=(), l3_domains=())))
        self.assertEqual(
            [cell.socket for cell in self.nova_topology(description).cells],
            [cell.socket for cell in engine.engine_cells(description)])

    @ddt.data(*shapes.SHAPES)
    def test_generated_hosts(self, name):
        """Their cores are in nova's order, too."""
        made = shapes.SHAPES[name]
        sold = cpuset.union(cell.dedicated_cpus for cell in made.cells())
        whole = dataclasses.replace(made, kept_cores={})
        description = host_samples.host(
            nodes=tuple(
                host_model.NumaNode(
                    id=cell.id, socket=cell.socket,
                    cores=tuple(sorted(cell.cores)),
                    memory_mib=cell.memory_mib) for cell in whole.cells()),
            nova=host_samples.settings(str(sold)))
        self.assertEqual(
            [list(map(sorted, cell.cores))
             for cell in self.nova_host(description).cells],
            [list(map(list, cell.cores)) for cell in made.cells()])


class TestEngineHost(oslotest.BaseTestCase):

    def test_all_of_a_cell(self):
        description = host_samples.host(nova=host_samples.settings(
            '1-3,5-7', '4'))
        cells = engine.engine_cells(description)
        self.assertEqual(model.HostCell(
            id=0,
            shared_cpus=cpuset.CpuSet([4]),
            dedicated_cpus=cpuset.CpuSet([1, 5]),
            pinned_cpus=cpuset.CpuSet(),
            cores=((4,), (1, 5)),
            memory_mib=8192,
            pages=(model.PagePool(4, 2097152),),
            socket=0), cells[0])
        self.assertEqual(1, cells[1].socket)

    def test_which_cpus_are_for_what(self):
        for dedicated, shared, expected in (
            (None, None, ('0-7', '0-7')),
            ('1-3', None, ('1-3', '')),
            (None, '1-3', ('', '1-3')),
            ('1-3', '4', ('1-3', '4')),
        ):
            host = host_samples.host(
                nova=host_samples.settings(dedicated, shared))
            self.assertEqual(expected, (str(engine.dedicated_cpus(host)),
                                        str(engine.shared_cpus(host))))
