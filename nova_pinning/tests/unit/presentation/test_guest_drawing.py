# SPDX-License-Identifier: Apache-2.0

import re
import textwrap

import hypothesis
from hypothesis import strategies
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.host import guest_affinity
from nova_pinning.host import hardware
from nova_pinning.host import host_loader
from nova_pinning.host import host_model
from nova_pinning.presentation import drawing
from nova_pinning.presentation import guest_drawing
from nova_pinning.presentation import terminal_drawing
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.host import test_host_loader
from nova_pinning.tests.unit.presentation import drawings
from nova_pinning.tests.unit import unit_base


def cpus(cpu_list):
    return cpuset.CpuSet.parse(cpu_list)


def styles(drawn):
    return {style: str(cpuset.CpuSet(own)) for style, own in
            drawings.of_style(drawings.tiles(drawn)).items()}


def above(drawn):
    return [node.above for node in drawn.hosts[0].nodes]


class TestDraw(oslotest.BaseTestCase):
    """What is drawn, whoever shows it."""

    def test_the_host_alone(self):
        host = host_samples.host(nova=host_samples.settings('2-3,5-7', '1'))
        found = guest_drawing.draw(host, cpus('3,7'))
        self.assertEqual(
            {'taken': '3,7', 'free': '2,5-6', 'shared': '1', 'kept': '0,4'},
            styles(found))
        self.assertEqual(('small', ()), (found.title, found.remarks))

    def test_pinned_guest_with_emulator_threads_apart(self):
        host = host_samples.host(nova=host_samples.settings('2-3,5-7', '1'))
        found = guest_drawing.draw(
            host, cpus('3,7,2'), guest_affinity.GuestAffinity(
                vcpu_cpus={0: cpus('2'), 1: cpus('6')},
                emulator_cpus=cpus('1'), memory_nodes={0: 1}, name='a'))
        self.assertEqual(
            {'pinned': '2,6', 'emulator': '1', 'taken': '3,7', 'free': '5',
             'kept': '0,4'}, styles(found))
        self.assertEqual(
            drawing.Tile(drawing.TileStyle.PINNED, '1'),
            drawings.tiles(found)[6])
        self.assertEqual(
            ('vCPUs 0-1 pinned to CPUs 2,6', 'emulator threads on CPU 1'),
            found.remarks)
        self.assertEqual('a on small', found.title)
        self.assertEqual(['', 'guest cell 0: vCPUs 0-1'], above(found))

    def test_legend(self):
        found = guest_drawing.draw(
            host_samples.host(), cpus('1,3'), guest_affinity.GuestAffinity(
                vcpu_cpus={1: cpus('2'), 0: cpus('6')}))
        self.assertEqual([
            ('0', 'vCPU of this guest, by number, pinned'),
            ('x', 'taken by another guest: CPUs 1,3'),
            ('.', 'free: CPUs 0,4-5,7'),
        ], [(tile.sign, meaning) for tile, meaning in found.legend])

    def test_floating_guest(self):
        host = host_samples.host(nova=host_samples.settings(None, '1-7'))
        found = guest_drawing.draw(
            host, placement=guest_affinity.GuestAffinity(
                vcpu_cpus={0: cpus(''), 1: cpus('')},
                emulator_cpus=cpus('1-7')))
        self.assertEqual({'floating': '1-7', 'kept': '0'}, styles(found))
        self.assertEqual(['vCPUs 0-1 float'] * 2, above(found))
        self.assertEqual(
            ('vCPUs 0-1 floating over CPUs 1-7',
             'emulator threads on CPUs 1-7'), found.remarks)

    def test_mixed_guest(self):
        host = host_samples.host(nova=host_samples.settings('2-7', '1'))
        found = guest_drawing.draw(
            host, placement=guest_affinity.GuestAffinity(
                vcpu_cpus={0: cpus('1'), 1: cpus('5')},
                emulator_cpus=cpus('1,5'), memory_nodes={0: 0}))
        # To float over one CPU is not to be pinned to it.
        self.assertEqual(
            {'pinned': '5', 'floating': '1', 'free': '2-4,6-7', 'kept': '0'},
            styles(found))
        self.assertEqual((
            'vCPU 1 pinned to CPU 5', 'vCPU 0 floating over CPU 1',
            'emulator threads on the same CPUs'), found.remarks)

    def test_nova_without_settings(self):
        found = guest_drawing.draw(
            host_samples.host(), cpus('3'), guest_affinity.GuestAffinity(
                vcpu_cpus={0: cpus('5')}))
        self.assertEqual(
            {'pinned': '5', 'taken': '3', 'free': '0-2,4,6-7'},
            styles(found))


