# SPDX-License-Identifier: Apache-2.0
"""Requests scheduled by nova's own manager, and claimed on hosts' real books.

A request is a list of cases of :mod:`nova_pinning.tests.oracle` that have the
same guest: one for each host that it can go on.
"""

import collections
import json
import random
import threading
import uuid

from nova import context as nova_context
from nova import objects
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager
from nova.scheduler import manager
from nova.scheduler import weights as nova_weights
from nova.virt import hardware

from nova_pinning.scheduler import filters
from nova_pinning.scheduler import weights
from nova_pinning.tests.oracle import claims
from nova_pinning.tests.oracle import fleet_oracle
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import scheduled_cases

#: What nova's manager reads of a RequestSpec besides what a case sets.
REST = {
    'ignore_hosts': None, 'force_hosts': None, 'force_nodes': None,
    'requested_destination': None, 'instance_group': None,
    'project_id': 'project', 'user_id': 'user',
}


class Placement:
    """What a scheduler claims of; it counts devices of providers only."""

    def __init__(self):
        self._lock = threading.Lock()
        self._taken = collections.Counter()

    def claim_resources(self, _context, _instance, alloc_req, *_args, **_more):
        wanted = collections.Counter(
            provider for providers in (alloc_req['mappings'] or {}).values()
            for provider in providers)
        host, = alloc_req['allocations']
        with self._lock:
            taken = self._taken
            devices = alloc_req['devices']
            if any(taken[host, provider] + count > devices[provider]
                   for provider, count in wanted.items()):
                return False
            for provider, count in wanted.items():
                taken[host, provider] += count
        return True


class Scheduler(manager.SchedulerManager):
    """Nova's own, with our filters and weighers and no other.

    One serves all threads, as in nova-scheduler. There is no database, no
    message bus and no Placement, and that some instances find no host does
    not take theirs from the others.

    :param filter_kinds: the classes of filters; of HostClassFilter, claims
        know nothing
    """

    placement_client = None

    def __init__(self, filter_kinds=(filters.PinnedTopologyFilter,)):
        # What nova does here needs all three.
        self.host_manager = object.__new__(host_manager.HostManager)
        vars(self.host_manager).update(
            filter_handler=nova_filters.HostFilterHandler(),
            enabled_filters=[kind() for kind in filter_kinds],
            weight_handler=nova_weights.HostWeightHandler(),
            weighers=[kind() for kind in weights.all_weighers()])
        self.placement_client = Placement()

    def _get_all_host_states(self, context, spec_obj, provider_summaries):
        return provider_summaries

    def _ensure_sufficient_hosts(self, *args, **kwargs):
        pass

    def ordered(self, states, spec):
        """The hosts that are left for one instance with their weights.

        :returns: (name, weight), best first
        """
        chosen = self.host_manager.get_filtered_hosts(states, spec)
        return [(weighed.obj.host, weighed.weight)
                for weighed in self.host_manager.get_weighed_hosts(
                    chosen, spec)]

    def schedule(self, cases, count, candidates=None):
        """Find hosts for so many instances of one request.

        :param cases: one for each host
        :param candidates: mappings of the allocation candidates of each
            host; those of the cases if None
        :returns: (number of the host, mappings) of each that found one
        """
        case = cases[0]
        states = []
        alloc_reqs = {}
        for number, host_case in enumerate(cases):
            state = scheduled_cases.state_of(host_case)
            state.host = str(number)
            states.append(state)
            alloc_reqs[state.uuid] = [
                {'allocations': {state.uuid: {}}, 'mappings': mappings,
                 'devices': _devices(host_case)}
                for mappings in candidates or [host_case.mapping()]]
        spec = scheduled_cases.spec_of(case)
        for name, value in REST.items():
            setattr(spec, name, value)
        spec.num_instances = count
        spec.requested_resources = _groups(case, candidates)
        with case.configured():
            selected = self._schedule(
                nova_context.get_admin_context(), spec,
                [str(uuid.uuid4()) for _ in range(count)], alloc_reqs, states,
                return_alternates=True)
        return [
            (int(selection.service_host),
             json.loads(selection.allocation_request)['mappings'])
            for selection, *_alternates in selected]


