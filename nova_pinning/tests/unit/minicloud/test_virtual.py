# SPDX-License-Identifier: Apache-2.0

import configparser
import dataclasses
import json
import pathlib
import re
import shlex
import socket
import threading
from unittest import mock

import ddt
import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslo_base

from minicloud import accelerator
from minicloud import cloud
from minicloud import errors
from minicloud import hosts
from minicloud import initramfs
from minicloud import kernel
from minicloud import prepare
from minicloud import settings
from minicloud import virtual
from nova_pinning import cpuset
from nova_pinning.tests.unit.minicloud import minicloud_case
from nova_pinning.tests.unit import unit_base

SIZES = st.integers(1, 4)


class Base(minicloud_case.StateTestCase):

    def setUp(self):
        super().setUp()
        self.host = settings.HostSettings('virtual-1', '2-7', '0-1', '2x2x2')
        self.settings = settings.Settings(hosts=(
            settings.HostSettings('pinning-1', '1', '0'), self.host))
        modules = self.state.cache / 'kernel/lib/modules/6.1.0'
        for path in ('boot/vmlinuz-6.1.0', 'bin/busybox',
                     'lib/modules/6.1.0/modules.dep'):
            path = self.state.cache / 'kernel' / path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text('')
        self.assertEqual(modules, kernel.modules_dir(self.state))
        self.virt_type('qemu')

    def virt_type(self, kind):
        self.patch(accelerator, 'virt_type', return_value=kind)

    def part(self, kind):
        return kind(self.state, self.settings, self.host)


def values(arguments, option):
    """Return what was given with an option of QEMU, each time."""
    return [value for name, value in zip(arguments, arguments[1:])
            if name == option]


def fields(value):
    """Return the properties in a value, {'': first} for what has no name."""
    return {key if mark else '': text if mark else key
            for key, mark, text in (
                part.partition('=') for part in value.split(','))}


class TestTopology(oslo_base.BaseTestCase):

    @unit_base.settings(100)
    @hypothesis.given(SIZES, SIZES, SIZES)
    def test_nodes_share_out_the_cpus(self, sockets, cores, threads):
        topology = virtual.Topology.parse(f'{sockets}x{cores}x{threads}')
        options = virtual.cpu_options(topology)
        smp, = map(fields, values(options, '-smp'))
        self.assertEqual(sockets * cores * threads, int(smp['']))
        self.assertEqual((sockets, cores, threads), tuple(
            int(smp[name]) for name in ('sockets', 'cores', 'threads')))
        nodes = [fields(value) for value in values(options, '-numa')]
        found = [cpu for node in nodes
                 for cpu in cpuset.CpuSet.parse(node['cpus'])]
        self.assertEqual(list(range(topology.cpus)), found)
        # QEMU numbers the CPUs of a socket one after the other.
        for number, node in enumerate(nodes):
            self.assertEqual({number}, {
                cpu // (cores * threads)
                for cpu in cpuset.CpuSet.parse(node['cpus'])})

    @unit_base.settings(20)
    @hypothesis.given(SIZES)
    def test_nodes_share_out_the_memory(self, sockets):
        options = virtual.cpu_options(virtual.Topology(sockets, 1, 1))
        memory = {fields(value)['id']: fields(value)['size']
                  for value in values(options, '-object')}
        used = [memory.pop(fields(value)['memdev'])
                for value in values(options, '-numa')]
        self.assertEqual({}, memory)
        self.assertEqual(values(options, '-m'), [str(sum(
            int(size.removesuffix('M')) for size in used))])

    @unit_base.settings(20)
    @hypothesis.given(SIZES)
    def test_devices_of_each_node(self, sockets):
        devices = [fields(value) for value in values(
            virtual.pci_options(virtual.Topology(sockets, 1, 1)), '-device')]
        by_id = {device['id']: device for device in devices
                 if 'id' in device}
        above = [way(device, by_id) for device in devices
                 if device[''] in ('e1000e', 'nvme')]
        self.assertEqual([
            (str(node), ports) for node in range(sockets) for ports in (
                1, 3, 3, 1)], above)
        numbers = [int(device['bus_nr']) for device in devices
                   if 'bus_nr' in device]
        # Each has a bus of its own, and each port one below it.
        for number, following in zip(numbers, [*numbers[1:], 256]):
            self.assertGreater(following - number,
                               len(virtual.NODE_DEVICES))
        slots = [(device['chassis'], device.get('slot', '0'))
                 for device in devices if 'chassis' in device]
        self.assertEqual(len(slots), len(set(slots)))


