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

from nova_pinning.bridge import claim
from nova_pinning.bridge import nova_claim
from nova_pinning.bridge import nova_options
from nova_pinning.bridge import numa
from nova_pinning.bridge import order
from nova_pinning.bridge import pci
from nova_pinning.bridge import placement_queries
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
from nova_pinning.host import guest_affinity
from nova_pinning.host import host_model
from nova_pinning import model


def preview_guest(
    flavor: flavor_model.Flavor,
    image_properties: Mapping[str, str],
    host: host_model.HostDescription,
    used_cpus: cpuset.CpuSet = cpuset.CpuSet(),
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
    :raises errors.InputError: if nova would not accept flavor and image, or
        not start with the host's options
    """
    guest.prepare()
    aliases = order.pci_aliases(flavor)
    with nova_options.applied(settings.options(host, aliases)):
        request = order.from_flavor(flavor, image_properties)
        with order.refusals(flavor, image_properties):
            queries = placement_queries.queries(request)
        driver, host_topology = _start(host)
        tracker = devices.DeviceTracker(host, host_topology)
        if host_topology is not None and used_cpus:
            host_topology = _use(host_topology, used_cpus)
        outcome = _fit(request, host, host_topology, tracker)
        refused = query.refusal(queries, host, used_cpus)
        xml = None
        if not isinstance(outcome, model.Refusal) and refused is None:
            with order.refusals(flavor, image_properties):
                written = _xml(driver, request, outcome, tracker)
            if isinstance(written, model.Refusal):
                outcome = written
            else:
                xml = written
    placement = xml_placement.read_placement(xml, flavor.name) if xml else None
    return result.Preview(
        query=queries[0], fallback=queries[1], outcome=outcome,
        placement_refusal=refused, xml=xml, placement=placement,
        remarks=(*_remarks(queries[0], host, used_cpus, host_topology),
                 *query.resource_remarks(queries[0], host, xml or ''),
                 *_unseen(flavor, xml or ''),
                 *_everywhere(host, placement)))


def _start(
    host: host_model.HostDescription,
) -> tuple[machine.DescribedDriver, Any]:
    """The driver, and the host as it reports it."""
    try:
        driver = machine.DescribedDriver(host)
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
            return _no_devices(
                requests, tracker, model.Refusal(model.Reason.PCI))
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
    if not isinstance(decision, model.Refusal):
        return decision.fit
    if decision.reason is model.Reason.PCI:
        return _no_devices(requests, tracker, decision)
    return decision


def _no_devices(
    requests: list[Any],
    tracker: devices.DeviceTracker,
    refusal: model.Refusal,
) -> model.Refusal:
    """The refusal with figures if there are too few devices anywhere."""
    short = []
    for request in requests:
        have = sum(pool['count'] for pool in tracker.stats.pools if all(
            pool.get(key) == value for key, value in request.spec[0].items()))
        if have < request.count:
            short.append(f'{have} devices with alias "{request.alias_name}", '
                         f'{request.count} needed')
    if not short:
        return refusal
    return dataclasses.replace(refusal, detail='; '.join(short))


def _xml(
    driver: machine.DescribedDriver,
    request: order.ApiRequest,
    outcome: model.Fit | None,
    tracker: devices.DeviceTracker,
) -> str | model.Refusal:
    """The XML, or why nova-compute would not come to writing it.

    :raises ValueError: if an extra spec is odd that nova-compute reads last
    """
    placed = None
    if outcome is not None:
        placed = numa.instance_topology_from_fit(request.topology, outcome)
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
    kind = domain.find('os/type')
    return guest_machine.vcpu_refusal(
        int(domain.findtext('vcpu') or 0),
        kind.get('machine', '') if kind is not None else '',
        domain.find('devices/iommu') is not None)


def _unseen(flavor: flavor_model.Flavor, xml: str) -> Iterator[str]:
    """What the XML here is not, for this flavor."""
    profile = flavor.extra_specs.get('accel:device_profile')
    if profile and xml:
        yield (f'The devices of Cyborg\'s device profile {profile} are not '
               'shown: neither in the query nor in the XML')
    if 'cbitpos' in xml:
        yield ('cbitpos and reducedPhysBits in the XML are those of the first '
               'EPYCs; nova asks libvirt on the host')


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
    candidates_query: placement_queries.SchedulerQuery,
    host: host_model.HostDescription,
    used: cpuset.CpuSet,
    host_topology: Any,
) -> Iterator[str]:
    yield from query.trait_remarks(candidates_query, host)
    cells = host_topology.cells if host_topology else ()
    stray = used - cpuset.union(cpuset.CpuSet(cell.pcpuset) for cell in cells)
    if used - stray:
        yield (f'What else the guests on CPUs {used - stray} use is not '
               f'known: memory and devices are taken to be free')
    if stray:
        yield (f'CPUs {stray} are said to be used but are not dedicated CPUs '
               f'of host {host.name}, so they are left out')
