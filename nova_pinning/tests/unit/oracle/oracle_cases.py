# SPDX-License-Identifier: Apache-2.0
"""Small cases written by hand, and engines that get them wrong."""

import copy

from nova.virt import hardware
from oslotest import base

from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import oracle_compare
from nova_pinning.tests.oracle import stand_in


class TestCase(base.BaseTestCase):
    """A test in which nova does not log its every step."""

    def setUp(self):
        super().setUp()
        oracle_case.setup()
        self.enterContext(oracle_compare.silence())


def host_cell(number, dedicated=(), **values):
    """Return a host cell without threads; values override its fields."""
    dedicated = list(dedicated)
    return {
        'id': number,
        'shared': [],
        'dedicated': dedicated,
        'pinned': [],
        'siblings': [[cpu] for cpu in dedicated],
        'memory': 4096,
        'memory_used': 0,
        'cpu_usage': 0,
        'pages': [[4, 1048576, 0, 0]],
        'socket': 0,
        'network': None,
    } | values


def guest(*cells, **values):
    """Return a dedicated guest; each cell is (vCPUs, MiB)."""
    made = []
    vcpu = 0
    for vcpus, memory in cells:
        made.append({'dedicated': list(range(vcpu, vcpu + vcpus)),
                     'shared': [], 'memory': memory})
        vcpu += vcpus
    return {'cells': made, 'policy': 'dedicated', 'threads': None,
            'emulator': None, 'pagesize': None} | values


def case(host, guest, **values):
    """Return a case; values override limits, pci, pack and odd."""
    return oracle_case.Case({
        'host': host, 'guest': guest, 'limits': None, 'pci': None,
        'pack': False, 'odd': False} | values)


def plain():
    """Two vCPUs for the second of two cells."""
    return case([host_cell(0, [0, 1], pinned=[1]), host_cell(1, [2, 3])],
                guest((2, 1024)))


def full():
    """Two vCPUs for two cells with a free CPU each."""
    return case(
        [host_cell(0, [0, 1], pinned=[1]),
         host_cell(1, [2, 3], pinned=[2])], guest((2, 1024)))


def uneven_memory():
    """The third guest cell fits nowhere, but nova accepts it."""
    return case(
        [host_cell(number, [2 * number, 2 * number + 1],
                   memory=8192, pages=[[4, 2097152, 0, 0]])
         for number in range(3)],
        guest((1, 1024), (1, 1024), (1, 16384)))


def uneven_cpus():
    """Free CPUs 2, 4, 2 for guest cells of 2 and 4: nova refuses."""
    return case(
        [host_cell(0, [0, 1]), host_cell(1, [2, 3, 4, 5]),
         host_cell(2, [6, 7])], guest((2, 256), (4, 256)))


def near_a_device():
    """The cell of a device has to be searched for."""
    return case(
        [host_cell(cell, [cell]) for cell in range(2)], guest((1, 256)),
        pci={'pools': [{'vendor_id': '8086', 'product_id': '1520', 'count': 1,
                        'numa_node': 1, 'dev_type': 'type-PCI'}],
             'requests': [{'count': 1, 'spec': [{'vendor_id': '8086'}],
                           'alias': 'nic', 'policy': 'required'}],
             'mapping': None})


def sticky_page_size():
    """The page size of the first host cell is not there on the second."""
    return case(
        [host_cell(0, [0], pinned=[0], pages=[[1048576, 4, 0, 0]]),
         host_cell(1, [1], pages=[[2048, 1024, 0, 0]])],
        guest((1, 1024), pagesize=-3), pack=True)


def half_used_core():
    """nova sets aside a CPU whose sibling another guest has."""
    return case(
        [host_cell(0, range(4), shared=[0, 1, 2, 3], pinned=[0],
                   siblings=[[0, 1], [2, 3]])],
        guest((1, 256), threads='isolate', emulator='isolate'))


# Engines that are wrong, each in its own way; the fuzzer has to find out.


def refusing(*args, **kwargs):
    return None


def raising(*args, **kwargs):
    raise KeyError('siblings')


def changing(host_topology, *args, **kwargs):
    answer = stand_in.numa_fit_instance_to_host(host_topology, *args, **kwargs)
    host_topology.cells[0].pinned_cpus.clear()
    return answer


def unpinned(*args, **kwargs):
    answer = stand_in.numa_fit_instance_to_host(*args, **kwargs)
    if answer:
        answer.cells[-1].cpu_pinning = None
    return answer


def swapped(*args, **kwargs):
    """Give two vCPUs of a cell each other's host CPU."""
    answer = stand_in.numa_fit_instance_to_host(*args, **kwargs)
    for cell in answer.cells if answer else ():
        pins = cell.cpu_pinning or {}
        cell.cpu_pinning = dict(zip(pins, reversed(pins.values())))
    return answer


def larger(*args, **kwargs):
    """Answer for more memory than was asked for."""
    answer = stand_in.numa_fit_instance_to_host(*args, **kwargs)
    for cell in answer.cells if answer else ():
        cell.memory += 1
    return answer


def novas_own(host_topology, instance_topology, *args, **kwargs):
    """nova's function; it is given a guest that it may change."""
    return hardware.numa_fit_instance_to_host(
        host_topology, copy.deepcopy(instance_topology), *args, **kwargs)