def way(device, by_id):
    """The node of a device, and how many ports are above it."""
    ports = 0
    while 'numa_node' not in device:
        device = by_id[device['bus']]
        ports += 1
    return device['numa_node'], ports - 1


@ddt.ddt
class TestVirtualMachine(Base):

    def test_all_that_is_needed_is_a_part(self):
        whole = cloud.Cloud(self.state, self.settings)
        for part in hosts.parts(self.state, self.settings, self.host):
            self.assertIn(part.name, whole.parts)
            for name in part.requires:
                self.assertIn(name, whole.parts)

    @ddt.data(('qemu', 'tcg,thread=multi'), ('kvm', 'kvm'))
    @ddt.unpack
    def test_accelerator(self, kind, wanted):
        self.virt_type(kind)
        command = self.part(virtual.VirtualMachine).command()
        self.assertEqual([wanted], values(command, '-accel'))

    def test_network_is_loopback_and_restricted(self):
        command = self.part(virtual.VirtualMachine).command()
        network, lan = values(command, '-netdev')
        address = self.settings.host_address('virtual-1')
        self.assertIn('restrict=on', network.split(','))
        forwards = [part for part in network.split(',')
                    if part.startswith('hostfwd')]
        self.assertEqual([
            f'hostfwd=tcp:{address}:{port}-:{port}' for port in (
                self.settings.port('ssh'), self.settings.port('libvirt'))],
            forwards)
        # Frames of the other one are sent from, and come by, loopback.
        self.assertIn(f'localaddr={settings.CONTROLLER_ADDRESS}',
                      lan.split(','))

    def test_programs_and_configuration_are_read_only(self):
        machine = self.part(virtual.VirtualMachine)
        shares = [fields(value)
                  for value in values(machine.command(), '-fsdev')]
        self.assertEqual(
            {'root': ('/', 'on'), 'etc': (str(self.state.etc), 'on')},
            {share['id']: (share['path'], share['readonly'])
             for share in shares if share['readonly'] != 'off'})
        writable = [share['path'] for share in shares
                    if share['readonly'] == 'off']
        for path in writable:
            self.assertIn('virtual-1', path)
        tags = [fields(value)['mount_tag']
                for value in values(machine.command(), '-device')
                if value.startswith('virtio-9p')]
        self.assertEqual([share['id'] for share in shares], tags)
        script = virtual.INIT.read_text()
        for tag in tags:
            self.assertIn(f' {tag} ', script)

    def test_console_tells_where_a_boot_hangs(self):
        line, = values(self.part(virtual.VirtualMachine).command(), '-append')
        words = line.split()
        self.assertIn('console=ttyS0', words)
        self.assertIn('earlyprintk=ttyS0', words)
        self.assertNotIn('quiet', words)

    def test_comma_in_a_path(self):
        self.state.etc = pathlib.Path('/a,b')
        command = self.part(virtual.VirtualMachine).command()
        self.assertIn('path=/a,,b,', values(command, '-fsdev')[1])

    def test_devices_know_their_bus(self):
        # Else QEMU takes the last that has room, which is a node's.
        command = self.part(virtual.VirtualMachine).command()
        for value in values(command, '-device'):
            device = fields(value)
            if device[''] not in ('intel-iommu', 'nvme-subsys'):
                self.assertIn('bus', device, value)

    def test_prepare(self):
        machine = self.part(virtual.VirtualMachine)
        for path, text in machine.config().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        machine.prepare()
        for path in machine.shares.values():
            self.assertTrue(path.is_dir(), path)
        # What it keeps when it is started anew.
        for name in re.findall(r'--bind "\.\$DATA_DIR/(\w+)"',
                               virtual.INIT.read_text()):
            self.assertTrue((machine.data / name).is_dir(), name)
        content = machine.initrd.read_bytes()
        self.assertIn(virtual.INIT.read_bytes(), content)
        self.assertIn(b'NAME=virtual-1\n', content)
        self.assertEqual(content[:6], initramfs.archive({})[:6])

    def test_script_gets_what_it_asks_for(self):
        machine = self.part(virtual.VirtualMachine)
        text = machine.config()[machine.data / 'parameters']
        given = {line.partition('=')[0] for line in text.splitlines()}
        script = virtual.INIT.read_text()
        used = set(re.findall(r'\$([A-Z_]+)', script))
        own = set(re.findall(r'^(?:export )?([A-Z_]+)=', script, re.M))
        self.assertEqual(given, used - own)

    @unit_base.settings(100)
    @hypothesis.given(st.text(
        st.characters(codec='utf-8', exclude_characters='\0\r'), max_size=9))
    def test_parameters_are_shell(self, value):
        text = virtual.parameters({'NAME': value})
        self.assertEqual([f'NAME={value}'], shlex.split(text))


