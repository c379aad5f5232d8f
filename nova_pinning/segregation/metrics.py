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

from nova_pinning.model import hostclass
from nova_pinning.reports import gauges
from nova_pinning.segregation.audit import run
from nova_pinning.segregation import report

_PREFIX = 'nova_pinning_segregation'


def exposition(audit: run.Audit) -> str:
    """The metrics of one audit."""
    made = gauges.Gauges(_PREFIX)
    made.add_violations('What keeps shared and dedicated from being apart',
                        run.RULES, audit.findings)
    classes = (*hostclass.HostClass, None)
    hosts = made.add('hosts', 'Compute nodes by class', 'host_class')
    servers = made.add('servers', 'Servers by the class of their host and '
                       'their own', 'host_class', 'server_class')
    for host_class in classes:
        name = report.class_name(host_class)
        hosts.labels(name).set(audit.hosts.get(host_class, 0))
        for own in classes:
            servers.labels(name, report.class_name(own)).set(
                audit.servers.get((host_class, own), 0))
    made.add_times('audit', audit.started, audit.duration_s)
    return made.text()
