# SPDX-License-Identifier: Apache-2.0
"""Guests and their pins, from libvirt and the kernel.

libvirt is only asked. What it was told stays what nova has told it.
"""

from collections.abc import Callable
from collections.abc import Mapping
import functools
import logging
import threading
from typing import Any
from xml.etree import ElementTree

from nova_pinning.agent import agent_model
from nova_pinning.agent import bounded_calls
from nova_pinning.agent import guest_processes
from nova_pinning.agent import guest_wishes
from nova_pinning.agent import kernel_files
from nova_pinning import cpuset
from nova_pinning.host import domain_xml
from nova_pinning.host import qemu_process

LOG = logging.getLogger(__name__)
_IOTHREAD = 'IO iothread'
_MOST_GUESTS = 2048
# Where libvirt has emulator threads: /machine.slice/…/libvirt/emulator.
_EMULATOR = '/emulator'


class LibvirtGone(Exception):
    """libvirt does not answer; says why."""


class LibvirtGuests:
    """All guests that run.

    :param flavors: extra specs by flavor, for guests of nova before 2025.2
    :ivar calls: what all calls into libvirt are made by
    """

    def __init__(
        self, uri: str, files: kernel_files.KernelFiles,
        flavors: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.calls = bounded_calls.BoundedCalls()
        self._uri, self._files = uri, files
        self._changed: Callable[[], None] | None = None
        self._flavors = flavors or {}
        self._libvirt: Any = None
        self._connection: Any = None
        self._seen: dict[str, agent_model.AgentGuest] = {}
        # Few of them change from one look to the next.
        self._described = functools.lru_cache(_MOST_GUESTS)(self._describe)

    def listen(self, changed: Callable[[], None]) -> None:
        """Hear of guests that come, go and change, from now on.

        :param changed: called then, in a thread of libvirt's
        :raises LibvirtGone: if it does not answer; it may be tried again
        """
        self._call(functools.partial(self._listen, changed))

    def guests(self) -> list[agent_model.AgentGuest]:
        """Those that run now, in the order in which they were started.

        :raises LibvirtGone: if libvirt does not answer
        """
        found: list[agent_model.AgentGuest] = self._call(self._guests)
        return found

    def _call(self, function: Callable[[], Any]) -> Any:
        try:
            return self.calls.run(function)
        except TimeoutError as error:
            raise LibvirtGone(str(error)) from error

    # What is below is called by one thread only.

    def _listen(self, changed: Callable[[], None]) -> None:
        if self._changed is None:
            libvirt = self._library()
            libvirt.virEventRegisterDefaultImpl()

            def run() -> None:
                while True:
                    libvirt.virEventRunDefaultImpl()

            self._changed = changed
            threading.Thread(target=run, name='libvirt', daemon=True).start()
        self._connected()

    def _guests(self) -> list[agent_model.AgentGuest]:
        libvirt, connection = self._library(), self._connected()
        found = []
        processes = guest_processes.GuestProcesses(self._files, {
            uuid: guest.pid for uuid, guest in self._seen.items()})
        try:
            for domain in sorted(connection.listAllDomains(
                    libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE),
                    key=lambda domain: domain.ID()):
                self.calls.sign_of_life()
                try:
                    guest = self._guest(domain, processes)
                except libvirt.libvirtError as error:
                    # Either has gone: the guest, or libvirt.
                    if not connection.isAlive():
                        raise
                    has_gone = error.get_error_code() in (
                        libvirt.VIR_ERR_NO_DOMAIN,
                        libvirt.VIR_ERR_OPERATION_INVALID)
                    LOG.log(logging.DEBUG if has_gone else logging.WARNING,
                            'guest %s: %s', domain.name(), error)
                    # One that cannot be read now is as it was seen last.
                    guest = None if has_gone else self._seen.get(
                        domain.UUIDString())
                if guest:
                    found.append(guest)
        except libvirt.libvirtError as error:
            self._connection = None
            raise LibvirtGone(str(error)) from error
        self._seen = {guest.uuid: guest for guest in found}
        return found

    def _library(self) -> Any:
        if self._libvirt is None:
            try:
                import libvirt
            except ImportError as error:
                raise LibvirtGone(str(error)) from error
            # It prints each error as well, unless it is told not to.
            libvirt.registerErrorHandler(lambda *arguments: None, None)
            self._libvirt = libvirt
        return self._libvirt

    def _connected(self) -> Any:
        if self._connection is None:
            self._connect()
        return self._connection

    def _connect(self) -> None:
        libvirt = self._library()
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

    def _guest(
        self, domain: Any, processes: guest_processes.GuestProcesses,
    ) -> agent_model.AgentGuest | None:
        """A guest, None if it has no process."""
        uuid = domain.UUIDString()
        try:
            described, taps, wishes = self._described(domain.XMLDesc(0))
        except ValueError as error:
            LOG.warning('guest %s: %s', domain.name(), error)
            return None
        pid = processes.pid(uuid, domain.name())
        if pid is None:
            return None
        live = self._libvirt.VIR_DOMAIN_AFFECT_LIVE
        threads = processes.threads(pid)
        vhost = guest_processes.VHOST
        return agent_model.AgentGuest(
            uuid, domain.name(), pid,
            {number: _cpus(bits) for number, bits
             in enumerate(map(tuple, domain.vcpuPinInfo(live)))},
            _cpus(tuple(domain.emulatorPinInfo(live))),
            self._emulator_group(pid), frozenset(threads),
            frozenset(tid for tid, name in threads.items()
                      if qemu_process.is_vcpu(name)),
            frozenset(tid for tid, name in threads.items()
                      if name.startswith(vhost)),
            frozenset(tid for tid, name in threads.items()
                      if not qemu_process.is_vcpu(name)
                      and not name.startswith((vhost, _IOTHREAD))),
            described.hostdevs, len(taps), tuple(filter(None, taps)),
            described.memory_nodes, wishes)

    def _emulator_group(self, pid: int) -> str:
        root, path = kernel_files.control_group(self._files, pid, 'cpuset')
        return (f'{root}{path}/cpuset.cpus' if path.endswith(_EMULATOR)
                else '')

    def _describe(self, xml: str) -> tuple[
            domain_xml.DomainXml, tuple[str, ...], agent_model.Wishes]:
        """What the XML of a guest says, with its taps and its wishes.

        :raises ValueError: if it makes no sense
        """
        root = ElementTree.fromstring(xml)
        taps = tuple(
            target.get('dev', '')
            for target in root.iterfind('devices/interface/target'))
        return (domain_xml.read(root), taps,
                guest_wishes.of_domain(root, self._flavors))


@functools.lru_cache(maxsize=1024)
def _cpus(bits: tuple[bool, ...]) -> cpuset.CpuSet:
    return cpuset.CpuSet(cpu for cpu, is_in in enumerate(bits) if is_in)