class TestTerminal(oslotest.BaseTestCase):

    def test_pinned_guest(self):
        host = host_samples.host(nova=host_samples.settings('1-3,5-7'))
        placement = guest_affinity.GuestAffinity(
            vcpu_cpus={10: cpus('2'), 11: cpus('6')},
            emulator_cpus=cpus('2,6'), memory_nodes={0: 1},
            name='dedicated')
        self.assertEqual(textwrap.dedent("""\
            dedicated on small: 2 sockets, 2 NUMA nodes, 4 cores, 8 CPUs
              vCPUs 10-11 pinned to CPUs 2,6
              emulator threads on the same CPUs
            node 0 (socket 0, 8 GiB)
              CPUs 0-1  #  x
              CPUs 4-5  #  x
            node 1 (socket 1, 8 GiB)  guest cell 0: vCPUs 10-11
              CPUs 2-3 10  .
              CPUs 6-7 11  .
              10 vCPU of this guest, by number, pinned
               x taken by another guest: CPUs 1,5
               . free: CPUs 3,7
               # kept for the host: CPUs 0,4
            """), drawings.text(guest_drawing.draw(
                host, cpus('1,5'), placement)))

    def test_devices(self):
        """On the nodes of the host, whichever cells the guest has there."""
        def device(number, node, alias, parent=''):
            return host_model.PciDevice(
                f'0000:{number:02x}:00.0', '10de', '2330', node, alias,
                parent=parent)
        host = host_samples.host(
            pci_devices=(
                device(1, 0, 'gpu', '0000:e2:00.0'),
                device(2, 0, 'gpu', '0000:e2:00.0'),
                device(3, 0, 'gpu'), device(4, 0, 'gpu'), device(5, 1, 'ib'),
                device(6, None, 'fpga')),
            pci_bridges=(hardware.PciBridge(
                '0000:e1:00.0', 'pci0000:e0', hardware.PciPort.UPSTREAM),
                hardware.PciBridge('0000:e2:00.0', '0000:e1:00.0')))
        placement = guest_affinity.GuestAffinity(
            vcpu_cpus={0: cpus('1')}, memory_nodes={0: 0},
            devices=frozenset(f'0000:0{number}:00.0'
                              for number in (1, 2, 3, 5, 6)))
        drawn = guest_drawing.draw(host, placement=placement)
        self.assertEqual(
            '5 PCI devices, in the guest below no switch and on no NUMA node',
            drawn.remarks[-1])
        self.assertEqual([
            'for this guest: 0000:01:00.0, 0000:02:00.0 (gpu, behind switch '
            '0000:e1:00.0)',
            'for this guest: 0000:03:00.0 (gpu)',
            'for this guest: 0000:05:00.0 (ib)',
            'for this guest: 0000:06:00.0 (fpga)'], [
                line.strip() for line in drawings.plain(drawn, 120)
                if 'for this guest' in line])

    def test_long_names_and_lists(self):
        host = host_samples.host(name='n' * 50)
        placement = guest_affinity.GuestAffinity(
            vcpu_cpus={0: cpus('1')}, name='a\x1b[31m' + 'b' * 100)
        self.assertEqual(40, max(map(len, drawings.plain(
            guest_drawing.draw(host), 40))))
        self.assertNotIn('\x1b', drawings.text(
            guest_drawing.draw(host, cpus(''), placement), 60))

    @unit_base.settings(max_examples=100)
    @hypothesis.given(strategies.data(), strategies.integers(40, 160))
    def test_any_guest_on_any_host(self, data, width):
        host = data.draw(host_samples.any_host())
        used, placement = data.draw(host_samples.any_placement(host))
        drawn = guest_drawing.draw(host, used, placement)
        for line in drawings.plain(drawn, width):
            self.assertLessEqual(len(line), width)
        shared = host.nova.shared_cpus or cpuset.CpuSet()
        self.assertEqual(
            sorted(vcpu for vcpu, where in placement.vcpu_cpus.items()
                   if len(where) == 1 and not where.issubset(shared)),
            sorted(int(tile.sign) for tile in drawings.tiles(drawn).values()
                   if tile.style is drawing.TileStyle.PINNED))

    def test_examples(self):
        """Each CPU is there once, and the legend has each kind of use."""
        for path in test_host_loader.EXAMPLES.iterdir():
            drawn = guest_drawing.draw(host_loader.load(path))
            for width in (80, 120):
                signs = sum(
                    len(re.findall(r'(?<=[ |])[.#:](?=$|[ |])', line))
                    for line in drawings.plain(drawn, width))
                self.assertEqual(
                    len(drawings.tiles(drawn)) + len(drawn.legend), signs,
                    path)

    def test_colours_of_guest_cells(self):
        tiles = [drawing.Tile(drawing.TileStyle.PINNED, str(cell), cell)
                 for cell in range(9)]
        looks = list(map(terminal_drawing.style, tiles))
        self.assertEqual(8, len(set(looks)))
        self.assertEqual(looks[0], looks[8])
