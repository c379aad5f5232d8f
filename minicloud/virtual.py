# SPDX-License-Identifier: Apache-2.0
"""Compute hosts in their own QEMU, for what this machine has not got.

Such a host has sockets, SMT, NUMA nodes with memory of their own, huge pages,
an IOMMU, and PCI devices on each node. There is no disk image: its root is
this machine's, read only, over 9p, with a tmpfs on top. So it has the
machine's libvirtd, QEMU and sshd and the cloud's virtual environment.

Nothing but its SSH and libvirt ports can be reached, and nothing from inside
but the ports that the tunnel brings, and other hosts of this kind: guests move
among these. Their network is UDP on loopback, which QEMU joins as a multicast
group.
"""

import dataclasses
import pathlib
import shlex
import socket
import subprocess
import sys

from minicloud import accelerator
from minicloud import compute
from minicloud import errors
from minicloud import initramfs
from minicloud import kernel
from minicloud import settings
from minicloud import ssh
from nova_pinning import cpuset
from nova_pinning import kvm

INIT = pathlib.Path(__file__).with_name('virtualinit.sh')

# Of the controller, at the same addresses inside.
TUNNELED = ('keystone', 'placement', 'glance', 'nova', 'neutron', 'rabbitmq')

NODE_MEMORY_MIB = 3072
# Of 2 MiB, on each node.
HUGE_PAGES = 128

# For its root, then for what it does.
MODULES = ('virtio_pci', '9pnet_virtio', '9p', 'overlay', 'virtio_net',
           'nvme', 'vfio_pci', 'vfio_iommu_type1')

# Where the address of the host itself is not seen.
ANY_ADDRESS = '0.0.0.0'

# Of those that are anybody's to use on his own machine, see RFC 2365.
LAN_GROUP = '239.255.0.1'

# On each node: what nova.PCI_ALIAS is to QEMU, two disks behind a switch, and
# one that can be split (SR-IOV). Disks without a medium do as well here.
NODE_DEVICES = (
    'pxb-pcie,id=pci{node},bus_nr={bus},numa_node={node},bus=pcie.0',
    'pcie-root-port,id=port{node},bus=pci{node},chassis={chassis}',
    'e1000e,bus=port{node},romfile=',
    'pcie-root-port,id=up{node},bus=pci{node},chassis={chassis},slot=1',
    'x3130-upstream,id=switch{node},bus=up{node}',
    'xio3130-downstream,id=left{node},bus=switch{node},chassis={chassis},'
    'slot=2',
    'nvme,bus=left{node},serial=left{node}',
    'xio3130-downstream,id=right{node},bus=switch{node},chassis={chassis},'
    'slot=3',
    'nvme,bus=right{node},serial=right{node}',
    'pcie-root-port,id=split{node},bus=pci{node},chassis={chassis},slot=4',
    'nvme-subsys,id=subsystem{node}',
    'nvme,bus=split{node},serial=split{node},subsys=subsystem{node},'
    'use-intel-id=on,sriov_max_vfs=2,sriov_vq_flexible=4,sriov_vi_flexible=2')
# Above those that the machine's own buses get.
FIRST_PCI_BUS = 64
PCI_BUSES_APART = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Topology:
    """The CPUs of a host; a socket is a NUMA node."""

    sockets: int
    cores: int
    threads: int

    @classmethod
    def parse(cls, text: str) -> 'Topology':
        """Return it from sockets x cores x threads, such as '2x2x2'."""
        return cls(*map(int, text.split('x')))

    @property
    def cpus(self) -> int:
        return self.sockets * self.cores * self.threads

    @property
    def memory_mib(self) -> int:
        return self.sockets * NODE_MEMORY_MIB

    def node_cpus(self, node: int) -> cpuset.CpuSet:
        size = self.cores * self.threads
        return cpuset.CpuSet(range(node * size, (node + 1) * size))


def _ssh(state: settings.State) -> list[str]:
    return ['ssh', '-F', str(ssh.client_config(state))]


def _shared_connection(state: settings.State,
                       host: settings.HostSettings) -> str:
    """Return the socket of the connection that the tunnel holds.

    To set up another one takes the host's slow CPUs a second.
    """
    return str(state.run / f'ssh-{host.name}')


