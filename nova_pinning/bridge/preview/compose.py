# SPDX-License-Identifier: Apache-2.0
"""A preview, put together from nova's own parts."""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import functools
from typing import Any
from xml.etree import ElementTree

from nova import exception
from nova import objects
from nova.virt import hardware

from nova_pinning.admission import outcome
from nova_pinning.admission import pci_alias
from nova_pinning.bridge import claim
from nova_pinning.bridge import nova_claim
from nova_pinning.bridge import numa
from nova_pinning.bridge.offline import flavor_request
from nova_pinning.bridge.offline import nova_options
from nova_pinning.bridge.offline import order
from nova_pinning.bridge.offline import placement_queries
from nova_pinning.bridge import pci
from nova_pinning.bridge.preview import devices
from nova_pinning.bridge.preview import guest
from nova_pinning.bridge.preview import machine
from nova_pinning.bridge.preview import query
from nova_pinning.bridge.preview import result
from nova_pinning.bridge.preview import settings
from nova_pinning.bridge.preview import xml_placement
from nova_pinning.bridge import topology
from nova_pinning import conf
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning import fit
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import guest_machine
from nova_pinning.host import domain_xml
from nova_pinning.host import guest_affinity
from nova_pinning.host import host_model
from nova_pinning import model


def preview_guest(
    flavor: flavor_model.Flavor,
    image_properties: Mapping[str, str],
    host: host_model.HostDescription,
    used_cpus: cpuset.CpuSet = cpuset.CpuSet(),
    libvirt: tuple[int, ...] | None = None,
) -> result.Preview:
    """What nova would make of a flavor on a host.

    Options and loggers of nova are changed meanwhile, which are one for the
    whole process: call it from one thread at a time.

    Which vCPU gets which thread of one core can come out the other way round
    on a host that has had other guests: nova takes the threads in the order
    of a Python set, which changes each time that it counts a guest.

    :param image_properties: as Glance has them: hw_cpu_policy and so on
    :param used_cpus: CPUs that other guests are pinned to, counted as one
        guest; the memory, the devices and the shared CPUs are taken to be
        free
    :param libvirt: the version of the host's; None if it is not known, and
        taken to have all that nova looks for
    :raises errors.InputError: if nova would not accept flavor and image, or
        not start with the host's options
    """
    guest.prepare()
    aliases = set(pci_alias.names(flavor.extra_specs))
    with nova_options.applied(settings.options(host, aliases)):
        request = order.from_flavor(flavor, image_properties)
        with order.refusals(flavor, image_properties):
            queries = placement_queries.queries(request)
        driver, host_topology = _start(host, libvirt)
        tracker = devices.DeviceTracker(host, host_topology)
        if host_topology is not None and used_cpus:
            host_topology = _use(host_topology, used_cpus)
        found, lack = query.verdicts(
            flavor_request.of_order(
                # HostClassFilter is not asked here.
                dataclasses.replace(flavor, extra_specs={
                    key: value for key, value in flavor.extra_specs.items()
                    if key != flavor_model.CLASS_KEY}),
                image_properties, request, queries), host, used_cpus)
        devices.choose(request.pci_requests, found.providers)
        fitted = _fit(request, host, host_topology, tracker)
        if isinstance(fitted, model.Refusal) and (
                fitted.reason is model.Reason.PCI) and lack:
            fitted = dataclasses.replace(fitted, detail=lack.text)
        refused = query.refusal(queries[0], found)
        xml = None
        if not isinstance(fitted, model.Refusal) and refused is None:
            with order.refusals(flavor, image_properties):
                written = _xml(driver, request, fitted, tracker)
            if isinstance(written, model.Refusal):
                fitted = written
            else:
                xml = written
    placement = xml_placement.read_placement(xml, flavor.name) if xml else None
    return result.Preview(
        query=queries[0], fallback=queries[1], fit=fitted,
        placement_refusal=refused, xml=xml,
        doubts=(*found.doubts, *(_emulated(xml, host) if xml else ())),
        placement=placement,
        remarks=(*_remarks(used_cpus, host, host_topology),
                 *(query.xml_remarks(queries[0], xml, {
                     pci_alias.resource_class(one)
                     for wanted in request.pci_requests.requests
                     for one in wanted.spec}) if xml else ()),
                 *_unseen(flavor, xml or ''),
                 *(_devices(xml, host) if xml else ()),
                 *(_of_versions(driver) if xml and not libvirt else ()),
                 *_emulators(request.topology, host),
                 *_everywhere(host, placement)))


