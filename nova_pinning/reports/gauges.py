#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Metrics for Prometheus' textfile collector."""

import collections
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Protocol

import prometheus_client

from nova_pinning.reports import findings


class Coded(findings.Severe, Protocol):
    """A finding that has the code of its rule."""

    @property
    def code(self) -> str: ...


class Gauges:
    """The gauges of one check.

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

    def add_violations(self, help_text: str,
                       rules: Mapping[str, findings.Severe],
                       found: Iterable[Coded]) -> None:
        """How many findings there are by code and severity.

        Each code is there under the severity of its rule, if only with 0, so
        that an alert sees a violation go.
        """
        counts = collections.Counter({
            (code, one.severity): 0 for code, one in rules.items()})
        counts.update((one.code, one.severity) for one in found)
        violations = self.add('violations', help_text, 'code', 'severity')
        for (code, level), number in sorted(counts.items()):
            violations.labels(code, level).set(number)

    def add_times(self, what: str, started: float, duration: float) -> None:
        """When a check ended, and how long it took, in seconds."""
        self.add('duration_seconds', f'How long the {what} took').set(
            duration)
        self.add('last_success_timestamp_seconds',
                 f'When the last {what} that came to its end did so').set(
                     started + duration)

    def text(self) -> str:
        """All of them, as the collector reads them."""
        made: str = prometheus_client.generate_latest(
            self._registry).decode()
        return made