class VirtualMachine(compute.ComputeHost):
    """The host itself: a QEMU, up to its sshd."""

    huge_page_sizes_kib = (2048,)
    listens_at = ANY_ADDRESS
    # Emulated, it boots in half a minute, or two of them where the machine
    # has other things to do; at times its kernel hangs.
    hang_seconds = (120.0, 180.0)
    deadline_seconds = 300.0

    def required(self) -> tuple[str, ...]:
        return ('ssh-keys', 'virt-type')

    @property
    def shares(self) -> dict[str, pathlib.Path]:
        """Directories of this machine by the name that the host mounts.

        All can be written to but the first two.
        """
        return {
            'root': pathlib.Path('/'),
            'etc': self.state.etc,
            'log': self.state.log / f'qemu-{self.host.name}',
            'cache': self.state.cache / 'libvirt' / self.host.name,
            'data': self.data}

    @property
    def lan_address(self) -> str:
        return self.settings.lan_address(self.host.name)

    @property
    def initrd(self) -> pathlib.Path:
        return self.data / 'initrd'

    def address_of(self, name: str) -> str:
        return self.settings.lan_address(name)

    def enter(self, command: list[str]) -> list[str]:
        terminal = ['-t'] if sys.stdin.isatty() else []
        return [*_ssh(self.state), '-S',
                _shared_connection(self.state, self.host),
                *terminal, '--', self.host.name, shlex.join(command)]

    def serve(self, command: list[str]) -> list[str]:
        return [*_ssh(self.state), '-o', 'ServerAliveInterval=30',
                '--', self.host.name,
                'exec ' + shlex.join(['setpriv', '--pdeathsig', 'KILL',
                                      *command])]

    def config(self) -> dict[pathlib.Path, str]:
        return {
            **super().config(),
            self.etc / 'ssh_config': ssh.client_config_text(
                self.state, self.settings, self.address_of),
            self.data / 'parameters': parameters({
                'NAME': self.host.name,
                'LAN_ADDRESS': f'{self.lan_address}/24',
                'LAN_CARDS': ' '.join(self.other_cards()),
                'ETC_DIR': self.state.etc,
                'DATA_DIR': self.data,
                'INSTANCES_DIR': compute.instances(self.state),
                'MODULES': ' '.join(MODULES),
                'HUGE_PAGES': HUGE_PAGES,
                'SSHD': f'{ssh.SSHD} -D -e -f {self.etc / "sshd_config"} '
                        f'-o MaxSessions=100 -o SetEnv=PATH={compute.PATH}',
            })}

    def prepare(self) -> None:
        for directory in (*self.shares.values(), self.data / 'nova',
                          self.data / 'instances', self.data / 'domains',
                          self.etc / 'provider_config',
                          compute.instances(self.state)):
            directory.mkdir(parents=True, exist_ok=True)
        programs = {'init': INIT, 'parameters': self.data / 'parameters',
                    'bin/busybox': kernel.busybox(self.state)}
        self.initrd.write_bytes(initramfs.archive(
            {name: path.read_bytes() for name, path in programs.items()}
            | initramfs.modules(kernel.modules_dir(self.state), MODULES),
            ('dev', 'proc', 'sys')))

    def command(self) -> list[str]:
        topology = Topology.parse(self.host.topology)
        virt_type = accelerator.virt_type(self.state)
        return [
            kvm.QEMU, '-name', self.name, '-nodefaults',
            '-no-user-config', '-display', 'none', '-serial', 'stdio',
            '-no-reboot', '-machine', 'q35,kernel-irqchip=split',
            '-accel', 'kvm' if virt_type == 'kvm' else 'tcg,thread=multi',
            *cpu_options(topology), *pci_options(topology),
            '-kernel', str(kernel.boot_image(self.state)),
            '-initrd', str(self.initrd),
            # The kernel's check of its timer counts on ticks that come in
            # time; where a busy machine emulates, they may not. If it hangs,
            # its last words are to tell where.
            '-append', 'console=ttyS0 earlyprintk=ttyS0 panic=-1 '
                       'mitigations=off intel_iommu=on no_timer_check',
            *self.share_options(),
            '-netdev', ','.join([
                'user', 'id=network', 'restrict=on',
                *(f'hostfwd=tcp:{self.address}:{port}-:{port}' for port in
                  map(self.settings.port, ('ssh', 'libvirt')))]),
            '-device', 'virtio-net-pci,bus=pcie.0,netdev=network,romfile=',
            *self.lan_options()]

    def lan_options(self) -> list[str]:
        """Return QEMU's options for the network of virtual hosts."""
        port = self.settings.port('lan')
        return [
            '-netdev', f'socket,id=lan,mcast={LAN_GROUP}:{port},'
                       f'localaddr={settings.CONTROLLER_ADDRESS}',
            '-device', 'virtio-net-pci,bus=pcie.0,netdev=lan,romfile=,'
                       f'mac={lan_card(self.lan_address)}']

    def other_cards(self) -> list[str]:
        """Return ADDRESS=CARD of each other virtual host."""
        addresses = (self.settings.lan_address(host.name)
                     for host in self.settings.hosts
                     if host.topology and host != self.host)
        return [f'{address}={lan_card(address)}' for address in addresses]

    def share_options(self) -> list[str]:
        options = []
        for tag, path in self.shares.items():
            readonly = 'on' if tag in ('root', 'etc') else 'off'
            # A comma in a value is written twice.
            source = str(path).replace(',', ',,')
            options += [
                '-fsdev', f'local,id={tag},path={source},multidevs=remap,'
                          f'security_model=passthrough,readonly={readonly}',
                '-device', f'virtio-9p-pci,bus=pcie.0,fsdev={tag},'
                           f'mount_tag={tag}']
        return options

    def check(self) -> None:
        # QEMU answers at once, whatever becomes of the guest, whose sshd needs
        # more seconds the busier the machine is.
        endpoint = (self.address, self.settings.port('ssh'))
        try:
            with socket.create_connection(endpoint, timeout=60) as connection:
                said = connection.recv(4)
        except OSError as e:
            raise errors.NotReady(f'no SSH at {endpoint}: {e}') from e
        if said != b'SSH-':
            raise errors.NotReady(f'no SSH at {endpoint} yet')