class TestLan(Base):
    """Guests move from a virtual host to another."""

    def setUp(self):
        super().setUp()
        self.other = settings.HostSettings('virtual-2', '2-7', '0-1', '2x2x2')
        self.settings = dataclasses.replace(
            self.settings, hosts=(*self.settings.hosts, self.other))

    def machines(self):
        return [virtual.VirtualMachine(self.state, self.settings, host)
                for host in (self.host, self.other)]

    def test_one_network_two_cards(self):
        networks, cards = zip(*(machine.lan_options()[1::2]
                                for machine in self.machines()))
        self.assertEqual(1, len(set(networks)))
        self.assertEqual(2, len({fields(card)['mac'] for card in cards}))

    def test_other_clouds_have_another(self):
        found = set()
        for base_port in (23000, 24000):
            self.settings = dataclasses.replace(
                self.settings, base_port=base_port)
            found.add(fields(self.machines()[0].lan_options()[1])['mcast'])
        self.assertEqual(2, len(found))

    def test_hosts_know_where_the_others_are(self):
        addresses = {name: self.settings.lan_address(name)
                     for name in ('virtual-1', 'virtual-2')}
        self.assertEqual(2, len(set(addresses.values())))
        for machine in self.machines():
            config = machine.config()
            known = dict(reversed(line.split()) for line in config[
                machine.etc / 'hosts'].splitlines())
            self.assertEqual(addresses, {
                name: known[name] for name in addresses})
            for name, address in addresses.items():
                # 127.0.0.0/8 is the host itself, whichever it is.
                self.assertFalse(address.startswith('127.'))
                self.assertIn(f'Host {name} {address}\n',
                              config[machine.etc / 'ssh_config'])
            own = addresses[machine.host.name]
            self.assertIn(f'migration_address = "{own}"',
                          config[machine.etc / 'libvirt' / 'qemu.conf'])
            self.assertIn(f'LAN_ADDRESS={own}/24\n',
                          config[machine.data / 'parameters'])

    def test_nobody_has_to_ask_for_addresses(self):
        """All know each card, and which address it has."""
        cards = {machine.lan_address: fields(machine.lan_options()[3])['mac']
                 for machine in self.machines()}
        for machine in self.machines():
            text = machine.config()[machine.data / 'parameters']
            neighbours, = (line.partition('=')[2] for line in text.splitlines()
                           if line.startswith('LAN_CARDS='))
            others = {address: mac for address, mac in cards.items()
                      if address != machine.lan_address}
            self.assertEqual(others, dict(
                pair.split('=') for pair in ''.join(
                    shlex.split(neighbours)).split()))

    def test_nova_is_told(self):
        for host in (self.host, self.other):
            made = hosts.NovaCompute(self.state, self.settings, host)
            parser = configparser.RawConfigParser()
            parser.read_string(made.config()[
                self.state.etc / host.name / 'nova-compute.conf'])
            own = self.settings.lan_address(host.name)
            self.assertEqual(own, parser['DEFAULT']['my_ip'])
            self.assertEqual(
                own, parser['libvirt']['live_migration_inbound_addr'])


