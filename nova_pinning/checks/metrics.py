# SPDX-License-Identifier: Apache-2.0
"""Metrics for Prometheus' textfile collector."""

import collections

import prometheus_client

from nova_pinning.checks import report


class Gauges:
    """Gauges that are written once.

    :param prefix: that all names begin with
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._registry = prometheus_client.CollectorRegistry()

    def add(self, name: str, help_text: str,
            *labels: str) -> prometheus_client.Gauge:
        """A new gauge; one with labels has no value until it is set."""
        return prometheus_client.Gauge(
            f'{self._prefix}_{name}', help_text, labels,
            registry=self._registry)

    def text(self) -> str:
        """All of them, as the collector reads them."""
        exposition: str = prometheus_client.generate_latest(
            self._registry).decode()
        return exposition


def exposition(checked: report.CheckReport) -> str:
    """The metrics of a check, as the collector reads them.

    Each code is there under the severity of its rule, if only with 0, so
    that an alert sees a violation go.
    """
    gauges = Gauges(f'nova_pinning_{checked.name}')
    counts = collections.Counter({
        (code, rule.severity): 0 for code, rule in checked.rules.items()})
    counts.update((finding.code, finding.severity)
                  for finding in checked.findings)
    violations = gauges.add('violations', 'What was found, by rule',
                            'code', 'severity')
    for (code, severity), number in sorted(counts.items()):
        violations.labels(code, severity).set(number)
    for figure in checked.figures:
        gauge = gauges.add(figure.name, figure.help_text, *figure.labels)
        for labels, value in figure.values.items():
            (gauge.labels(*labels) if labels else gauge).set(value)
    gauges.add('duration_seconds', 'How long the check took').set(
        checked.duration_seconds)
    gauges.add('last_success_timestamp_seconds',
               'When the last check that came to its end did so').set(
                   checked.started + checked.duration_seconds)
    return gauges.text()
