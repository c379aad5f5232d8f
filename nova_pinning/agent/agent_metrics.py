# SPDX-License-Identifier: Apache-2.0
"""What the agent tells Prometheus: who uses the caches, and what it did."""

from collections.abc import Iterable

from nova_pinning.agent import guest_monitoring
from nova_pinning.agent import host_agent
from nova_pinning.checks import metrics

_EVENTS = {
    'llc_occupancy': ('l3_occupancy_bytes', 'What a guest has in an L3 cache'),
    'mbm_total_bytes': ('memory_total_bytes',
                        'What a guest has moved to and from memory'),
    'mbm_local_bytes': ('memory_local_bytes',
                        'What of that was memory of the same node'),
}


def exposition(round_: host_agent.Round,
               uses: Iterable[guest_monitoring.CacheUse],
               moves: int, looked_at: float) -> str:
    """The metrics, as the textfile collector reads them.

    :param moves: of floating guests within the last hour
    :param looked_at: when the round was, in seconds since the epoch
    """
    gauges = metrics.Gauges('nova_pinning_agent')
    by_event = {event: gauges.add(name, help_text, 'guest', 'uuid', 'domain')
                for event, (name, help_text) in _EVENTS.items()}
    for use in uses:
        if use.event in by_event:
            by_event[use.event].labels(
                use.name, use.uuid, str(use.domain)).set(use.value)
    ways = gauges.add('l3_ways', 'Ways of an L3 cache that a guest has for '
                      'itself', 'guest', 'uuid', 'domain')
    for guest in round_.guests:
        for domain, mask in round_.masks.get(guest.uuid, {}).items():
            ways.labels(guest.name, guest.uuid, str(domain)).set(
                mask.bit_count())
    gauges.add('guests', 'Guests that run').set(len(round_.guests))
    gauges.add('guests_waiting', 'Guests without what their flavor asks '
               'for').set(len(round_.waiting))
    gauges.add('troubles', 'Changes that could not be made').set(
        len(round_.trouble))
    gauges.add('moves', 'Floating guests that got another home within the '
               'last hour').set(moves)
    gauges.add('interrupts_not_banned', 'Interrupts of the agent that '
               'irqbalance may move, as far as is known').set(
        len(round_.unbanned))
    gauges.add('round_seconds', 'How long the last look took').set(
        round_.seconds)
    gauges.add('last_round_timestamp_seconds', 'When the last look was').set(
        looked_at)
    return gauges.text()
