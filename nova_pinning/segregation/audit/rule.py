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

"""What a rule of the audit is, and what it looks at."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import functools

from nova_pinning.flavors import model as flavor_model
from nova_pinning.host import model as host_model
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import provider_config
from nova_pinning.placement import traits
from nova_pinning.segregation import finding
from nova_pinning.segregation import model

#: VCPUs that dedicated hosts may have where flavors share emulator threads,
#: unless said.
EMULATOR_CPUS = 8


def class_of(host: model.Host) -> hostclass.HostClass | None:
    """The class that a host is taken to be of.

    Its trait tells, since most guests are sent by that; else whatever does,
    if all of it agrees.
    """
    named = traits.classes(host.traits or ())
    return next(iter(named)) if len(named) == 1 else model.host_class(host)


# No slots: what is worked out of it is kept.
@dataclasses.dataclass(frozen=True)
class View:
    """A cloud but for its servers, as seen in one look.

    :param hosts: all of them
    :param inventories: by UUID of the provider, of those that were looked at
    :param members: UUIDs of the providers that Placement has in an
        aggregate, by the aggregate's UUID, of those that isolate
    :param descriptions: host files by the name of the compute service
    :param configs: what provider.yaml files say, by the name of the compute
        service
    :param emulator_cpus: VCPUs that a dedicated host may have for emulator
        threads where no host file tells; None if nobody said
    :param known_traits: all CUSTOM_ traits that Placement knows, whether any
        provider has them or not
    """

    hosts: tuple[model.Host, ...] = ()
    aggregates: tuple[model.Aggregate, ...] = ()
    flavors: tuple[flavor_model.Flavor, ...] = ()
    inventories: Mapping[str, Mapping[str, client.Inventory]] = (
        dataclasses.field(default_factory=dict))
    members: Mapping[str, frozenset[str]] = dataclasses.field(
        default_factory=dict)
    descriptions: Mapping[str, host_model.HostDescription] = (
        dataclasses.field(default_factory=dict))
    configs: Mapping[str, tuple[provider_config.ProviderEntry, ...]] = (
        dataclasses.field(default_factory=dict))
    emulator_cpus: int | None = None
    known_traits: frozenset[str] = frozenset()

    @functools.cached_property
    def classes(self) -> Mapping[str, hostclass.HostClass | None]:
        """The class of each host, by the UUID of its provider."""
        return {host.provider: class_of(host) for host in self.hosts}

    def hosts_of(
        self, host_class: hostclass.HostClass,
    ) -> Iterator[model.Host]:
        """The hosts of a class."""
        return (host for host in self.hosts
                if self.classes[host.provider] is host_class)

    def likely_class(self, host: model.Host) -> hostclass.HostClass:
        """What a host was probably meant to be.

        Its class if that is clear; what it has CPUs for, if its marks do not
        agree and it has them for one class only; what its aggregates say if
        they agree; else what it has CPUs for.
        """
        has = self.inventories.get(host.provider, {})
        has_pcpu = 'PCPU' in has
        if not model.agrees(host) and has_pcpu != ('VCPU' in has):
            return (hostclass.HostClass.DEDICATED if has_pcpu
                    else hostclass.HostClass.SHARED)
        clear = self.classes[host.provider]
        if clear:
            return clear
        named = {mark.host_class for mark in model.marks(host)
                 if mark.source is not model.Source.TRAIT} - {None}
        if len(named) == 1:
            return named.pop() or hostclass.HostClass.SHARED
        return (hostclass.HostClass.DEDICATED if has_pcpu
                else hostclass.HostClass.SHARED)


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """What a rule found.

    :param subject: what it is about
    :param host: the compute service where it shows, if that is another thing
    :param mends: commands
    :param advice: if not the rule's own
    :param severity: if not the rule's own
    """

    subject: model.Host | model.Server | model.Aggregate | flavor_model.Flavor
    message: str
    mends: tuple[str, ...] = ()
    host: str = ''
    advice: str = ''
    severity: finding.Severity | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One thing to look for.

    :param code: never given to another rule
    :param title: what is found, in a few words
    :param why: what it breaks
    :param advice: what mends it
    :param find: None for rules about servers, which come one by one
    """

    code: str
    severity: finding.Severity
    title: str
    why: str
    advice: str
    find: Callable[[View], Iterator[Problem]] | None = None

    def finding(self, problem: Problem) -> finding.Finding:
        """A problem as it is told."""
        kind, identity, host = _identity(problem.subject)
        return finding.Finding(
            code=self.code, severity=problem.severity or self.severity,
            kind=kind, id=identity, name=problem.subject.name,
            host=problem.host or host, message=problem.message, why=self.why,
            advice=problem.advice or self.advice, mends=problem.mends)


def _identity(
    subject: model.Host | model.Server | model.Aggregate
    | flavor_model.Flavor,
) -> tuple[finding.Kind, str, str]:
    match subject:
        case model.Server():
            return finding.Kind.SERVER, subject.id, subject.host
        case model.Host():
            return finding.Kind.HOST, subject.provider, subject.name
        case model.Aggregate():
            return finding.Kind.AGGREGATE, str(subject.id), ''
        case _:
            return finding.Kind.FLAVOR, subject.id, ''


def rule(
    code: str, severity: finding.Severity, title: str, *, why: str,
    advice: str,
) -> Callable[[Callable[[View], Iterator[Problem]]], Rule]:
    """Make a rule of the function that finds what it is about."""
    return lambda find: Rule(code, severity, title, why, advice, find)
