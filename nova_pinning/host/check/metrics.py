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

"""What a check of a host found, for Prometheus' textfile collector."""

from collections.abc import Mapping

from nova_pinning.host.check import finding
from nova_pinning.host.check import rule
from nova_pinning.reports import gauges

_PREFIX = 'nova_pinning_host'


def exposition(result: finding.Result,
               rules: Mapping[str, rule.Rule]) -> str:
    """The metrics of one check.

    :param rules: all that there are, by code
    """
    made = gauges.Gauges(_PREFIX)
    made.add_violations('What is not as it was planned', rules,
                        result.findings)
    looked_at = made.add('looked_at', 'What was looked at, of each kind',
                         'kind')
    for kind, number in result.looked_at.items():
        looked_at.labels(kind).set(number)
    made.add('unread', 'Things that could not be looked at').set(
        len(result.unread))
    pages = made.add('huge_pages_free', 'Free huge pages by NUMA node',
                     'node', 'page_size_kib')
    for (node, size_kib), number in result.free_pages.items():
        pages.labels(node, size_kib).set(number)
    if result.watched_seconds:
        made.add('watched_seconds', 'How long threads were watched').set(
            result.watched_seconds)
        foreign = made.add(
            'foreign_run_seconds', 'How long threads ran on CPUs that are '
            'not for them, while they were watched', 'cpu')
        for cpu, seconds in result.foreign_seconds.items():
            foreign.labels(cpu).set(seconds)
    made.add_times('check', result.started, result.duration_seconds)
    return made.text()
