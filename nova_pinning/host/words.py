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

"""Words that what is said of hosts is made of."""

from nova_pinning import cpuset


def cpus(what: cpuset.CpuSet) -> str:
    """'CPU 3', 'CPUs 3-7', 'no CPU'."""
    if not what:
        return 'no CPU'
    return f'CPUs {what}' if len(what) > 1 else f'CPU {what}'


def count(number: int, noun: str) -> str:
    """'1 thread', '2 threads', '2 processes'."""
    ending = '' if number == 1 else 'es' if noun.endswith('s') else 's'
    return f'{number} {noun}{ending}'
