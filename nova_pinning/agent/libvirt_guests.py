# SPDX-License-Identifier: Apache-2.0
"""Guests and their pins, from libvirt and the kernel.

libvirt is only asked and told by its own calls, so that its XML, its control
groups and the kernel stay of one mind.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import logging
import threading
from typing import Any
from xml.etree import ElementTree

from nova_pinning.agent import agent_model
from nova_pinning.agent import guest_wishes
from nova_pinning.agent import kernel_files
from nova_pinning import cpuset
from nova_pinning import extras
from nova_pinning.host import domain_xml
from nova_pinning.host import qemu_process

LOG = logging.getLogger(__name__)
_VHOST = 'vhost-'
_IOTHREAD = 'IO iothread'
# Linux 6.4 made them threads of the process that they work for.
_VHOST_INSIDE = (6, 4)


class LibvirtGone(Exception):
    """libvirt does not answer; says why."""


class LibvirtGuests:
    """All guests that run.

    :param flavors: extra specs by flavor, for guests of nova before 2025.2
    """

    def __init__(
        self, uri: str, files: kernel_files.KernelFiles,
        flavors: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        extras.need('nova-pinning agent', 'libvirt')
        import libvirt
        self._libvirt: Any = libvirt
        self._uri, self._files = uri, files
        self._changed: Callable[[], None] | None = None
        self._flavors = flavors or {}
        self._connection: Any = None
        self._pids: dict[str, int] = {}
        # libvirt prints each error as well, unless it is told not to.
        libvirt.registerErrorHandler(lambda *arguments: None, None)

    def listen(self, changed: Callable[[], None]) -> None:
        """Hear of guests that come, go and change, from now on.

        :param changed: called then, in a thread of libvirt's
        :raises LibvirtGone: if it does not answer; it may be tried again
        """
        libvirt = self._libvirt
        if self._changed is not None:
            self._connected()
            return
        libvirt.virEventRegisterDefaultImpl()

        def run() -> None:
            while True:
                libvirt.virEventRunDefaultImpl()

        self._changed = changed
        threading.Thread(target=run, name='libvirt', daemon=True).start()
        self._connect()

    def guests(self) -> list[agent_model.AgentGuest]:
        """Those that run now, in the order in which they were started.

        :raises LibvirtGone: if libvirt does not answer
        """
        libvirt = self._libvirt
        try:
            domains = self._connected().listAllDomains(
                libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
        except libvirt.libvirtError as error:
            self._connection = None
            raise LibvirtGone(str(error)) from error
        found = []
        for domain in sorted(domains, key=lambda domain: domain.ID()):
            try:
                guest = self._guest(domain)
            except libvirt.libvirtError as error:
                # It may have gone meanwhile.
                LOG.debug('guest %s: %s', domain.name(), error)
                continue
            if guest:
                found.append(guest)
        self._pids = {guest.uuid: guest.pid for guest in found}
        return found

    def pin_emulator(self, uuid: str, cpus: cpuset.CpuSet) -> None:
        """Have the emulator threads of a guest run on these CPUs.

        :raises OSError: if libvirt refuses
        """
        libvirt = self._libvirt
        try:
            connection = self._connected()
            connection.lookupByUUIDString(uuid).pinEmulator(
                _bits(cpus, connection.getInfo()[2], connection),
                libvirt.VIR_DOMAIN_AFFECT_LIVE)
        except (libvirt.libvirtError, LibvirtGone) as error:
            raise OSError(None, str(error)) from error

    def close(self) -> None:
        """Leave libvirt."""
        if self._connection is not None:
            try:
                self._connection.close()
            except self._libvirt.libvirtError as error:
                LOG.debug('libvirt: %s', error)
            self._connection = None

    def _connected(self) -> Any:
        if self._connection is None:
            self._connect()
        return self._connection

    def _connect(self) -> None:
        libvirt = self._libvirt
        try:
            connection = libvirt.open(self._uri)
        except libvirt.libvirtError as error:
            raise LibvirtGone(str(error)) from error
        self._connection = connection
        changed = self._changed
        if changed is None:
            return
        try:
            for event in (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE,
                          libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_ADDED,
                          libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED,
                          libvirt.VIR_DOMAIN_EVENT_ID_TUNABLE,
                          libvirt.VIR_DOMAIN_EVENT_ID_METADATA_CHANGE):
                connection.domainEventRegisterAny(
                    None, event, lambda *arguments: changed(), None)
            connection.registerCloseCallback(self._closed, None)
            connection.setKeepAlive(5, 3)
        except libvirt.libvirtError as error:
            # Drivers that run inside this process know no keepalive.
            LOG.debug('libvirt: %s', error)

    def _closed(self, *arguments: Any) -> None:
        self._connection = None
        if self._changed is not None:
            self._changed()

    def _guest(self, domain: Any) -> agent_model.AgentGuest | None:
        """A guest, None if it has no process."""
        libvirt = self._libvirt
        uuid = domain.UUIDString()
        root = ElementTree.fromstring(domain.XMLDesc(0))
        pid = self._pid(uuid, domain.name())
        if pid is None:
            return None
        live = libvirt.VIR_DOMAIN_AFFECT_LIVE
        threads = self._threads(pid)
        taps = tuple(
            target.get('dev', '')
            for target in root.iterfind('devices/interface/target'))
        try:
            described = domain_xml.read(root)
        except ValueError as error:
            LOG.warning('guest %s: %s', domain.name(), error)
            return None
        return agent_model.AgentGuest(
            uuid, domain.name(), pid,
            {number: _cpus(bits) for number, bits
             in enumerate(domain.vcpuPinInfo(live))},
            _cpus(domain.emulatorPinInfo(live)), frozenset(threads),
            frozenset(tid for tid, name in threads.items()
                      if qemu_process.is_vcpu(name)),
            frozenset(tid for tid, name in threads.items()
                      if name.startswith(_VHOST)),
            frozenset(tid for tid, name in threads.items()
                      if not qemu_process.is_vcpu(name)
                      and not name.startswith((_VHOST, _IOTHREAD))),
            described.hostdevs, len(taps), tuple(filter(None, taps)),
            described.memory_nodes,
            guest_wishes.of_domain(root, self._flavors))

    def _threads(self, pid: int) -> dict[int, str]:
        """The threads that work for a guest, with their names."""
        files = self._files
        threads = {
            int(tid): files.text(f'/proc/{pid}/task/{tid}/comm') or ''
            for tid in files.names(f'/proc/{pid}/task')}
        if self._has_vhost_outside():
            name = f'{_VHOST}{pid}'
            for other in files.names('/proc'):
                if (other.isdecimal()
                        and files.text(f'/proc/{other}/comm') == name):
                    threads[int(other)] = name
        return threads

    def _has_vhost_outside(self) -> bool:
        release = self._files.text('/proc/sys/kernel/osrelease') or ''
        numbers = release.split('-')[0].split('.')[:2]
        return all(map(str.isdecimal, numbers)) and tuple(
            map(int, numbers)) < _VHOST_INSIDE

    def _pid(self, uuid: str, name: str) -> int | None:
        """The QEMU of a guest: libvirt puts the UUID on its command line."""
        known = self._pids.get(uuid)
        if known and self._is_of(known, uuid):
            return known
        text = self._files.text(f'/run/libvirt/qemu/{name}.pid') or ''
        if text.isdecimal() and self._is_of(int(text), uuid):
            return int(text)
        return next((pid for pid in self._processes()
                     if self._is_of(pid, uuid)), None)

    def _processes(self) -> Iterator[int]:
        for process in self._files.names('/proc'):
            if process.isdecimal():
                yield int(process)

    def _is_of(self, pid: int, uuid: str) -> bool:
        line = self._files.text(f'/proc/{pid}/cmdline') or ''
        return f'\0-uuid\0{uuid}\0' in f'{line}\0'


def _cpus(bits: Sequence[bool]) -> cpuset.CpuSet:
    return cpuset.CpuSet(cpu for cpu, is_in in enumerate(bits) if is_in)


def _bits(cpus: cpuset.CpuSet, count: int,
          connection: Any) -> tuple[bool, ...]:
    # getInfo counts CPUs that are online; ids may be higher than that.
    try:
        count = max(count, connection.getCPUMap()[0])
    except Exception:  # noqa: B902 - not every driver knows it
        count = max(count, max(cpus, default=0) + 1)
    return tuple(cpu in cpus for cpu in range(count))
