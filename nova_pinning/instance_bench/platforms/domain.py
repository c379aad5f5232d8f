# SPDX-License-Identifier: Apache-2.0
"""The domain XML of guests, and how libvirt is made to run one.

The format: https://libvirt.org/formatdomain.html
"""

from collections.abc import Sequence
import contextlib
import dataclasses
import pathlib
import shlex
import subprocess
import threading
from xml.etree import ElementTree

from nova_pinning import cpuset
from nova_pinning.flavors import flavor_model
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import guest_shape
from nova_pinning.instance_bench.platforms import process

_AGENT = 'org.qemu.guest_agent.0'
_NOVA = '{http://openstack.org/xmlns/libvirt/nova/1.1}'
_ANSWER_SECONDS = 300.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TapLink:
    """A guest's only network interface: a tap device that leads to this host.

    :param device: name of the tap device
    :param host: address of this host on it
    :param guest: address of the guest
    :param prefix: length of their network's
    """

    device: str
    host: str
    guest: str
    prefix: int = 30
    vhost: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DomainSpec:
    """A guest that is wanted.

    :param accelerator: 'kvm' or 'tcg'
    :param arguments: for the kernel
    :param cache: of the disk, as libvirt has it
    :param console: file for what the guest says on its serial console
    """

    name: str
    accelerator: str
    memory_mib: int
    instance_cpus: platform_interface.InstanceCpus
    shape: guest_shape.GuestShape
    kernel: pathlib.Path
    initrd: pathlib.Path
    arguments: str
    disk: pathlib.Path
    cache: str
    console: pathlib.Path
    link: TapLink | None = None


def domain_xml_of(spec: DomainSpec) -> str:
    """The domain XML of a guest."""
    is_kvm = spec.accelerator == 'kvm'
    root = ElementTree.Element('domain', {'type': 'kvm' if is_kvm else 'qemu'})
    _add(root, 'name', spec.name)
    _add(root, 'memory', str(spec.memory_mib), unit='MiB')
    places = spec.instance_cpus
    _add(root, 'vcpu', str(len(places.vcpus)), **(
        {} if places.are_pinned else {'cpuset': str(places.cpus)}))
    _wishes(root, spec.shape)
    _tune(root, spec)
    _memory(root, spec.shape)
    system = _add(root, 'os')
    _add(system, 'type', 'hvm', machine='q35')
    _add(system, 'kernel', str(spec.kernel))
    _add(system, 'initrd', str(spec.initrd))
    _add(system, 'cmdline', spec.arguments)
    _add(_add(root, 'features'), 'acpi')
    # What TCG has by default is what it emulates fastest.
    _processor(_add(root, 'cpu', **(
        {'mode': 'host-passthrough'} if is_kvm else {})), spec.shape)
    # A panic or reboot is the end of it.
    _add(root, 'on_reboot', 'destroy')
    _add(root, 'on_crash', 'destroy')
    _devices(_add(root, 'devices'), spec)
    return ElementTree.tostring(root, encoding='unicode')


def _add(parent: ElementTree.Element, tag: str, text: str = '',
         **attributes: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, tag, attributes)
    element.text = text or None
    return element


def _wishes(root: ElementTree.Element, shape: guest_shape.GuestShape) -> None:
    """What the guest asks nova-pinning agent for, as nova tells it."""
    if not shape.l3_ways:
        return
    parent = _add(root, 'metadata')
    for tag in ('instance', 'flavor', 'extraSpecs'):
        parent = _add(parent, f'{_NOVA}{tag}')
    _add(parent, f'{_NOVA}extraSpec', str(shape.l3_ways),
         name=flavor_model.L3_WAYS_KEY)


def _tune(root: ElementTree.Element, spec: DomainSpec) -> None:
    tune = _add(root, 'cputune')
    if spec.shape.shares is not None:
        _add(tune, 'shares', str(spec.shape.shares))
    places = spec.instance_cpus
    if places.are_pinned:
        for number, cpus in enumerate(places.vcpus):
            _add(tune, 'vcpupin', vcpu=str(number), cpuset=str(cpus))
    # Where vCPUs float, what is not pinned floats with them.
    if places.emulator and (places.are_pinned
                            or places.emulator != places.cpus):
        _add(tune, 'emulatorpin', cpuset=str(places.emulator))


