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
    shape, places = spec.shape, spec.instance_cpus
    cells = shape.cells
    root = _of(
        'domain', _of('name', spec.name),
        _of('memory', spec.memory_mib, unit='MiB'),
        _of('vcpu', len(places.vcpus),
            cpuset=None if places.are_pinned else places.cpus),
        # What it asks nova-pinning agent for, as nova tells it.
        shape.l3_ways and _of('metadata', _of(f'{_NOVA}instance', _of(
            f'{_NOVA}flavor', _of(f'{_NOVA}extraSpecs', _of(
                f'{_NOVA}extraSpec', shape.l3_ways,
                name=flavor_model.L3_WAYS_KEY))))),
        _of('cputune',
            shape.shares and _of('shares', shape.shares),
            *(_of('vcpupin', vcpu=number, cpuset=cpus)
              for number, cpus in enumerate(places.vcpus)
              if places.are_pinned),
            # Where vCPUs float, what is not pinned floats with them.
            places.emulator
            and (places.are_pinned or places.emulator != places.cpus)
            and _of('emulatorpin', cpuset=places.emulator)),
        shape.page_size_kib and _of('memoryBacking', _of('hugepages', _of(
            'page', size=shape.page_size_kib, unit='KiB',
            nodeset=cpuset.CpuSet(cell.id for cell in cells)))),
        cells and _of(
            'numatune', _of('memory', mode='strict', nodeset=shape.nodes),
            *(_of('memnode', cellid=cell.id, mode=cell.mode,
                  nodeset=cell.host_nodes) for cell in cells)),
        _of('os', _of('type', 'hvm', machine='q35'),
            _of('kernel', spec.kernel), _of('initrd', spec.initrd),
            _of('cmdline', spec.arguments)),
        _of('features', _of('acpi')),
        _of('cpu', _of('topology', **dataclasses.asdict(shape.topology)),
            cells and _of('numa', *(
                _of('cell', id=cell.id, cpus=cell.cpus,
                    memory=cell.memory_kib, unit='KiB') for cell in cells)),
            # What TCG has by default is what it emulates fastest.
            mode='host-passthrough' if is_kvm else None),
        # A panic or reboot is the end of it.
        _of('on_reboot', 'destroy'), _of('on_crash', 'destroy'),
        _devices(spec),
        type='kvm' if is_kvm else 'qemu')
    return ElementTree.tostring(root, encoding='unicode')


def _devices(spec: DomainSpec) -> ElementTree.Element:
    link, queues = spec.link, spec.shape.queues
    return _of(
        'devices',
        _of('disk', _of('driver', name='qemu', type='qcow2',
                        cache=spec.cache),
            _of('source', file=spec.disk),
            _of('target', dev='vda', bus='virtio'),
            type='file', device='disk'),
        _of('serial', _of('source', path=spec.console), type='file'),
        _of('channel', _of('target', type='virtio', name=_AGENT),
            type='unix'),
        _of('rng', _of('backend', '/dev/urandom', model='random'),
            model='virtio'),
        _of('memballoon', model='none'),
        link and _of(
            'interface', _of('target', dev=link.device),
            _of('model', type='virtio'),
            _of('driver', name='vhost' if link.vhost else 'qemu',
                queues=queues if queues > 1 else None), type='ethernet'))


def _of(tag: str, *inside: object, **attributes: object,
        ) -> ElementTree.Element:
    """An element; what is inside is elements or text.

    Of what is inside anything false, and of attributes None is left out.
    """
    element = ElementTree.Element(tag, {
        name: str(value) for name, value in attributes.items()
        if value is not None})
    for one in inside:
        # One without children is false, too.
        if isinstance(one, ElementTree.Element):
            element.append(one)
        elif one:
            element.text = str(one)
    return element


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
