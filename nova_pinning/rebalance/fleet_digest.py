# SPDX-License-Identifier: Apache-2.0
"""A digest of the state of a fleet that a plan of moves is made for."""

import dataclasses
import hashlib
import json

from nova_pinning.admission import offered_host
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning.document import encoder
from nova_pinning.fleet import snapshot

_PREFIX = 'sha256:'


def of_fleet(fleet: snapshot.Fleet) -> str:
    """What two snapshots have alike if a plan for one is one for the other.

    That is all they tell of hosts and guests, wherever it stands in the
    file, without what no move depends on: the names of guests and server
    groups, the age of guests, why a host is disabled, flavors, aggregates and
    groups that nothing is in, what nova.conf says, which commands may be told
    otherwise, and of the snapshot itself from where and when it is.

    :returns: ``sha256:`` and 64 hexadecimal digits
    :raises codec.MisfitError: if something of it is out of its range
    """
    document = encoder.encode(_canonical(fleet), sparse=True)
    text = json.dumps(document, ensure_ascii=False, separators=(',', ':'))
    digest = hashlib.sha256(text.encode(), usedforsecurity=False)
    return _PREFIX + digest.hexdigest()


def _canonical(fleet: snapshot.Fleet) -> snapshot.Fleet:
    """The fleet in an order of its own, with nothing that may differ."""
    flavors = {guest.flavor for guest in fleet.guests}
    aggregates = {name for host in fleet.hosts for name in host.aggregates}
    groups = {guest.server_group for guest in fleet.guests}
    return dataclasses.replace(
        fleet,
        hosts=tuple([
            _host(host) for host in sorted(
                fleet.hosts, key=lambda host: host.name)]),
        guests=tuple([
            _guest(guest) for guest in sorted(
                fleet.guests, key=lambda guest: guest.uuid)]),
        flavors=tuple(
            dataclasses.replace(flavor, id='', description='')
            for flavor in sorted(
                fleet.flavors, key=lambda flavor: flavor.name)
            if flavor.name in flavors),
        aggregates=tuple(
            aggregate for aggregate in sorted(
                fleet.aggregates, key=lambda aggregate: aggregate.name)
            if aggregate.name in aggregates),
        server_groups=tuple(
            dataclasses.replace(group, name='') for group in sorted(
                fleet.server_groups, key=lambda group: group.id)
            if group.id in groups),
        enabled_filters=(), rules=scheduler_rules.SchedulerRules(),
        pci_aliases={}, taken_at='', source='')


def _host(host: offered_host.OfferedHost) -> offered_host.OfferedHost:
    # The order of cells, cores and page sizes is nova's, and counts.
    return dataclasses.replace(
        host, l3_domains=(), aggregates=tuple(sorted(host.aggregates)),
        pci_pools=tuple(sorted(
            host.pci_pools, key=lambda pool: (
                pool.keys, pool.numa_node is not None, pool.numa_node or 0,
                pool.total))),
        children=tuple([dataclasses.replace(child, uuid='', name='')
                        for child in host.children]),
        disabled_reason='', gaps=())


def _guest(
    guest: resident_guest.ResidentGuest,
) -> resident_guest.ResidentGuest:
    return dataclasses.replace(
        guest, name='', launched_at='',
        devices=tuple(sorted(
            guest.devices, key=lambda use: (
                use.keys, use.numa_node is not None, use.numa_node or 0,
                use.count))))
