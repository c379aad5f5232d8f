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

"""What the audit found, for Prometheus' textfile collector."""

import collections

import prometheus_client

from nova_pinning.model import hostclass
from nova_pinning.segregation.audit import run
from nova_pinning.segregation import report

_PREFIX = 'nova_pinning_segregation'


def exposition(audit: run.Audit) -> str:
    """The metrics of one audit.

    Each code is there under the severity of its rule, if only with 0, so that
    an alert sees a violation go.
    """
    registry = prometheus_client.CollectorRegistry()
    violations = _gauge(registry, 'violations',
                        'What keeps shared and dedicated from being apart',
                        'code', 'severity')
    counts = collections.Counter({
        (code, one.severity): 0 for code, one in run.RULES.items()})
    counts.update((one.code, one.severity) for one in audit.findings)
    for (code, severity), number in sorted(counts.items()):
        violations.labels(code, severity).set(number)
    classes = (*hostclass.HostClass, None)
    hosts = _gauge(registry, 'hosts', 'Compute nodes by class', 'host_class')
    servers = _gauge(registry, 'servers', 'Servers by the class of their '
                     'host and their own', 'host_class', 'server_class')
    for host_class in classes:
        name = report.class_name(host_class)
        hosts.labels(name).set(audit.hosts.get(host_class, 0))
        for own in classes:
            servers.labels(name, report.class_name(own)).set(
                audit.servers.get((host_class, own), 0))
    _gauge(registry, 'duration_seconds', 'How long the audit took').set(
        audit.duration_s)
    _gauge(registry, 'last_success_timestamp_seconds',
           'When the last audit that came to its end did so').set(
               audit.started + audit.duration_s)
    text: str = prometheus_client.generate_latest(registry).decode()
    return text


def _gauge(registry: prometheus_client.CollectorRegistry, name: str,
           help_text: str, *labels: str) -> prometheus_client.Gauge:
    return prometheus_client.Gauge(f'{_PREFIX}_{name}', help_text, labels,
                                   registry=registry)
