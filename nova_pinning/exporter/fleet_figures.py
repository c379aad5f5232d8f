# SPDX-License-Identifier: Apache-2.0
"""What was counted of a fleet, as metrics for Prometheus."""

from nova_pinning.checks import metrics
from nova_pinning.exporter import fleet_tally
from nova_pinning.exporter import host_facts
from nova_pinning.fleet import problems
from nova_pinning.presentation import capacity_report

_CLOUD = 'nova_pinning_cloud'


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
             for fact, *labels in tally.facts
             if fact is host_facts.FleetFact.PAGE_BYTES)}))
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
    gauges = {fact: made.add(fact.metric, fact.help_text, *fact.labels)
              for fact in host_facts.FleetFact}
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
