# SPDX-License-Identifier: Apache-2.0
"""Why a plan is as it is, in words, and how other choices compare."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.host import cache_capacity
from nova_pinning.host import host_model
from nova_pinning.host import levers
from nova_pinning.host.plan import allocatable_cores
from nova_pinning.host.plan import devices
from nova_pinning.host.plan import memory
from nova_pinning.host.plan import plan_request
from nova_pinning.host import plan_model
from nova_pinning.host import words


@dataclasses.dataclass(frozen=True, slots=True)
class PricedChoice:
    """A choice, what it sells, and what becomes of memory with it."""

    choice: plan_model.CpuChoice
    offer: plan_model.Offer
    memory: memory.MemoryPlan

    def unsold(self, description: host_model.HostDescription,
               ) -> Mapping[int, cpuset.CpuSet]:
        """Dedicated CPUs by node without memory for guests there."""
        unsold = {node.id: node.cpus & self.choice.dedicated_cpus
                  for node in description.nodes
                  if not self.memory.guest_mib[node.id]}
        return {node: cpus for node, cpus in unsold.items() if cpus}


def reasons(
    description: host_model.HostDescription,
    request: plan_request.PlanOptions,
    taken: PricedChoice,
    others: Sequence[PricedChoice],
) -> Iterator[plan_model.PlanReason]:
    """A reason for each choice but those of interrupts."""
    choice, offer = taken.choice, taken.offer
    yield from _host_reasons(description, request, taken, others)
    if choice.poll_cpus:
        yield plan_model.PlanReason(
            'poll_cpus', f'{_spread(description, choice.poll_cpus)} poll '
            'NICs for OVS-DPDK: they are shared out to the nodes of the '
            "host's NICs, since such a thread serves NICs of its own node")
    if choice.shared_cpus:
        yield plan_model.PlanReason('shared_cpus', _shared_reason(
            description, request, choice, offer))
    if choice.dedicated_cpus:
        stranded = sum(offer.stranded_cpus.values())
        unsold = sum(map(len, taken.unsold(description).values()))
        yield plan_model.PlanReason(
            'dedicated_cpus',
            f'all that is left is {"dedicated" if unsold else "sold"}, '
            f'{words.count(len(choice.dedicated_cpus), "CPU")}; '
            + (f'{unsold} of them are on nodes without memory for guests; '
               if unsold else '')
            + (f'left when the mix is full: {words.count(stranded, "CPU")}'
               if stranded else 'the mix uses all of them'))
    yield from _memory_reasons(description, request, choice, taken.memory)
    aliases: dict[str, list[str]] = {}
    for device in description.pci_devices:
        if device.alias and (device.driver or device.names):
            aliases.setdefault(device.alias, []).append(device.address)
    for alias, addresses in aliases.items():
        yield plan_model.PlanReason(
            'pci_devices', f'for guests as {alias}, and no longer for the '
            f'host: {devices.listed(addresses)}')


def cache_reasons(
    planned: host_model.HostDescription,
) -> Iterator[plan_model.PlanReason]:
    """What guests can have of the caches, and that they lie on several."""
    most = max(len(node.l3_domains) for node in planned.nodes)
    if most > 1 and planned.plan is not None and planned.plan.sizes:
        yield plan_model.PlanReason(
            'l3_caches', f'a node has {most}, and nova gives out CPUs without '
            'a look at them; --caches tells on how many guests will lie, and '
            'what to do about it')
    resctrl, caches = planned.resctrl, cache_capacity.of_host(planned)
    if resctrl is None or caches is None:
        return
    groups = (f'{words.count(caches.groups, "guest")} at most can have any of '
              'that' if caches.groups else 'but there are no groups for them')
    if resctrl.l3 and caches.ways:
        kept = resctrl.l3.ways - caches.ways
        yield plan_model.PlanReason(
            'l3_ways', f'{caches.ways} of {resctrl.l3.ways} ways of each of '
            f'{words.count(caches.caches, "L3 cache")} are for guests that '
            f'ask for ways of their own, {caches.ways * caches.caches} '
            f'together; {kept} stay for everybody else, those that devices '
            f'use among them; {groups}')
    if resctrl.mb:
        yield plan_model.PlanReason(
            'memory_bandwidth', 'it can be limited for each guest from '
            f'{resctrl.mb.min_bandwidth} per cent on, in steps of '
            f'{resctrl.mb.bandwidth_gran}; {groups}')


def interrupt_reasons(
    interrupts: Iterable[tuple[plan_model.Interrupts, str]],
) -> Iterator[plan_model.PlanReason]:
    """Devices of which the same is to be said, together."""
    names: dict[str, list[str]] = {}
    for interrupt, reason in interrupts:
        names.setdefault(reason, []).append(interrupt.name)
    return (plan_model.PlanReason(
        'interrupts', f'{devices.listed(some)}: {reason}')
        for reason, some in names.items())


def lever_reasons(
    pulled: Mapping[str, str],
) -> Iterator[plan_model.PlanReason]:
    """What each lever brings and costs, and where it is not for."""
    for name, value in pulled.items():
        lever = levers.LEVERS[name]
        yield plan_model.PlanReason(
            'levers', f'{name} {value}: {lever.why}; costs: {lever.costs}; '
            f'not where {lever.not_where}')


def difference(description: host_model.HostDescription,
               taken: PricedChoice, other: PricedChoice) -> str:
    """What another choice is better and worse at than the one taken."""
    cpus = other.choice.host_cpus
    parts = [_sales(taken.offer, other.offer) or 'sells the same']
    facts = zip(_facts(description, taken.choice),
                _facts(description, other.choice))
    parts += [f'{what}: {now} instead of {before}'
              for (what, before, _all), (_what, now, _of_all) in facts
              if before != now]
    if (0 in taken.choice.host_cpus) != (0 in cpus):
        parts.append('CPU 0 is for the host' if 0 in cpus
                     else 'CPU 0 is not for the host')
    parts += [
        f'{_spread(description, other_cpus)} {what}'
        for taken_cpus, other_cpus, what in (
            (taken.choice.host_cpus, cpus, 'for the host'),
            (taken.choice.shared_cpus, other.choice.shared_cpus, 'shared'))
        if taken_cpus != other_cpus]
    return '; '.join(parts)


def _host_reasons(
    description: host_model.HostDescription, request: plan_request.PlanOptions,
    taken: PricedChoice, others: Sequence[PricedChoice],
) -> Iterator[plan_model.PlanReason]:
    cpus = taken.choice.host_cpus
    if request.host_cpus is None:
        mbps = plan_request.nic_mbps(description)
        needed = plan_request.cpus_for_nics(mbps)
        by_nics = ''
        if needed and not taken.choice.poll_cpus:
            by_nics = (f', or {needed} for {mbps / 1000:g} Gbit/s of NICs but '
                       'at most twice as many')
        number = ('nobody said how many, so it is 2 and 1 for each 40 CPUs'
                  f'{by_nics}; up to a quarter of all, in whole cores')
    else:
        number = f'as asked for with --host-cpus {request.host_cpus}'
        if len(cpus) > request.host_cpus:
            number += ', rounded up to whole cores'
    yield plan_model.PlanReason(
        'host_cpus', f'{_spread(description, cpus)} for the '
        f'host: {number}')
    figures = taken.offer.figures
    worse = next((other for other in others
                  if other.offer.figures < figures), None)
    if worse is not None and not any(
            other.offer.figures > figures for other in others):
        yield plan_model.PlanReason(
            'host_cpus', 'this leaves most to sell: '
            f'{_taken(description, worse.choice)} would leave '
            + _sales(taken.offer, worse.offer))
    for what, count, of_all in _facts(description, taken.choice):
        yield plan_model.PlanReason('host_cpus', f'{what}: {count}{of_all}')


def _shared_reason(
    description: host_model.HostDescription, request: plan_request.PlanOptions,
    choice: plan_model.CpuChoice, offer: plan_model.Offer,
) -> str:
    spread = _spread(description, choice.shared_cpus)
    if request.purpose is plan_model.Purpose.DEDICATED:
        return (f'{spread} for emulator threads, and for vhost threads, which '
                'run where emulator threads do (libvirt\'s emulatorpin): '
                'apart from vCPUs, and on the nodes of the guests as far as '
                'that costs no guest')
    # nova reports the number of CPUs as max_unit (LibvirtDriver,
    # update_provider_tree).
    text = (f'{spread} for shared guests, '
            f'{words.count(offer.shared_vcpus, "vCPU")} together and at most '
            f'{len(choice.shared_cpus)} for each, and for emulator and vhost '
            'threads of all guests')
    if (request.purpose is plan_model.Purpose.BOTH
            and request.shared_cpus is None):
        text += '; nobody said how many, so it is half of what is left'
    return text


def _memory_reasons(
    description: host_model.HostDescription, request: plan_request.PlanOptions,
    choice: plan_model.CpuChoice, shared_out: memory.MemoryPlan,
) -> Iterator[plan_model.PlanReason]:
    own = quantities.shown_memory(shared_out.reserved_mib)
    if request.host_memory_mib is None:
        how = '8 GiB and 4 % of all memory, up to a quarter of it'
    else:
        how = (f'{quantities.shown_memory(request.host_memory_mib)} for the '
               'host')
    yield plan_model.PlanReason(
        'memory', f'{own} kept from guests: {how}, half of it from all '
        'nodes with CPUs, half from those with CPUs for the host, and what '
        'does not make up pages or is on nodes without CPUs for guests')
    given = [node.gpu for node in description.nodes
             if node.gpu and not node.memory_mib]
    if given:
        yield plan_model.PlanReason(
            'memory', f'that of {words.listed(given)} goes to guests with '
            'the GPU')
    if not shared_out.page_size_kib:
        yield plan_model.PlanReason('huge_pages', 'guests get no huge pages')
        return
    size = quantities.shown_page_size(shared_out.page_size_kib)
    all_in_pages = (bool(request.poll_cpus)
                    or request.purpose is not plan_model.Purpose.BOTH)
    guest_cpus = choice.dedicated_cpus
    if all_in_pages and request.purpose is not plan_model.Purpose.DEDICATED:
        guest_cpus |= choice.shared_cpus
    parts = []
    for node in description.nodes:
        pages = shared_out.guest_pages.get(node.id, 0)
        cpus = len(node.cpus & guest_cpus)
        if pages and cpus:
            mib = pages * shared_out.page_size_kib // 1024
            parts.append(f'{pages} on node {node.id} ('
                         f'{mib / 1024 / cpus:.1f} GiB for each CPU)')
    yield plan_model.PlanReason(
        'huge_pages', f'all memory for {"" if all_in_pages else "pinned "}'
        f'guests is in pages of {size}: '
        + (', '.join(parts) or 'none')
        + '; flavors ask for them with hw:mem_page_size, and a guest whose '
        'flavor does not takes memory that the host keeps')
    if shared_out.poll_pages:
        yield plan_model.PlanReason(
            'poll_pages', 'OVS-DPDK has 4 GiB on each node with CPUs for '
            'polling, enough for frames of 9000 bytes')


def _sales(taken: plan_model.Offer, other: plan_model.Offer) -> str:
    """Where another offer differs from the one taken."""
    parts = [
        f'{words.count(sale.alone, "guest")} of '
        f'{words.count(sale.vcpus, "vCPU")} instead of {before.alone}'
        for before, sale in zip(taken.sales, other.sales)
        if before.alone != sale.alone]
    mixed, before_mixed = other.figures[0], taken.figures[0]
    if len(taken.sales) > 1 and mixed != before_mixed:
        parts.append(f'{words.count(mixed, "guest")} mixed instead of '
                     f'{before_mixed}')
    return ', '.join(parts)


def _facts(
    description: host_model.HostDescription, choice: plan_model.CpuChoice,
) -> Iterator[tuple[str, int, str]]:
    """What choices are compared by, beside what they sell.

    :returns: (what is counted, how many, ' of N' where that says more)
    """
    near = {node.id for node in description.nodes
            if node.cpus & choice.host_cpus}
    for what, is_in_use in (('NICs and drives in use', True),
                            ('idle NICs and drives', False)):
        nodes = [
            device.numa_node for device in description.pci_devices
            if allocatable_cores.serves_host(device) and device.numa_node
            is not None and allocatable_cores.is_in_use(device) == is_in_use]
        if nodes:
            yield (f'{what} with CPUs for the host on their node',
                   sum(node in near for node in nodes), f' of {len(nodes)}')
    domains = {domain for node in description.nodes
               for domain in node.l3_domains}
    if domains:
        own = choice.host_cpus | choice.poll_cpus
        guests = choice.dedicated_cpus | choice.shared_cpus
        yield 'CPUs of guests in L3 domains with CPUs for the host', len(
            guests & cpuset.union(
                domain for domain in domains if domain & own)), ''


def _spread(description: host_model.HostDescription,
            cpus: cpuset.CpuSet) -> str:
    """CPUs with their nodes: 'CPUs 0-1,40-41 (4 on node 0)'."""
    by_count: dict[int, list[int]] = {}
    for node in description.nodes:
        count = len(node.cpus & cpus)
        if count:
            by_count.setdefault(count, []).append(node.id)
    parts = (
        f'{count} on {"" if len(nodes) == 1 else "each of "}'
        f'node{"" if len(nodes) == 1 else "s"} {cpuset.CpuSet(nodes)}'
        for count, nodes in by_count.items())
    return f'{words.cpus(cpus)} ({", ".join(parts)})'


def _taken(description: host_model.HostDescription,
           choice: plan_model.CpuChoice) -> str:
    """The CPUs that are not sold to pinned guests, with what they are for."""
    text = f'{_spread(description, choice.host_cpus)} for the host'
    if choice.shared_cpus:
        text += f' and {_spread(description, choice.shared_cpus)} shared'
    return text
