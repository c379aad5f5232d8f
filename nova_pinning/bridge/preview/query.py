# SPDX-License-Identifier: Apache-2.0
"""How a host answers what nova-scheduler asks Placement."""

from collections.abc import Collection
from collections.abc import Iterator
import dataclasses

from nova_pinning.admission import device_lacks
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import outcome
from nova_pinning.admission import scheduler_rules
from nova_pinning.bridge.offline import placement_queries
from nova_pinning.bridge.preview import placement_parser
from nova_pinning import cpuset
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning.host import host_offer
from nova_pinning import model
from nova_pinning.placement import inventory


def verdicts(
    request: guest_request.GuestRequest,
    description: host_model.HostDescription,
    used: cpuset.CpuSet,
) -> tuple[judge.LayerVerdicts, device_lacks.DeviceLack | None]:
    """What a host makes of a guest, as far as its file tells.

    Memory that guests use is not known, and neither are floating vCPUs.

    :param used: CPUs that guests are pinned to
    :returns: that, and what of its devices keeps the guest from it
    """
    host = dataclasses.replace(host_offer.offered(description), held={
        inventory.PCPU: len(engine.dedicated_cpus(description) & used)})
    occupancy = host_occupancy.of_host(host)
    admission = judge.AdmissionJudge(
        scheduler_rules.SchedulerRules(enabled_filters=()))
    found = admission.verdicts(request, occupancy)
    return found, device_lacks.find(request, occupancy, admission, found)


def refusal(
    query: placement_queries.SchedulerQuery, found: judge.LayerVerdicts,
) -> model.Refusal | None:
    """Why Placement would not offer the host, None if it would, or may.

    Placement's own parser reads the query.

    :param query: the first
    """
    unreadable = placement_parser.refusal(query.querystring)
    if unreadable:
        return model.Refusal(
            model.Reason.ALLOCATION,
            detail=f'it refuses the query (status 400): {unreadable}')
    told = [refused.text for refused in found.refusals
            if refused.layer is outcome.RefusalLayer.PLACEMENT]
    return model.Refusal(model.Reason.ALLOCATION,
                         detail='; '.join(told)) if told else None


def xml_remarks(
    query: placement_queries.SchedulerQuery, xml: str,
    devices: Collection[str],
) -> Iterator[str]:
    """What is asked for that the XML here does not show.

    :param xml: the guest's
    :param devices: by which resource classes its PCI devices are asked for
    """
    for name, amount in sorted(query.resources.items()):
        if name in inventory.COUNTED or name in devices:
            continue
        if name.startswith('CUSTOM_PMEM_NAMESPACE_'):
            yield (f'The path and the size of the memory that the guest gets '
                   f'for {amount} {name} are made up in the XML')
        elif not any(element in xml for element in _SHOWN.get(name, ())):
            yield (f'The XML here does not show what the guest gets for '
                   f'{amount} {name}')


#: What of the XML shows a resource, by its class.
_SHOWN = {'MEM_ENCRYPTION_CONTEXT': ('<launchSecurity',)}