def _memory(root: ElementTree.Element, shape: guest_shape.GuestShape) -> None:
    """Where memory comes from, and in which pages."""
    if shape.page_size_kib:
        _add(_add(_add(root, 'memoryBacking'), 'hugepages'), 'page',
             size=str(shape.page_size_kib), unit='KiB',
             nodeset=str(cpuset.CpuSet(cell.id for cell in shape.cells)))
    if not shape.cells:
        return
    tune = _add(root, 'numatune')
    _add(tune, 'memory', mode='strict', nodeset=str(shape.nodes))
    for cell in shape.cells:
        _add(tune, 'memnode', cellid=str(cell.id), mode=cell.mode,
             nodeset=str(cell.host_nodes))


def _processor(cpu: ElementTree.Element,
               shape: guest_shape.GuestShape) -> None:
    """What the guest is told of its sockets and NUMA cells."""
    topology = dataclasses.asdict(shape.topology)
    _add(cpu, 'topology', **{
        word: str(number) for word, number in topology.items()})
    numa = _add(cpu, 'numa') if shape.cells else cpu
    for cell in shape.cells:
        _add(numa, 'cell', id=str(cell.id), cpus=str(cell.cpus),
             memory=str(cell.memory_kib), unit='KiB')


def _devices(devices: ElementTree.Element, spec: DomainSpec) -> None:
    disk = _add(devices, 'disk', type='file', device='disk')
    _add(disk, 'driver', name='qemu', type='qcow2', cache=spec.cache)
    _add(disk, 'source', file=str(spec.disk))
    _add(disk, 'target', dev='vda', bus='virtio')
    serial = _add(devices, 'serial', type='file')
    _add(serial, 'source', path=str(spec.console))
    channel = _add(devices, 'channel', type='unix')
    _add(channel, 'target', type='virtio', name=_AGENT)
    random = _add(devices, 'rng', model='virtio')
    _add(random, 'backend', '/dev/urandom', model='random')
    _add(devices, 'memballoon', model='none')
    if spec.link:
        interface = _add(devices, 'interface', type='ethernet')
        _add(interface, 'target', dev=spec.link.device)
        _add(interface, 'model', type='virtio')
        _add(interface, 'driver',
             name='vhost' if spec.link.vhost else 'qemu', **(
                 {'queues': str(spec.shape.queues)}
                 if spec.shape.queues > 1 else {}))


class TransientDomain:
    """A transient domain, which ends with this object or this process.

    A virsh of its own has it, and libvirt ends it when that goes.

    :param virsh: how virsh is called, with its connection
    :param name: of the domain
    :param definition: file with its XML
    """

    def __init__(self, virsh: Sequence[str], name: str,
                 definition: pathlib.Path) -> None:
        self._destroy = (*virsh, 'destroy', '--domain', name)
        try:
            self._virsh = subprocess.Popen(
                # Its output is buffered unless it goes to a terminal.
                ['stdbuf', '--output=L', *virsh],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, start_new_session=True,
                env=process.untranslated())
        except OSError as error:
            raise bench_errors.InstanceError(
                f'{virsh[0]}: {error.strerror}') from None
        # Of a libvirt that hangs nobody would ever hear again.
        timer = threading.Timer(_ANSWER_SECONDS, self._virsh.kill)
        timer.start()
        try:
            self._create(name, definition)
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()

    def close(self) -> None:
        """End it; can be repeated."""
        if self._virsh.poll() is None:
            # It may have ended by itself.
            with contextlib.suppress(bench_errors.InstanceError):
                process.run(self._destroy)
        # What virsh has not read is lost.
        with contextlib.suppress(BrokenPipeError), self._virsh:
            self._virsh.kill()

    def _create(self, name: str, definition: pathlib.Path) -> None:
        stdin, stdout = self._virsh.stdin, self._virsh.stdout
        assert stdin is not None and stdout is not None
        said = []
        with contextlib.suppress(OSError):
            stdin.write(f'create --file {shlex.quote(str(definition))} '
                        '--autodestroy\n')
            stdin.flush()
            for line in stdout:
                if ' created from ' in line:
                    return
                if 'error: ' in line:
                    said.append(line.partition('error: ')[2].strip())
                    # It says the rest of it, and ends.
                    stdin.close()
        raise bench_errors.InstanceError(
            f'libvirt cannot start domain {name}: '
            f'{" ".join(said) or "virsh has ended"}',
            f'see /var/log/libvirt/qemu/{name}.log')
