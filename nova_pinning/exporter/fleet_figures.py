# SPDX-License-Identifier: Apache-2.0
"""What was counted of a fleet, as metrics for Prometheus."""

from collections.abc import Mapping
from typing import NamedTuple

from nova_pinning.checks import metrics
from nova_pinning.exporter import fleet_tally
from nova_pinning.exporter import host_facts
from nova_pinning.fleet import problems
from nova_pinning.presentation import capacity_report

_CLOUD = 'nova_pinning_cloud'
_Fact = host_facts.FleetFact


class _FactMetric(NamedTuple):
    name: str
    help_text: str
    labels: tuple[str, ...] = ('class',)


#: What stands in the sums, by name without prefix.
_FACTS: Mapping[host_facts.FleetFact, _FactMetric] = {
    _Fact.HOSTS: _FactMetric(
        'hosts', 'Hosts, by class and whether nova-scheduler may choose them',
        ('class', 'state')),
    _Fact.GUESTS: _FactMetric(
        'guests', 'Guests, by the class of their host and their own; where '
        'the two differ the hosts are not kept apart',
        ('class', 'guest_class')),
    _Fact.FLAVOR_GUESTS: _FactMetric(
        'flavor_guests', 'Guests by flavor; other for flavors that are not '
        'counted', ('flavor',)),
    _Fact.DEDICATED_CPUS: _FactMetric(
        'dedicated_cpus', 'CPUs that pinned guests can have'),
    _Fact.PINNED_CPUS: _FactMetric(
        'pinned_cpus', 'CPUs that guests are pinned to'),
    _Fact.SHARED_CPUS: _FactMetric(
        'shared_cpus', 'CPUs that floating guests share'),
    _Fact.FLOATING_VCPUS: _FactMetric(
        'floating_vcpus', 'vCPUs of guests that float over shared CPUs'),
    _Fact.MEMORY_BYTES: _FactMetric(
        'memory_bytes', 'Memory of hosts in all NUMA cells'),
    _Fact.GUEST_MEMORY_BYTES: _FactMetric(
        'guest_memory_bytes', 'Memory that guests were sold'),
    _Fact.PAGE_BYTES: _FactMetric(
        'page_bytes', 'Memory in pages of a size', ('class', 'page_size_kib')),
    _Fact.USED_PAGE_BYTES: _FactMetric(
        'used_page_bytes', 'Memory in pages of a size that guests with page '
        'size or NUMA cells have', ('class', 'page_size_kib')),
}


def text(tally: fleet_tally.FleetTally, taken_at: float | None) -> str:
    """All figures, as Prometheus reads them.

    :param taken_at: when what was counted was so, in seconds of the epoch;
        None if that is not known
    """
    return (_of_capacity(tally) + _of_facts(tally, taken_at)
            + _of_findings(tally))


def _of_capacity(tally: fleet_tally.FleetTally) -> str:
    made = metrics.Gauges('nova_pinning_capacity')
    by_class = tally.by_class()
    capacity_report.add_gauges(made, by_class, sorted({
        0, *(int(str(labels[1]))
             for fact, *labels in tally.facts if fact is _Fact.PAGE_BYTES)}))
    largest = made.add(
        'largest_flavor_vcpus', 'vCPUs of the largest flavor of which one '
        'more guest fits, 0 if none does', 'class')
    for host_class, (sizes, _stranded) in by_class.items():
        largest.labels(capacity_report.class_name(host_class)).set(
            max((size.request.vcpus for size in sizes if size.fits),
                default=0))
    return made.text()


def _of_facts(tally: fleet_tally.FleetTally, taken_at: float | None) -> str:
    made = metrics.Gauges(_CLOUD)
    gauges = {fact: made.add(metric.name, metric.help_text, *metric.labels)
              for fact, metric in _FACTS.items()}
    for (fact, *labels), number in sorted(
            tally.facts.items(), key=lambda item: str(item[0][1:])):
        if isinstance(fact, host_facts.FleetFact):
            gauges[fact].labels(*labels).set(number)
    if taken_at is not None:
        made.add('taken_timestamp_seconds', 'When hosts and guests were as '
                 'they are counted here').set(taken_at)
    return made.text()


def _of_findings(tally: fleet_tally.FleetTally) -> str:
    """The same series as ``fleet check`` writes."""
    made = metrics.Gauges('nova_pinning_fleet')
    violations = made.add('violations', 'What was found, by rule',
                          'code', 'severity')
    counts = {(code, rule.severity): 0
              for code, rule in problems.RULES.items()}
    for (code, severity), number in sorted({
            **counts, **tally.findings}.items()):
        violations.labels(code, severity).set(number)
    return made.text()
