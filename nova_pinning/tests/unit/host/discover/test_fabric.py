# SPDX-License-Identifier: Apache-2.0
"""NVLinks and partitions, from what NVIDIA's tools print."""

import dataclasses
import json

import ddt
import hypothesis
from hypothesis import strategies
from oslotest import base

from nova_pinning import errors
from nova_pinning.host.discover import fabric
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit import unit_base

WHERE = errors.Location('topo.txt')
# A hybrid cube mesh, as DGX-1 has it.
CUBE = {(0, 1): 1, (0, 2): 2, (0, 3): 1, (0, 7): 2, (1, 2): 1, (1, 3): 2,
        (1, 6): 2, (2, 3): 2, (2, 5): 1, (3, 4): 1, (4, 5): 2, (4, 6): 2,
        (4, 7): 1, (5, 6): 1, (5, 7): 2, (6, 7): 1}


def gpu(number, **values):
    return host_model.PciDevice(
        f'0000:{number + 16:02x}:00.0', '10de', '2330', number // 4,
        **{'kind': hardware.PciKind.GPU, 'driver': 'nvidia',
           'parent': f'0000:{number // 2:02x}:01.0'} | values)


def server(count=8, **values):
    """Two GPUs below each root port, half of all on each node."""
    return host_samples.host(
        pci_devices=tuple(gpu(number, **values) for number in range(count)),
        pci_bridges=tuple(
            hardware.PciBridge(f'0000:{number:02x}:01.0',
                               f'pci0000:{number:02x}')
            for number in range((count + 1) // 2)))


def table(links, count=8, nic=True, node=lambda number: number // 4):
    """What nvidia-smi topo -m prints."""
    names = [f'GPU{number}' for number in range(count)]
    columns = [*names, *(['NIC0'] if nic else [])]
    lines = ['\x1b[4m\t' + '\t'.join(
        [*columns, 'CPU Affinity', 'NUMA Affinity', 'GPU NUMA ID'])
        + '\x1b[0m']
    for one, name in enumerate(names):
        cells = []
        for other in range(count):
            number = links.get((one, other)) or links.get((other, one))
            way = 'PXB' if one // 2 == other // 2 else 'SYS'
            cells.append(' X ' if one == other
                         else f'NV{number}' if number else way)
        lines.append('\t'.join([
            name, *cells, *(['NODE'] if nic else []), '0-3,8-11',
            str(node(one)), '', 'N/A']))
    if nic:
        lines.append('\t'.join(['NIC0', *['NODE'] * count, ' X ']))
    return '\n'.join([*lines, '', 'Legend:', '', '  X    = Self',
                      '  NV#  = Connection traversing a bonded set of # '
                      'NVLinks', '', 'NIC Legend:', '', '  NIC0: mlx5_0'])


def pairs(nvlinks):
    """Links by the numbers of GPUs."""
    found = {}
    for joined in nvlinks:
        numbers = [int(address[5:7], 16) - 16 for address in joined.addresses]
        for place, one in enumerate(numbers):
            for other in numbers[place + 1:]:
                assert (one, other) not in found
                found[one, other] = joined.links
    return found


@ddt.ddt
class TestNvLinks(base.BaseTestCase):

    def test_all_behind_switches(self):
        every = {(one, other): 18 for one in range(8) for other in range(one)}
        for nic in (True, False):
            host = fabric.with_fabric(server(), table(every, nic=nic), WHERE)
            self.assertEqual((hardware.NvLinks(tuple(
                gpu(number).address for number in range(8)), 18),),
                host.nvlinks)

    def test_a_cube(self):
        host = fabric.with_fabric(server(), table(CUBE), WHERE)
        self.assertEqual(CUBE, pairs(host.nvlinks))

    def test_none_is_known_to_be_none(self):
        self.assertIsNone(server().nvlinks)
        self.assertEqual((), fabric.with_fabric(
            server(), table({}), WHERE).nvlinks)

    @unit_base.settings(max_examples=60)
    @hypothesis.given(strategies.dictionaries(
        strategies.tuples(strategies.integers(0, 5), strategies.integers(
            0, 5)).filter(lambda pair: pair[0] < pair[1]),
        strategies.sampled_from([1, 2, 18])))
    def test_any(self, links):
        host = fabric.with_fabric(server(6), table(links, 6), WHERE)
        self.assertEqual(links, pairs(host.nvlinks))

    def test_words_of_old_drivers(self):
        host = fabric.with_fabric(
            server(), table(CUBE).replace('SYS', 'SOC'), WHERE)
        self.assertEqual(CUBE, pairs(host.nvlinks))

    def test_blanks_for_tabs(self):
        host = fabric.with_fabric(
            server(), table(CUBE).expandtabs(8), WHERE)
        self.assertEqual(CUBE, pairs(host.nvlinks))

    def test_devices_that_nvidia_smi_does_not_list(self):
        host = server()
        others = (gpu(8, driver='vfio-pci'), gpu(
            9, physical_function=gpu(0).address), dataclasses.replace(
                gpu(10), vendor_id='1002'))
        host = fabric.with_fabric(host_samples.host(
            pci_devices=(*others, *host.pci_devices)), table(CUBE), WHERE)
        self.assertEqual(CUBE, pairs(host.nvlinks))

    @ddt.data(
        (server(4), table(CUBE), 'has 8 GPUs, but the host has 4'),
        (server(), table(CUBE, node=lambda number: 1),
         'GPU0 is on node 1, but 0000:10:00.0 is on node 0'),
        (server(parent='0000:00:01.0'), table({}),
         'SYS is between 0000:10:00.0 and 0000:12:00.0'),
        # As nvidia-smi topo -p2p has it, and with a line of another host.
        (server(), table({}).replace('SYS', 'OK'), 'has OK of GPU0 to GPU2'),
        (server(), table(CUBE).replace('NV1', 'NV2', 1),
         'has NV2 of GPU0 to GPU1, and NV1 back'),
        (server(), '', 'is no table'), (server(), 'GPU0', 'is no table'),
        (server(), '\n'.join(table(CUBE).splitlines()[:5]), 'is no table'))
    @ddt.unpack
    def test_what_is_not_of_this_host(self, host, text, message):
        error = self.assertRaises(errors.InputError, fabric.with_fabric, host,
                                  text, WHERE)
        self.assertIn(message, str(error))
        self.assertIn('topo.txt', str(error))


@ddt.ddt
class TestPartitions(base.BaseTestCase):

    def listed(self, *partitions):
        return json.dumps({
            'version': 1, 'numPartitions': len(partitions),
            'maxNumPartitions': 15, 'partitionInfo': [{
                'partitionId': number, 'isActive': 0, 'numGpus': len(gpus),
                'gpuInfo': [{'physicalId': one, 'pciBusId': bus_id}
                            for one, bus_id in enumerate(gpus)]}
                for number, gpus in partitions]})

    def test_read(self):
        host = fabric.with_fabric(server(), self.listed(
            (3, ['00000000:11:00.0', '00000000:10:00.0']),
            (0, ['00000000:1' + f'{number}:00.0' for number in range(8)])),
            WHERE)
        self.assertEqual(
            (hardware.GpuPartition(0, tuple(
                gpu(number).address for number in range(8))),
             hardware.GpuPartition(3, ('0000:10:00.0', '0000:11:00.0'))),
            host.gpu_partitions)
        self.assertIsNone(host.nvlinks)

    @ddt.data(
        ((1, ['00000000:00:00.0']), 'does not tell the addresses'),
        ((1, ['00000000:B1:00.0']), 'a GPU 0000:b1:00.0, which the host'),
        ((1, ['nothing']), 'is no list of partitions'))
    @ddt.unpack
    def test_what_is_not_known(self, partition, message):
        error = self.assertRaises(
            errors.InputError, fabric.with_fabric, server(),
            self.listed(partition), WHERE)
        self.assertIn(message, str(error))

    @ddt.data('{', '{}', '{"partitionInfo": 1}', '{"partitionInfo": [1]}')
    def test_what_is_none(self, text):
        error = self.assertRaises(errors.InputError, fabric.with_fabric,
                                  server(), text, WHERE)
        self.assertIn('is no list of partitions', str(error))
