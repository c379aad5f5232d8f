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

"""What a rule of the check is, and what it looks at."""

from collections.abc import Callable
from collections.abc import Iterator
import dataclasses

from nova_pinning import cpuset
from nova_pinning.host.check import facts as facts_module
from nova_pinning.host.check import finding
from nova_pinning.host import model
from nova_pinning.host.plan import model as plan_model


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """A host as it was planned, and as it is.

    :param planned: has a plan
    :ivar online_cpus: those that the host really has
    """

    planned: model.HostDescription
    facts: facts_module.Facts
    # Asked for thousands of times, and gathered from all cores.
    online_cpus: cpuset.CpuSet = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, 'online_cpus', self.facts.host.cpus)

    @property
    def plan(self) -> plan_model.Plan:
        assert self.planned.plan is not None
        return self.planned.plan

    @property
    def is_other_machine(self) -> bool:
        """Whether the plan is for quite another machine.

        Then more than half of the CPUs of one of the two are not those of
        the other, be they online or not.
        """
        planned = self.planned.cpus | self.planned.offline_cpus
        there = self.online_cpus | self.facts.host.offline_cpus
        return 2 * len(planned & there) < max(len(planned), len(there))

    @property
    def dedicated_cpus(self) -> cpuset.CpuSet:
        """CPUs for pinned vCPUs, as planned."""
        return self.planned.nova.dedicated_cpus or cpuset.CpuSet()

    @property
    def shared_cpus(self) -> cpuset.CpuSet:
        """CPUs for floating vCPUs and emulator threads, as planned."""
        return self.planned.nova.shared_cpus or cpuset.CpuSet()

    @property
    def taken_cpus(self) -> cpuset.CpuSet:
        """Those that nobody is to run on who was not put there."""
        return self.dedicated_cpus | self.plan.poll_cpus

    @property
    def guests(self) -> tuple[facts_module.Guest, ...]:
        """Those that findings are wanted about."""
        return tuple(
            guest for guest in self.facts.guests if guest.is_asked_for)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a rule found; see finding.Finding.

    :param severity: if not the rule's own
    :param advice: if not the rule's own
    """

    subject: str
    message: str
    evidence: tuple[finding.Evidence, ...] = ()
    mends: tuple[str, ...] = ()
    advice: str = ''
    severity: finding.Severity | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One thing to look for.

    :param code: never given to another rule
    :param title: what is found, in a few words
    :param why: what it breaks
    :param advice: what mends it
    :param find: None for what is only seen by watching
    """

    code: str
    severity: finding.Severity
    title: str
    why: str
    advice: str
    find: Callable[[View], Iterator[Problem]] | None = None

    def finding(self, problem: Problem) -> finding.Finding:
        """A problem as it is told."""
        return finding.Finding(
            code=self.code, severity=problem.severity or self.severity,
            subject=problem.subject, message=problem.message, why=self.why,
            advice=problem.advice or self.advice, evidence=problem.evidence,
            mends=problem.mends)


def rule(
    code: str, severity: finding.Severity, title: str, *, why: str,
    advice: str,
) -> Callable[[Callable[[View], Iterator[Problem]]], Rule]:
    """Make a rule of the function that finds what it is about."""
    return lambda find: Rule(code, severity, title, why, advice, find)
