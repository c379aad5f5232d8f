# SPDX-License-Identifier: Apache-2.0
"""What has to be arranged around nova's functional harness.

Nova's own harness is a test case for one kind of small host. This module
bends it, and nothing else does: importing it imports most of nova, which
takes seconds. :mod:`demo.cloud` is the interface to use.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import contextvars
import functools
import importlib.metadata
import pathlib
import re
import threading
import time
import types
import typing as ty
from unittest import mock
import urllib.parse

import fixtures
from keystoneauth1 import loading as ks_loading
from nova.compute import vm_states
import nova.conf
from nova import objects
from nova import service
from nova.tests import fixtures as nova_fixtures
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional import fixtures as functional_fixtures
from nova.tests.functional.libvirt import base
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import host as libvirt_host
from nova.virt.libvirt import imagebackend
from oslo_messaging import server
from sqlalchemy import pool

from demo import hosts
from nova_pinning.host import host_model
from nova_pinning.scheduler import traits_reader

CONF = nova.conf.CONF

# Nova's base class replaces this with a fixed set of 16 CPUs; the real one,
# taken before it does, asks the (fake) libvirt.
_REAL_GET_ONLINE_CPUS = libvirt_host.Host.get_online_cpus

#: A disk that is never the reason why a guest is refused, in GB.
_DISK_GB = {'total': 100_000, 'used': 0, 'free': 100_000}


class _Disk(imagebackend.Qcow2):
    """A disk that nova describes to libvirt without looking for it."""

    def resolve_driver_format(self) -> None:
        self.driver_format = 'qcow2'


def _disk_config(
    fixture: ty.Any, disk: ty.Any, cache_mode: str,
    extra_specs: Mapping[str, str], disk_unit: int | None = None,
    boot_order: str | None = None,
) -> ty.Any:
    """What nova tells libvirt about a disk.

    Nova's harness has a short form of it, without throttles.
    """
    real = _Disk(path=disk.path, disk_info_mapping=disk.disk_info_mapping)
    return real.libvirt_info(
        cache_mode, extra_specs, boot_order=boot_order, disk_unit=disk_unit)


class PerHostOptions(fixtures.Fixture):
    """Gives each nova-compute its own nova.conf within one process.

    Nova reads its options from one global object whenever it needs them:
    nova-compute reads ``[compute] cpu_dedicated_set`` each time it reports
    its resources and each time it writes a guest's XML. With several hosts
    in one process, setting the option before a host starts is therefore
    not enough, and the host started last would rule them all.

    While a host's code runs, a lookup of one of the options named for that
    host is answered with the host's own value. Which host that is, is kept
    in a context variable, so threads serving different hosts do not
    disturb each other. All other lookups go their usual way.
    """

    def __init__(self) -> None:
        super().__init__()
        self._current: contextvars.ContextVar[hosts.Options] = (
            contextvars.ContextVar('host_options', default={}))

    def _setUp(self) -> None:
        lookup = CONF._get

        def host_lookup(name: str, group: ty.Any = None,
                        namespace: ty.Any = None) -> ty.Any:
            options = self._current.get()
            if options and namespace is None:
                key = (getattr(group, 'name', group), name)
                if key in options:
                    return options[key]
            return lookup(name, group, namespace)

        self.useFixture(fixtures.MockPatchObject(CONF, '_get', host_lookup))

    @contextlib.contextmanager
    def active(self, options: hosts.Options) -> Iterator[None]:
        """Let these options apply to what the calling thread does."""
        token = self._current.set(options)
        try:
            yield
        finally:
            self._current.reset(token)

    def bind(self, owner: ty.Any, options: hosts.Options) -> None:
        """Let these options apply whenever a method of an object runs.

        Methods are looked up at the time of the call, so that patching
        the object's class goes on working.
        """
        kind = type(owner)
        active = self.active

        class Bound(kind):  # type: ignore[misc, valid-type]
            def __getattribute__(self, name: str) -> ty.Any:
                value = super().__getattribute__(name)
                if not isinstance(value, types.MethodType):
                    return value

                def with_options(*args: ty.Any, **kwargs: ty.Any) -> ty.Any:
                    with active(options):
                        return value(*args, **kwargs)

                return with_options

        Bound.__name__ = kind.__name__
        owner.__class__ = Bound


class LastWrites(fixtures.Fixture):
    """Tells when nova writes what may be the last of an action on a server.

    ``written`` is a threading.Event that is set then. To look at a server
    costs the API tens of milliseconds, which nova lacks meanwhile for what is
    waited for.
    """

    def _setUp(self) -> None:
        self.written = threading.Event()
        for kind, name in (
                (objects.Instance, 'save'), (objects.Instance, 'destroy'),
                (objects.InstanceFault, 'create'),
                (objects.Migration, 'save')):
            self.useFixture(fixtures.MockPatchObject(
                kind, name, self._telling(getattr(kind, name))))

    def _telling(self, write: Callable[..., ty.Any]) -> Callable[..., ty.Any]:
        @functools.wraps(write)
        def write_and_tell(written: ty.Any, *args: ty.Any,
                           **kwargs: ty.Any) -> ty.Any:
            result = write(written, *args, **kwargs)
            if not (isinstance(written, objects.Instance) and
                    (written.task_state or
                     written.vm_state == vm_states.BUILDING)):
                self.written.set()
            return result

        return write_and_tell


class Connection(fakelibvirt.Connection):
    """A fake libvirt connection to a host of any shape.

    It also keeps each guest's XML as nova wrote it: nova's fake forgets,
    among other things, the CPU pinning when it is asked for it later.
    """

    def __init__(self, *args: ty.Any, **kwargs: ty.Any) -> None:
        super().__init__(*args, **kwargs)
        #: The XML last given to libvirt, by the guest's UUID.
        self.guest_xml: dict[str, str] = {}

    def defineXML(self, xml: ty.Any) -> ty.Any:
        domain = super().defineXML(xml)
        self._keep(domain, xml)
        return domain

    def createXML(self, xml: ty.Any, flags: ty.Any) -> ty.Any:
        domain = super().createXML(xml, flags)
        self._keep(domain, xml)
        return domain

    def _keep(self, domain: ty.Any, xml: str | bytes) -> None:
        if isinstance(xml, bytes):
            xml = xml.decode('utf-8')
        self.guest_xml[domain.UUIDString()] = xml

    def getCPUMap(self) -> tuple[int, list[bool], int]:
        count = self.host_info.cpus
        offline = getattr(self.host_info, 'offline', ())
        online = [cpu not in offline for cpu in range(count)]
        return count, online, sum(online)

    def getInfo(self) -> list[ty.Any]:
        # libvirt answers in MiB here, nova's fake hands on its KiB.
        info = list(super().getInfo())
        info[1] = self.host_info.kB_mem // 1024
        return info


class HostInfo(fakelibvirt.HostInfo):
    """A host of a given shape, the way nova's fake libvirt knows it."""

    def __init__(self, shape: hosts.HostShape) -> None:
        super().__init__(
            cpu_nodes=shape.sockets * shape.cells_per_socket,
            cpu_sockets=1,
            cpu_cores=shape.cores_per_cell,
            cpu_threads=shape.threads,
            kB_mem=shape.memory_mib * 1024)
        self.offline = shape.offline
        self.numa_topology = vconfig.LibvirtConfigCapsNUMATopology()
        self.numa_topology.cells = [
            self._cell(shape, cell) for cell in shape.cells]

    @staticmethod
    def _cell(shape: hosts.HostShape,
              cell: host_model.NumaNode) -> vconfig.LibvirtConfigCapsNUMACell:
        found = vconfig.LibvirtConfigCapsNUMACell()
        found.id = cell.id
        found.memory = cell.memory_mib * 1024
        found.mempages = fakelibvirt.create_mempages([
            (4, shape.small_pages_kib // 4), *shape.huge_pages.items()])
        for core_id, core in enumerate(cell.cores):
            for cpu_id in core:
                cpu = vconfig.LibvirtConfigCapsNUMACPU()
                cpu.id = cpu_id
                cpu.socket_id = cell.socket
                cpu.core_id = core_id
                cpu.siblings = set(core)
                found.cpus.append(cpu)
        found.cpus.sort(key=lambda cpu: cpu.id)
        return found


class Stage(base.ServersTestBase):
    """Nova's functional harness, set up by hand instead of by a runner.

    :param filters: names of scheduler filters to enable besides nova's
        default ones
    :param filter_paths: where the scheduler finds its filters
    :param weigher_paths: where the scheduler finds its weighers
    """

    ADMIN_API = True
    microversion = 'latest'
    REQUIRES_LOCKING = True

    def __init__(self, filters: Sequence[str], filter_paths: Sequence[str],
                 weigher_paths: Sequence[str]) -> None:
        super().__init__('runTest')
        self._scheduler_options = {
            'available_filters': list(filter_paths),
            'weight_classes': list(weigher_paths)}
        self._filters = list(filters)

    def runTest(self) -> None:
        """Nothing: the one who set this up says what happens."""

    def setUp(self) -> None:
        # Capturing output and watching the time is left to the test or
        # program that this is part of.
        with contextlib.ExitStack() as environment:
            for name in ('OS_STDOUT_CAPTURE', 'OS_STDERR_CAPTURE',
                         'OS_TEST_TIMEOUT'):
                environment.enter_context(
                    fixtures.EnvironmentVariable(name, '0'))
            # Nova's databases are files here. Opening one anew for every
            # transaction, as oslo.db has it, means to parse all its tables.
            with mock.patch.object(pool, 'NullPool', pool.QueuePool):
                super().setUp()
        self.options = self.useFixture(PerHostOptions())
        driver = 'nova.virt.libvirt.LibvirtDriver'
        for name, replacement in {
            'nova.virt.libvirt.host.Host.get_online_cpus':
                _REAL_GET_ONLINE_CPUS,
            f'{driver}._get_local_gb_info':
                staticmethod(lambda: dict(_DISK_GB)),
            'nova.tests.fixtures.LibvirtImageBackendFixture.'
            '_fake_libvirt_info': _disk_config,
            # Nova starts a program for it whenever it reports a host.
            f'{driver}.get_host_uptime': lambda _driver: 'up 1 day',
            'nova.tests.fixtures.libvirt.Domain.migrateToURI3':
                self._migrate_live,
            'nova.tests.fixtures.libvirt.Domain.jobStats': _job_stats,
            # The disks that nova-compute is to take over, as JSON.
            f'{driver}.migrate_disk_and_power_off': lambda *_, **__: '{}',
        }.items():
            self.useFixture(fixtures.MonkeyPatch(name, replacement))
        self.written = self.useFixture(LastWrites()).written

    def _migrate_live(self, domain: ty.Any, destination: str,
                      params: Mapping[str, ty.Any], flags: ty.Any) -> None:
        """What libvirt does when a guest moves while it runs."""
        host = urllib.parse.urlsplit(destination).hostname
        connection = self.computes[host].driver._host.get_connection()
        # Defined too, as nova asks for, so that it can be switched off.
        connection.defineXML(params['destination_xml']).createWithFlags(0)
        # Nothing stays behind, or the guest could not be evacuated to there.
        # Nova hears nothing of it: to the fake, it would just have stopped.
        source = domain._connection
        source._vms.pop(domain.name(), None)
        source._running_vms = {
            number: running for number, running in
            source._running_vms.items() if running is not domain}
        domain.complete_job()

    def useFixture(self, fixture: ty.Any) -> ty.Any:
        # Of no use here, and each of the six costs as much as a request.
        if isinstance(fixture, nova_fixtures.DefaultFlavorsFixture):
            return fixture
        used = super().useFixture(fixture)
        if isinstance(fixture, functional_fixtures.PlacementFixture):
            # Before 2026.1 nova's harness forgets it.
            self.placement_fixture = used
        return used

    def _short_api_paste(self) -> str:
        """The path of an api-paste.ini without the API of 2011.

        Nobody asks for it, and it takes as long to make as the other.
        """
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'paste')
        path.write_text(re.sub(
            r'(?m)^/v2[:/].*$', '', pathlib.Path(api_paste()).read_text()))
        return str(path)

    def _setup_services(self) -> None:
        # The first place where nova's test options are loaded and no
        # service has read them yet.
        self.flags(api_paste_config=self._short_api_paste(), group='wsgi')
        # Options are those set here, whatever the environment has, which
        # oslo.config would ask for each of them again and again.
        self.useFixture(fixtures.MockPatchObject(CONF, '_use_env', False))
        # Guests are refused by the scheduler here, never by a quota.
        self.flags(instances=-1, cores=-1, ram=-1, group='quota')
        # Neither is looked at here, and both cost time on every request.
        self.flags(response_validation='ignore', group='api')
        self.flags(notification_format='unversioned', group='notifications')
        # Who fails is forced down here, never found out by being silent.
        self.flags(report_interval=120, service_down_time=3600)
        # An answer that is lost is to fail a test, not to stop it for half
        # an hour.
        self.flags(long_rpc_timeout=60)
        # Each service starts that many threads sooner or later, and never
        # ends one; all of them look for work every second.
        CONF.register_opts(server._pool_opts)
        self.flags(executor_thread_pool_size=8)
        super()._setup_services()

    def _setup_scheduler_service(self) -> ty.Any:
        # Nova's own requests to Placement do not go by these settings: its
        # harness answers them at a higher level.
        CONF.register_opts(
            ks_loading.get_auth_plugin_conf_options('admin_token'),
            group='placement')
        self.flags(
            auth_type='admin_token', token=self.placement_fixture.token,
            endpoint=self.placement_fixture.endpoint, group='placement')
        # Before Placement goes away, and whatever came before this.
        traits_reader.use(None)
        self.addCleanup(traits_reader.use, None)
        self.flags(
            enabled_filters=(CONF.filter_scheduler.enabled_filters +
                             self._filters),
            group='filter_scheduler', **self._scheduler_options)
        return self.start_service('scheduler')

    def _get_connection(
        self, host_info: ty.Any = None, pci_info: ty.Any = None,
        mdev_info: ty.Any = None, vdpa_info: ty.Any = None,
        libvirt_version: int | None = None, qemu_version: int | None = None,
        hostname: str | None = None,
    ) -> Connection:
        return Connection(
            'qemu:///system',
            version=libvirt_version or fakelibvirt.FAKE_LIBVIRT_VERSION,
            hv_version=qemu_version or fakelibvirt.FAKE_QEMU_VERSION,
            host_info=host_info, pci_info=pci_info, mdev_info=mdev_info,
            vdpa_info=vdpa_info, hostname=hostname)

    @contextlib.contextmanager
    def nova_conf(self, name: str,
                  shape: hosts.HostShape) -> Iterator[None]:
        """Give the compute service started meanwhile its host's options.

        Creating the service reads them in this thread. Starting it already
        reports the host's resources from another one, so the service has
        to be bound in between.
        """
        # nova-compute goes by its own name when it decides which guests are
        # not its any more.
        options = {**shape.nova_options(), (None, 'host'): name}
        start = service.Service.start

        def bind_and_start(started: service.Service) -> None:
            manager = started.manager
            for owner in (manager, manager.rt, manager.driver):
                self.options.bind(owner, options)
            start(started)

        with (self.options.active(options),
              mock.patch.object(service.Service, 'start', bind_and_start)):
            yield


def _job_stats(domain: ty.Any, flags: int = 0) -> dict[str, ty.Any]:
    """How far the migration of a guest is.

    Nova asks while it starts, and would look again half a second later.
    """
    for _look in range(50):
        if domain._job_type != fakelibvirt.VIR_DOMAIN_JOB_NONE:
            break
        time.sleep(0.01)
    return {'type': domain._job_type}


@functools.cache
def api_paste() -> str:
    """The path of nova's api-paste.ini.

    :raises FileNotFoundError: when nova was installed without it
    """
    for path in importlib.metadata.files('nova') or ():
        if path.name == 'api-paste.ini':
            return str(path.locate())
    raise FileNotFoundError(
        'nova is installed without its etc/nova/api-paste.ini; '
        'install nova from its wheel')