class TestCheck(Base):
    """QEMU takes connections for a guest that may not be there yet."""

    def check(self, answer):
        machine = self.part(virtual.VirtualMachine)
        with socket.create_server(('127.0.0.1', 0)) as server:
            def serve():
                connection, _ = server.accept()
                with connection:
                    connection.sendall(answer)

            thread = threading.Thread(target=serve)
            thread.start()
            machine.address, port = server.getsockname()
            with mock.patch.object(settings.Settings, 'port',
                                   return_value=port):
                try:
                    machine.check()
                finally:
                    thread.join()

    def test_sshd(self):
        self.check(b'SSH-2.0-OpenSSH\r\n')

    def test_closed_at_once(self):
        self.assertRaises(errors.NotReady, self.check, b'')

    def test_something_else(self):
        self.assertRaises(errors.NotReady, self.check, b'HTTP/1.1 400\r\n')

    def test_nobody_listens(self):
        with socket.create_server(('127.0.0.1', 0)) as server:
            port = server.getsockname()[1]
        machine = self.part(virtual.VirtualMachine)
        machine.address = '127.0.0.1'
        with mock.patch.object(settings.Settings, 'port', return_value=port):
            self.assertRaises(errors.NotReady, machine.check)


class TestInside(Base):

    @unit_base.settings(100)
    @hypothesis.given(st.lists(st.text(
        st.characters(codec='utf-8', exclude_characters='\0'), max_size=9),
        min_size=1, max_size=4))
    def test_enter_keeps_words_apart(self, command):
        # The shell at the other end takes the last argument.
        *_, host, line = self.part(virtual.VirtualMachine).enter(command)
        self.assertEqual('virtual-1', host)
        self.assertEqual(command, shlex.split(line))

    def test_services_end_with_their_session(self):
        for kind in (hosts.Libvirtd, hosts.NovaCompute):
            command = self.part(kind).command()
            self.assertEqual(
                ['exec', 'setpriv', '--pdeathsig', 'KILL'],
                shlex.split(command[-1])[:4])
            # In a shared one a process outlives the client.
            self.assertNotIn('-S', command)

    def test_tunnel_brings_what_the_catalogue_names(self):
        command = self.part(virtual.Tunnel).command()
        brought = values(command, '-R')
        for place in brought:
            before, after = place[:len(place) // 2], place[-(
                len(place) // 2):]
            self.assertEqual(before, after)
        for name in ('keystone', 'rabbitmq', *prepare.SERVICES):
            place = (f'{settings.CONTROLLER_ADDRESS}:'
                     f'{self.settings.port(name)}')
            self.assertIn(f'{place}:{place}', brought)

    def test_tunnel_is_ready_when_ssh_says_so(self):
        tunnel = self.part(virtual.Tunnel)
        with mock.patch.object(virtual.subprocess, 'run') as run:
            run.return_value = mock.Mock(returncode=255, stdout='no master\n')
            failure = self.assertRaises(errors.NotReady, tunnel.check)
            self.assertEqual('no master', str(failure))
            run.return_value = mock.Mock(returncode=0, stdout='running\n')
            tunnel.check()

    def test_tunnel_begins_without_a_socket_of_an_earlier_one(self):
        tunnel = self.part(virtual.Tunnel)
        left, = values(tunnel.command(), '-S')
        pathlib.Path(left).touch()
        tunnel.prepare()
        self.assertFalse(pathlib.Path(left).exists())
        tunnel.prepare()

    def test_nova_compute_is_the_same_program_as_on_other_hosts(self):
        nova_compute = self.part(hosts.NovaCompute)
        line = nova_compute.command()[-1]
        program = nova_compute.inner_command()
        self.assertEqual(program, shlex.split(line)[-len(program):])

    def test_nova_compute(self):
        files = self.part(hosts.NovaCompute).config()
        parser = configparser.RawConfigParser()
        parser.read_string(
            files[self.state.etc / 'virtual-1' / 'nova-compute.conf'])
        self.assertEqual('2-7', parser['compute']['cpu_dedicated_set'])
        self.assertEqual('qemu', parser['libvirt']['virt_type'])
        spec = json.loads(parser['pci']['device_spec'])
        alias = json.loads(parser['pci']['alias'])
        self.assertEqual(spec, {key: alias[key] for key in spec})
        self.assertFalse(parser.has_section('database'))

    def test_provider_config(self):
        given = self.directory / 'given.yaml'
        given.write_text('meta: {}\n')
        self.host = dataclasses.replace(
            self.host, provider_config=str(given))
        made = self.part(hosts.NovaCompute)
        path = made.providers / 'provider.yaml'
        self.assertEqual('meta: {}\n', made.config()[path])
        path.parent.mkdir(parents=True)
        path.touch()
        (path.parent / 'old.yaml').touch()
        made.prepare()
        self.assertEqual([path], list(path.parent.iterdir()))
