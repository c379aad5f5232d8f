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

"""What a check of a host found."""

from collections.abc import Mapping
import dataclasses

from nova_pinning import cpuset
from nova_pinning.model import severity

#: An error breaks what guests were promised, now or at the next boot. A
#: warning is a risk to it. A note is worth knowing.
Severity = severity.Severity


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Where on the host a finding shows. What does not apply is left out.

    :param pid: of the process
    :param tid: of the thread
    :param name: of the thread, service, device or file
    :param interrupt: its number
    :param node: NUMA node
    :param cpus: the CPUs that it is about
    :param expected_cpus: the CPUs that it should be
    :param run_seconds: how long it ran on CPUs that are not for it
    :param is_estimate: whether run_seconds is one, because nobody can tell
        when exactly the thread changed CPUs
    :param count: how often it happened
    """

    pid: int | None = None
    tid: int | None = None
    name: str = ''
    interrupt: int | None = None
    node: int | None = None
    cpus: cpuset.CpuSet | None = None
    expected_cpus: cpuset.CpuSet | None = None
    run_seconds: float | None = None
    is_estimate: bool = False
    count: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it was planned.

    :param code: the rule's stable code, such as 'H201'
    :param subject: what it is about: 'nova.conf', 'guest instance-0000002a',
        'service libvirtd', 'interrupt 58 (eth0-rx-0)'
    :param message: what is wrong, a sentence without a full stop
    :param why: what it breaks
    :param advice: what mends it
    :param mends: commands that do, one after the other; may be empty
    """

    code: str
    severity: Severity
    subject: str
    message: str
    why: str
    advice: str
    evidence: tuple[Evidence, ...] = ()
    mends: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be looked at.

    :param path: a file, or what else it is
    :param reason: 'permission denied'
    :param hides: what therefore is not known
    """

    path: str
    reason: str
    hides: str


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """All that a check has to say.

    :param host: the machine's name
    :param plan: the name in the plan, which may be that of a kind of hosts
    :param nova_conf_files: those that nova-compute's options were read from
    :param looked_at: how many of each thing were looked at, such as
        {'processes': 212, 'threads': 655, 'interrupts': 96, 'guests': 9}
    :param watched_seconds: 0 unless threads were watched
    :param foreign_seconds: how long threads ran on each dedicated or poll CPU
        that is not for them, by CPU; empty unless threads were watched
    :param free_pages: free huge pages by node and size in KiB
    :param started: seconds since the epoch
    """

    host: str
    plan: str
    findings: tuple[Finding, ...]
    unread: tuple[Unread, ...] = ()
    nova_conf_files: tuple[str, ...] = ()
    looked_at: Mapping[str, int] = dataclasses.field(default_factory=dict)
    watched_seconds: float = 0.0
    foreign_seconds: Mapping[int, float] = dataclasses.field(
        default_factory=dict)
    free_pages: Mapping[tuple[int, int], int] = dataclasses.field(
        default_factory=dict)
    started: float = 0.0
    duration_seconds: float = 0.0