def _start(
    host: host_model.HostDescription, libvirt: tuple[int, ...] | None,
) -> tuple[machine.DescribedDriver, Any]:
    """The driver, and the host as it reports it."""
    try:
        driver = machine.DescribedDriver(host, libvirt)
        return driver, driver.host_topology()
    except exception.NovaException as error:
        raise errors.InputError(
            f'nova-compute would not start on host {host.name}: '
            f'{error.format_message().rstrip(".")}', host.where) from error


def _use(host_topology: Any, used: cpuset.CpuSet) -> Any:
    """The host's topology with CPUs in use, as nova-compute counts them."""
    cells = []
    for cell in host_topology.cells:
        cpus = sorted(set(used) & cell.pcpuset)
        cells.append(objects.InstanceNUMACell(
            id=cell.id, cpuset=set(), pcpuset=set(range(len(cpus))),
            memory=0, pagesize=None, cpu_policy='dedicated',
            cpu_thread_policy=None, cpuset_reserved=None,
            cpu_pinning=dict(enumerate(cpus))))
    return hardware.numa_usage_from_instance_numa(
        host_topology, objects.InstanceNUMATopology(cells=cells))


def _fit(
    request: order.ApiRequest,
    host: host_model.HostDescription,
    host_topology: Any,
    tracker: devices.DeviceTracker,
) -> model.Fit | model.Refusal | None:
    requests = request.pci_requests.requests
    if request.topology is None:
        if requests and not tracker.stats.support_requests(requests, None):
            return model.Refusal(model.Reason.PCI)
        return None
    if host_topology is None:
        return model.Refusal(model.Reason.NO_TOPOLOGY)
    ratios = (host.nova.cpu_allocation_ratio, host.nova.ram_allocation_ratio)
    check = None
    if requests or tracker.stats.pools:
        check = pci.NovaPciCheck(tracker.stats, requests, None)
    try:
        engine_host = topology.host_from_nova(
            host_topology, *ratios)._replace(
                claim_order=nova_claim.installed_order())
        engine_guest = topology.guest_from_nova(request.topology)
    except topology.BrokenTopology as error:
        return model.Refusal(
            model.Reason.BROKEN_TOPOLOGY, detail=str(error))
    limits = objects.NUMATopologyLimits(
        cpu_allocation_ratio=ratios[0], ram_allocation_ratio=ratios[1])
    decision = fit.decide(
        engine_host, engine_guest, pack=numa.packs_cells(), pci=check,
        bounds=fit.ClaimBounds(
            conf.CONF.pinning.nova_claim_max_seconds, is_retried=False,
            ask_nova=functools.partial(
                claim.predict_claim, claim.NovaGuest(engine_guest, limits),
                host_topology)))
    return (decision if isinstance(decision, model.Refusal)
            else decision.fit)


def _xml(
    driver: machine.DescribedDriver,
    request: order.ApiRequest,
    fitted: model.Fit | None,
    tracker: devices.DeviceTracker,
) -> str | model.Refusal:
    """The XML, or why nova-compute would not come to writing it.

    :raises ValueError: if an extra spec is odd that nova-compute reads last
    """
    placed = None
    if fitted is not None:
        placed = numa.instance_topology_from_fit(request.topology, fitted)
    server = guest.instance(
        request, placed, tracker.take(request.pci_requests, placed))
    disk_info, block_devices = guest.disks(request, server)
    driver.add_persistent_memory(server.resources)
    try:
        xml = driver.guest_xml(
            server, request.image, guest.network_info(), disk_info,
            block_devices)
        refused = _machine_refusal(xml)
        if not refused:
            return xml
        detail = f'libvirt would not start it: {refused}'
    except exception.RealtimeMaskNotFoundOrInvalid:
        # Nova's words are about something else: that was checked before.
        detail = ('realtime vCPUs with emulator threads policy "share" need '
                  '[compute] cpu_shared_set, which is not set on the host')
    except exception.NovaException as error:
        detail = error.format_message().rstrip('.')
    return model.Refusal(model.Reason.NOVA_START, detail=detail)


