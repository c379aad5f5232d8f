# SPDX-License-Identifier: Apache-2.0
"""Guests under libvirt, booted from the image of 'bench run --image'.

Their kernel is booted directly and their disk is an overlay, so that nothing
of one guest is left for the next. Its shape is that of a guest which the
catalogue sells; where its threads run is what the layout says.
"""

from collections.abc import Sequence
import contextlib
import dataclasses
import os
import pathlib

from nova_pinning import errors
from nova_pinning.host import domain_xml
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import image_manifest
from nova_pinning.instance_bench import kernel_counters
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import agent
from nova_pinning.instance_bench.platforms import cgroups
from nova_pinning.instance_bench.platforms import domain
from nova_pinning.instance_bench.platforms import guest_shape
from nova_pinning.instance_bench.platforms import holder
from nova_pinning.instance_bench.platforms import hypervisor
from nova_pinning.instance_bench.platforms import link
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import running_agent
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.instance_bench.workloads import programs
from nova_pinning import kvm

#: A kernel that has less does not come up.
LEAST_MEMORY_MIB = 256
_TOOLS = {'virsh': 'libvirt-clients', 'qemu-img': 'qemu-utils',
          'ip': 'iproute2'}
_CONSOLE_LINES = 5


class GuestInstance(agent.RemoteInstance):
    """A guest that runs.

    :param request: what was asked for
    :param spec: what libvirt was told
    :param libvirt: where it runs
    :param running: its domain
    """

    def __init__(
        self, request: platform_interface.InstanceRequest,
        spec: domain.DomainSpec, libvirt: hypervisor.ComputeHypervisor,
        running: domain.TransientDomain,
    ) -> None:
        super().__init__(request, libvirt, spec.name,
                         peer=spec.link.host if spec.link else '')
        self._spec = spec
        self._running = running
        self._definition: domain_xml.DomainXml = domain_xml.parse(
            domain.domain_xml_of(spec))
        #: The agent that takes care of it, if the case is about that.
        self.agent: running_agent.RunningAgent | None = None

    def bring_up(self) -> None:
        """Set what libvirt does not.

        :raises bench_errors.InstanceError: if it cannot be set
        """
        if self._spec.link:
            link.bring_up(self._spec.link)
            if self._spec.instance_cpus.network:
                link.steer(machine_files.Tree(), self._spec.link, self._pid(),
                           self._spec.instance_cpus.network)

    def await_ready(self, seconds: float) -> None:
        try:
            super().await_ready(seconds)
        except bench_errors.InstanceError as error:
            raise bench_errors.InstanceError(
                f'{self.name}: {error}; its console ends with: '
                f'{_tail(self._spec.console)}', error.advice) from None

    def affinities(self) -> Sequence[bench_model.Affinity]:
        definition = self._definition
        agent_set: list[bench_model.Affinity] = []
        if self.agent:
            pid = self._pid()
            agent_set = list(self.agent.affinities(pid))
            definition = dataclasses.replace(
                definition, emulator_pin=self.agent.emulator(pid)
                or definition.emulator_pin)
        affinities = [*self._host.affinities(definition), *agent_set]
        if self._spec.link and self._spec.instance_cpus.network:
            affinities += link.affinities(machine_files.Tree(), self._pid(),
                                          self._spec.instance_cpus.network)
        return affinities

    def counters(self) -> dict[str, float]:
        return kernel_counters.run_delay(machine_files.Tree(), self._pid())

    def close(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self._spec.disk.unlink, missing_ok=True)
            stack.callback(self._running.close)
            # It is to put everything back, so it ends before any guest.
            if self.agent:
                stack.callback(self.agent.close)

    def _pid(self) -> int:
        return int(process.run((
            *self._host.prefix, 'cat',
            f'/run/libvirt/qemu/{self._spec.name}.pid')))