def lan_card(address: str) -> str:
    """Return what the network card with an address on the LAN is called."""
    last = int(address.rpartition('.')[2])
    return f'52:54:00:00:00:{last:02x}'


def parameters(values: dict[str, object]) -> str:
    """Return shell variables."""
    return ''.join(f'{name}={shlex.quote(str(value))}\n'
                   for name, value in values.items())


def cpu_options(topology: Topology) -> list[str]:
    """Return QEMU's options for CPUs and memory."""
    options = [
        # By itself it is an AMD CPU without topoext, on which Linux sees no
        # threads.
        '-cpu', 'max,vendor=GenuineIntel',
        '-smp', f'{topology.cpus},sockets={topology.sockets},'
                f'cores={topology.cores},threads={topology.threads}',
        '-m', str(topology.memory_mib)]
    for node in range(topology.sockets):
        options += [
            '-object', f'memory-backend-ram,id=memory{node},'
                       f'size={NODE_MEMORY_MIB}M',
            '-numa', f'node,nodeid={node},memdev=memory{node},'
                     f'cpus={topology.node_cpus(node)}']
    return options


def pci_options(topology: Topology) -> list[str]:
    """Return QEMU's options for an IOMMU and the PCI devices of each node."""
    options = ['-device', 'intel-iommu,intremap=on,caching-mode=on']
    for node in range(topology.sockets):
        bus = FIRST_PCI_BUS + node * PCI_BUSES_APART
        for device in NODE_DEVICES:
            options += ['-device', device.format(
                node=node, bus=bus, chassis=node + 1)]
    return options


class Tunnel(compute.HostService):
    """Brings the controller's ports into the host."""

    prefix = 'tunnel'

    def command(self) -> list[str]:
        options = [
            *_ssh(self.state), '-N', '-M', '-S',
            _shared_connection(self.state, self.host), '-o',
            'ExitOnForwardFailure=yes', '-o', 'ServerAliveInterval=30']
        for port in map(self.settings.port, TUNNELED):
            endpoint = f'{settings.CONTROLLER_ADDRESS}:{port}'
            options += ['-R', f'{endpoint}:{endpoint}']
        return [*options, self.host.name]

    def prepare(self) -> None:
        path = _shared_connection(self.state, self.host)
        pathlib.Path(path).unlink(missing_ok=True)

    def check(self) -> None:
        done = subprocess.run(
            [*_ssh(self.state), '-S',
             _shared_connection(self.state, self.host), '-O', 'check',
             self.host.name], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise errors.NotReady(done.stdout.strip())
