# SPDX-License-Identifier: Apache-2.0
"""What the rules of the audit look at."""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import functools

from nova_pinning.checks import check_rule
from nova_pinning.flavors import flavor_model
from nova_pinning.host import host_model
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import placement_traits
from nova_pinning.segregation import segregation_model
from nova_pinning.upgrade import known_hits

#: Requests under way at once, unless said.
JOBS = 8
#: VCPUs that dedicated hosts may have where flavors share emulator threads,
#: unless said.
EMULATOR_CPUS = 8


def class_of(host: segregation_model.MarkedHost) -> hostclass.HostClass | None:
    """The class that a host is taken to be of.

    Its trait tells, since most guests are sent by that; else whatever does,
    if all of it agrees.
    """
    named = placement_traits.classes_of(host.traits or ())
    return next(
        iter(named)) if len(named) == 1 else segregation_model.host_class(host)


@dataclasses.dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """What nova-scheduler's own nova.conf says, nothing where not known.

    :param packs_cells: [compute] packing_host_numa_cells_allocation_strategy
    :param enabled_filters: [filter_scheduler] enabled_filters
    :param observes: whether [pinning] mode keeps ours from acting
    :param multipliers: of the weighers that run, by class name (see
        :mod:`nova_pinning.model.weighers`); {} where FragmentationWeigher has
        no say
    """

    packs_cells: bool | None = None
    enabled_filters: tuple[str, ...] = ()
    observes: bool = False
    multipliers: Mapping[str, float] = dataclasses.field(
        default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class AuditSettings:
    """What an audit goes by besides the cloud.

    :param hosts: names of the compute services that are audited, with their
        servers; empty for the whole cloud, with its flavors and aggregates
    :param descriptions: host files by the name of the compute service
    :param emulator_cpus: VCPUs that a dedicated host may have for emulator
        threads where no host file tells; None if nobody said
    :param jobs: requests that may be under way at once
    :param scheduler: what nova-scheduler's own nova.conf says
    :param known: the defects of the hosts' nova, which no API tells
    """

    hosts: frozenset[str] = frozenset()
    descriptions: Mapping[str, host_model.HostDescription] = (
        dataclasses.field(default_factory=dict))
    emulator_cpus: int | None = None
    jobs: int = JOBS
    scheduler: SchedulerOptions = SchedulerOptions()
    known: known_hits.KnownDefects = known_hits.KnownDefects()


# No slots: what is worked out of it is kept.
@dataclasses.dataclass(frozen=True)
class AuditedCloud:
    """A cloud but for its servers, as seen in one look.

    :param hosts: all of them
    :param inventories: by UUID of the provider, of those that were looked at
    :param members: UUIDs of the providers that Placement has in an
        aggregate, by the aggregate's UUID, of those that isolate
    :param known_traits: all CUSTOM_ traits that Placement knows, whether any
        provider has them or not
    """

    hosts: tuple[segregation_model.MarkedHost, ...] = ()
    aggregates: tuple[segregation_model.HostAggregate, ...] = ()
    flavors: tuple[flavor_model.Flavor, ...] = ()
    inventories: Mapping[str, Mapping[str, client.ProviderInventory]] = (
        dataclasses.field(default_factory=dict))
    members: Mapping[str, frozenset[str]] = dataclasses.field(
        default_factory=dict)
    known_traits: frozenset[str] = frozenset()
    settings: AuditSettings = AuditSettings()

    @functools.cached_property
    def classes(self) -> Mapping[str, hostclass.HostClass | None]:
        """The class of each host, by the UUID of its provider."""
        return {host.provider: class_of(host) for host in self.hosts}

    def hosts_of(
        self, host_class: hostclass.HostClass,
    ) -> Iterator[segregation_model.MarkedHost]:
        """The hosts of a class."""
        return (host for host in self.hosts
                if self.classes[host.provider] is host_class)

    def likely_class(
            self, host: segregation_model.MarkedHost) -> hostclass.HostClass:
        """What a host was probably meant to be.

        Its class if that is clear; what it has CPUs for, if its marks do not
        agree and it has them for one class only; what its aggregates say if
        they agree; else what it has CPUs for.
        """
        has = self.inventories.get(host.provider, {})
        has_pcpu = 'PCPU' in has
        if not segregation_model.agrees(host) and has_pcpu != ('VCPU' in has):
            return (hostclass.HostClass.DEDICATED if has_pcpu
                    else hostclass.HostClass.SHARED)
        clear = self.classes[host.provider]
        if clear:
            return clear
        named = {
            mark.host_class
            for mark in segregation_model.marks(host)
            if mark.source is not segregation_model.MarkSource.TRAIT} - {None}
        if len(named) == 1:
            return named.pop() or hostclass.HostClass.SHARED
        return (hostclass.HostClass.DEDICATED if has_pcpu
                else hostclass.HostClass.SHARED)


def violation(
    subject: (segregation_model.MarkedHost | segregation_model.HostedServer
              | segregation_model.HostAggregate
              | flavor_model.Flavor),
    message: str,
    remediation: tuple[str, ...] = (),
    host: str = '',
    advice: str = '',
    severity: check_rule.Severity | None = None,
) -> check_rule.Violation:
    """What a rule sees in something.

    :param host: the compute service where it shows, if that is another thing
    """
    name = text = subject.name
    match subject:
        case segregation_model.HostedServer():
            kind, identity, host = 'server', subject.id, host or subject.host
            text = f'{name} {identity}'
        case segregation_model.MarkedHost():
            kind, identity, host = 'host', subject.provider, host or name
        case segregation_model.HostAggregate():
            kind, identity = 'aggregate', str(subject.id)
        case _:
            kind, identity = 'flavor', subject.id
    return check_rule.Violation(
        subject=f'{kind} {text}', kind=kind, id=identity, name=name,
        host=host, message=message, remediation=remediation, advice=advice,
        severity=severity)