def _machine_refusal(xml: str) -> str:
    """Why libvirt would not start a guest with this XML, '' if it would."""
    domain = ElementTree.fromstring(xml)
    kind = _kind(xml)
    return guest_machine.refusal(
        kind['arch'], int(domain.findtext('vcpu') or 0), kind['machine'],
        domain.find('devices/iommu') is not None)


def _kind(xml: str) -> dict[str, str]:
    """The architecture and the machine type of a guest."""
    found = ElementTree.fromstring(xml).find('os/type')
    return {'arch': '', 'machine': ''} | (
        {} if found is None else found.attrib)


def _emulated(xml: str, host: host_model.HostDescription,
              ) -> Iterator[outcome.Doubt]:
    """Whether there is what emulates a guest of another architecture."""
    architecture = _kind(xml)['arch']
    if architecture != host.cpu_model.arch:
        yield outcome.Doubt(
            outcome.DoubtKind.TRAITS,
            f'it is not known whether it has QEMU for {architecture}')


def _unseen(flavor: flavor_model.Flavor, xml: str) -> Iterator[str]:
    """What the XML here is not, for this flavor."""
    profile = flavor.extra_specs.get('accel:device_profile')
    if profile and xml:
        yield (f'The devices of Cyborg\'s device profile {profile} are not '
               'shown: neither in the query nor in the XML')
    if 'cbitpos' in xml:
        yield ('cbitpos and reducedPhysBits in the XML are those of the first '
               'EPYCs; nova asks libvirt on the host')


def _devices(xml: str, host: host_model.HostDescription) -> Iterator[str]:
    """Where the guest finds its PCI devices: nova writes no place for any.

    :param xml: the guest's
    """
    addresses = domain_xml.parse(xml).hostdevs
    told = [f'{device.address} ({device.alias}, host ' + (
        'node not known' if device.numa_node is None
        else f'node {device.numa_node}') + ')'
        for device in host.pci_devices if device.address in addresses]
    if told:
        port = ('the root bus' if "machine='pc" in xml.replace('"', "'")
                else 'a root port of its own')
        yield (f'In the guest each of its PCI devices is on {port}, below no '
               f'switch and on no NUMA node: {", ".join(told)}')


def _of_versions(driver: machine.DescribedDriver) -> Iterator[str]:
    """What depends on the version of libvirt, which is not known."""
    for version in driver.libvirts_looked_for():
        shown = '.'.join(map(str, version))
        yield (f'Nova looks whether libvirt is {shown} or later, which it is '
               'taken to be here: --libvirt tells its version')


def _emulators(topology: Any,
               host: host_model.HostDescription) -> Iterator[str]:
    """Emulator threads that are not where the flavor wants them.

    :param topology: nova.objects.InstanceNUMATopology or None
    """
    if topology and topology.emulator_threads_policy == 'share' and (
            not host.nova.shared_cpus):
        yield (f'Host {host.name} has no cpu_shared_set: emulator threads are '
               "on the guest's own CPUs, though emulator threads policy "
               'share asks for others')


def _everywhere(
    host: host_model.HostDescription,
    placement: guest_affinity.GuestAffinity | None,
) -> Iterator[str]:
    """Whom a guest disturbs that libvirt is not told to keep anywhere."""
    if placement and not placement.vcpu_cpus and host.nova.dedicated_cpus:
        yield (f'Host {host.name} has no shared CPUs: the guest gets there '
               'only because Placement is not asked for VCPU, and nothing '
               'keeps it off the CPUs of pinned guests')


def _remarks(
    used: cpuset.CpuSet,
    host: host_model.HostDescription,
    host_topology: Any,
) -> Iterator[str]:
    cells = host_topology.cells if host_topology else ()
    stray = used - cpuset.union(cpuset.CpuSet(cell.pcpuset) for cell in cells)
    if used - stray:
        yield (f'What else the guests on CPUs {used - stray} use is not '
               f'known: memory and devices are taken to be free')
    if stray:
        yield (f'CPUs {stray} are said to be used but are not dedicated CPUs '
               f'of host {host.name}, so they are left out')