class GuestPlatform(holder.Holder):
    """A libvirt on this host.

    :param how: connect, image, accelerator, boot_seconds
    :param libvirt: what it is reached by; by ``connect`` alone unless given
    """

    _kind = GuestInstance

    def __init__(self, how: settings.PlatformSettings,
                 libvirt: hypervisor.ComputeHypervisor | None = None) -> None:
        super().__init__()
        self._how = how
        self._libvirt = libvirt or hypervisor.ComputeHypervisor(
            prefix=(), connect=how.connect)
        self._image = pathlib.Path(how.image).absolute()
        self._accelerator = how.accelerator
        self._packages: frozenset[str] = frozenset()

    def check(self,
              requests: Sequence[platform_interface.InstanceRequest]) -> None:
        programs.require('a guest', _TOOLS)
        self._check_libvirt()
        if not self._how.image:
            raise errors.InputError(
                'guests need an image', errors.Location('--image'),
                'name a directory; it is built there if there is none')
        image = image_manifest.read(self._image)
        _check_requests(requests, image, self._how)
        self._packages = self._packages.union(*(
            programs.packages(request.workload) for request in requests))

    def _check_libvirt(self) -> None:
        if not self._how.connect.startswith('qemu:///system'):
            raise errors.InputError(
                f'guests need the libvirt of this host, with control groups, '
                f'and {self._how.connect} is another',
                errors.Location('LIBVIRT_DEFAULT_URI'), 'unset it')
        try:
            self._libvirt.version()
        except bench_errors.InstanceError as error:
            raise errors.InputError(
                f'libvirt cannot be reached: {error}',
                errors.Location(f'--connect {self._how.connect}'),
                'start it, with: systemctl start libvirtd; its package is '
                'libvirt-daemon-system') from None

    def launch(
        self, requests: Sequence[platform_interface.InstanceRequest],
    ) -> Sequence[platform_interface.Instance]:
        with contextlib.ExitStack() as stack:
            guests = []
            for request in requests:
                instance = self._start(request)
                stack.callback(instance.close)
                instance.bring_up()
                guests.append(instance)
            for instance in guests:
                instance.await_ready(self._how.boot_seconds)
            self._start_agent(requests, guests)
            stack.pop_all()
        self._instances += guests
        return guests

    def _start_agent(
        self, requests: Sequence[platform_interface.InstanceRequest],
        guests: Sequence[GuestInstance],
    ) -> None:
        """Run the agent while these guests do, if they are to have one."""
        scheme = next((request.tenant.agent for request in requests), None)
        if scheme not in (None, bench_model.AgentScheme.NONE):
            running = running_agent.RunningAgent(
                scheme, self._how, self._directory)
            for guest in guests:
                guest.agent = running

    def versions(self) -> dict[str, str]:
        image = image_manifest.read(self._image)
        return {'qemu': self._libvirt.version(),
                'guest kernel': image.kernel, 'guest': image.suite,
                'accelerator': self.accelerator,
                **{f'{name} (guest)': image.packages[name]
                   for name in sorted(self._packages)
                   if name in image.packages}}

    @property
    def accelerator(self) -> str:
        """'kvm' or 'tcg'; the first who asks may wait for seconds."""
        if not self._accelerator:
            self._accelerator = ('kvm' if kvm.works(
                self._image / image_manifest.KERNEL) else 'tcg')
        return self._accelerator

    def _start(self,
               request: platform_interface.InstanceRequest) -> GuestInstance:
        spec = self._domain_spec(request)
        process.run((
            'qemu-img', 'create', '-q', '-f', 'qcow2', '-F', 'qcow2', '-b',
            str(self._image / image_manifest.DISK), str(spec.disk)))
        definition = spec.disk.with_suffix('.xml')
        definition.write_text(domain.domain_xml_of(spec))
        running = domain.TransientDomain(self._libvirt.virsh, spec.name,
                                         definition)
        return self._kind(request, spec, self._libvirt, running)

    def _domain_spec(
            self,
            request: platform_interface.InstanceRequest) -> domain.DomainSpec:
        assert request.instance_cpus is not None
        tenant = request.tenant
        name = (f'{self._directory.name}-{next(self._numbers)}-'
                f'{request.name}')
        stem = self._directory / name
        chosen = (link.choose(os.listdir('/sys/class/net'))
                  if request.workload.peer else None)
        arguments = image_manifest.KERNEL_ARGUMENTS
        if chosen:
            arguments += (f' {image_manifest.ADDRESS_ARGUMENT}='
                          f'{chosen.guest}/{chosen.prefix}')
        return domain.DomainSpec(
            name=name, accelerator=self.accelerator,
            memory_mib=tenant.size.memory_mib,
            instance_cpus=request.instance_cpus,
            shape=guest_shape.for_tenant(
                tenant, request.instance_cpus, machine_files.Tree()),
            kernel=self._image / image_manifest.KERNEL,
            initrd=self._image / image_manifest.INITRD, arguments=arguments,
            disk=stem.with_name(f'{name}.qcow2'), cache=_cache(stem.parent),
            console=stem.with_name(f'{name}.console'), link=chosen)


def _cache(directory: pathlib.Path) -> str:
    """As nova does it: none, where files can be opened that way."""
    probe = directory / '.direct'
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o600))
    except OSError:
        return 'writeback'
    finally:
        probe.unlink(missing_ok=True)
    return 'none'


def _check_requests(
    requests: Sequence[platform_interface.InstanceRequest],
    image: image_manifest.Manifest, how: settings.PlatformSettings,
) -> None:
    """See that the image and this user have what guests need.

    :raises errors.InputError: if not
    """
    for request in requests:
        running_agent.check(request.tenant.agent)
        cgroups.check_weight(request.name, request.tenant.weight
                             * request.tenant.size.vcpus)
        memory_mib = request.tenant.size.memory_mib
        if memory_mib < LEAST_MEMORY_MIB:
            raise errors.InputError(
                f'tenant {request.tenant.name!r} has {memory_mib} MiB, and '
                f'guests need at least {LEAST_MEMORY_MIB}')
        if request.workload.peer and os.geteuid():
            raise errors.InputError(
                f'{request.name} needs a link to this host, which only root '
                'can make', advice='run it with sudo')
    lacking = sorted({request.workload.name for request in requests
                      if not _has(image, request.workload)})
    if lacking:
        raise errors.InputError(
            f'the image lacks what is needed for {", ".join(lacking)}',
            errors.Location(f'--image {how.image}'),
            'name a directory that is not there yet, for one with all')


def _has(image: image_manifest.Manifest,
         workload: bench_model.Workload) -> bool:
    """Whether a workload can run; one that needs nothing always can."""
    if workload.name in image.workloads:
        return True
    packages = ' '.join((*workload.packages, *workload.programs.values()))
    return not workload.source and all(
        package in image.packages for package in packages.split())


def _tail(console: pathlib.Path) -> str:
    try:
        lines = console.read_text(errors='replace').split('\n')
    except OSError:
        return 'nothing'
    said = [line.strip() for line in lines if line.strip()]
    return ' | '.join(said[-_CONSOLE_LINES:]) or 'nothing'