def _devices(case):
    counts = collections.Counter()
    for pool in (case.data['pci'] or {'pools': []})['pools']:
        counts[pool.get('rp_uuid')] += pool['count']
    return counts


def _groups(case, candidates):
    """What of the request is claimed from a provider each.

    As far as nova reads it: it sets the providers that were claimed.
    """
    mappings = (candidates or [case.mapping()])[0] or {}
    return [objects.RequestGroup(requester_id=name, provider_uuids=[])
            for name in mappings]


class Books:
    """What nova-compute has on its books for one host.

    :param case: the host, and the guest that comes again and again
    """

    def __init__(self, case):
        self._case = case
        self._topology = case.host()
        self._stats = case.pci_stats()

    def claim(self, mappings):
        """Claim for one more guest, and book it if that is right.

        :param mappings: of the allocation candidate
        :returns: what is wrong with the claim; empty if it is right
        """
        case = self._now(mappings)
        with case.configured():
            wrong = claims.claim(
                case, self._topology, range(len(case.data['guest']['cells'])))
            if wrong:
                return wrong
            requests, stats = claims.pci(case)
            answer = hardware.numa_fit_instance_to_host(
                self._topology, case.guest(), None, case.limits(), requests,
                stats)
        self._topology = hardware.numa_usage_from_instance_numa(
            self._topology, answer)
        if requests:
            self._stats.apply_requests(requests, None, answer.cells)
        return wrong

    def _now(self, mappings):
        """The case with what is used now."""
        data = {**self._case.data, 'host': [
            {**cell, 'pinned': sorted(now.pinned_cpus),
             'memory_used': now.memory_usage, 'cpu_usage': now.cpu_usage,
             'pages': [[pages.size_kb, pages.total, pages.used,
                        pages.reserved] for pages in now.mempages]}
            for cell, now in zip(
                self._case.data['host'], self._topology.cells)]}
        if data['pci']:
            data['pci'] = {**data['pci'], 'pools': self._stats.pools,
                           'mapping': mappings}
        return oracle_case.Case(data)


def judge(cases, count, placed, candidates=None):
    """What is wrong with the hosts that were found for instances.

    :param placed: as Scheduler.schedule has it
    :returns: sentences, none if all is right
    """
    books = [Books(case) for case in cases]
    sentences = []
    for number, (host, mappings) in enumerate(placed):
        wrong = books[host].claim(mappings)
        if wrong:
            sentences.append(
                f'the claim of server {number} on host {host} is wrong: '
                f'{", ".join(sorted(map(str, wrong)))}')
    if not sentences and len(placed) < count:
        for host, (case, book) in enumerate(zip(cases, books)):
            for mappings in candidates or [case.mapping()]:
                if not book.claim(mappings):
                    sentences.append(
                        f'server {len(placed)} has no host, though its claim '
                        f'on host {host} would be right')
                    break
    return sentences


def request(number):
    """A request whose guest fits on some hosts several times."""
    rng = random.Random(number)
    drawn = [fleet_oracle.fleet(31, 4 * number + host)
             for host in range(rng.randint(1, 4))]
    data = drawn[0].data
    guest = data['guest']
    guest['cells'] = guest['cells'][:rng.choice((1, 2, 2, 3))]
    vcpu = 0
    for cell in guest['cells']:
        for kind in ('dedicated', 'shared'):
            some = rng.choice((1, 1, 2)) if cell[kind] else 0
            cell[kind] = list(range(vcpu, vcpu + some))
            vcpu += some
        cell['memory'] = rng.choice((256, 512, 1024))
    if data['pci']:
        del data['pci']['requests'][1:]
    made = []
    for case in drawn:
        pci = data['pci'] and {
            'requests': data['pci']['requests'], 'mapping': None,
            'pools': [
                {name: value for name, value in pool.items()
                 if name != 'rp_uuid'}
                for pool in (case.data['pci'] or {'pools': ()})['pools']]}
        made.append(oracle_case.Case({
            'guest': guest, 'pack': data['pack'], 'pci': pci, 'odd': False,
            'limits': data['limits'], 'host': case.data['host'],
            'others': []}))
    return [] if any(case.data['odd'] for case in drawn) else made
