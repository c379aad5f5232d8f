# SPDX-License-Identifier: Apache-2.0
"""What the checks look at: a flavor under an image's properties."""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import re

from nova_pinning.admission import devices
from nova_pinning.admission import flavor_reader
from nova_pinning.admission import guest_request
from nova_pinning.admission import pci_alias
from nova_pinning.checks import check_rule
from nova_pinning import errors
from nova_pinning.flavors.checks import target
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import host_separation
from nova_pinning import model
from nova_pinning.model import flag
from nova_pinning.model import hostclass
from nova_pinning.model import nova_release
from nova_pinning.placement import inventory

#: How a place in the image's properties is called in findings.
IMAGE_SOURCE = '--image-property'

_PCPU_KEY = re.compile(r'resources([1-9][0-9]*)?:PCPU')
_THREADS_KEY = re.compile(rf'trait([1-9][0-9]*)?:{inventory.THREADS}')
_LONGEST = 80
_LONGEST_TEXT = 600


def is_true(text: str | None) -> bool:
    """Whether nova takes a flag for set."""
    return flag.parse(text or '') is True


def whole_number(text: str | None) -> int | None:
    """The number that a text is, None if it is none, or a huge one."""
    text = (text or '').strip()
    return int(text) if re.fullmatch(r'[+-]?[0-9]{1,18}', text) else None


def shown(key: str, value: str) -> str:
    """A key and its value for a message, on one line and not too long."""
    return f'{shown_name(key)}={_cut(value)}'


def shown_name(key: str) -> str:
    """A key for a message, on one line and not too long.

    In quotes if it has blanks that nobody would see otherwise.
    """
    return repr(_cut(key)) if key != key.strip() else _cut(key)


def shown_text(text: str) -> str:
    """Somebody else's sentence, on one line and without a full stop."""
    return ' '.join(text.split()).rstrip('.')[:_LONGEST_TEXT]


def _cut(text: str) -> str:
    text = re.sub(r'\s+', ' ', text)
    return text if len(text) <= _LONGEST else f'{text[:_LONGEST]}...'


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedFlavor:
    """A flavor under an image's properties, and what nova makes of both.

    :param image: the image's properties
    :param guest: the NUMA topology that nova makes of it; None if it floats
        or if nova refuses it
    :param is_accepted: whether nova accepts flavor and image
    :param hosts: to check against
    :param releases: of nova, any of which the cloud may run; empty if that
        is not known
    :param has_image: whether the image is known, with or without properties;
        if not, guests may boot from any
    :param separation: what keeps the classes of guests apart
    :param companions: what is sold besides: other guests that may fill up
        the hosts
    :param has_scs: whether it is held to Sovereign Cloud Stack's standards
    """

    flavor: flavor_model.Flavor
    image: Mapping[str, str] = dataclasses.field(default_factory=dict)
    guest: model.Guest | None = None
    is_accepted: bool = True
    hosts: tuple[target.TargetHosts, ...] = ()
    releases: tuple[nova_release.NovaRelease, ...] = ()
    has_image: bool = False
    separation: host_separation.Separation = host_separation.DEFAULT
    companions: tuple[guest_request.GuestRequest, ...] = ()
    has_scs: bool = False

    @property
    def specs(self) -> Mapping[str, str]:
        return self.flavor.extra_specs

    @property
    def cells(self) -> tuple[model.GuestCell, ...]:
        """The guest's NUMA cells; empty if it has none, or is refused."""
        return self.guest.cells if self.guest else ()

    def value(self, root: str) -> str | None:
        """What the flavor says under hw:root, else the image under hw_root."""
        return self.specs.get(f'hw:{root}') or self.image.get(f'hw_{root}')

    def shown(self, root: str) -> str:
        """The same for a message, with its key."""
        for key, value in ((f'hw:{root}', self.specs.get(f'hw:{root}')),
                           (f'hw_{root}', self.image.get(f'hw_{root}'))):
            if value:
                return shown(key, value)
        return f'hw:{root}'

    @property
    def cpu_policy(self) -> model.CpuPolicy:
        """As nova.virt.hardware.numa_get_constraints takes it."""
        if self.guest:
            return self.guest.cpu_policy
        if self._names_pcpus:
            return model.CpuPolicy.DEDICATED
        try:
            return model.CpuPolicy(self.value('cpu_policy') or 'shared')
        except ValueError:
            return model.CpuPolicy.SHARED

    @property
    def is_baremetal(self) -> bool:
        """Whether it is Ironic's: a node by its class, and nothing else.

        See "Create flavors for use with the Bare Metal service" in Ironic's
        documents.
        """
        asked = {key.partition(':')[2]: whole_number(value)
                 for key, value in self.specs.items()
                 if key.startswith('resources:')}
        return (self.guest is None and pci_alias.KEY not in self.specs
                and asked.get('VCPU') == 0 == asked.get('MEMORY_MB')
                and any(name.startswith('CUSTOM_') and amount
                        for name, amount in asked.items()))

    @property
    def request(self) -> guest_request.GuestRequest:
        """What one guest asks of a host; its devices by their aliases."""
        flavor = self.flavor
        image = guest_request.pairs(self.image) if self.has_image else None
        reader = flavor_reader.FlavorReader(
            flavor.vcpus, flavor.memory_mib, flavor.local_disk_gib,
            self.specs, image, self.guest)
        return guest_request.GuestRequest(
            name=flavor.name, vcpus=flavor.vcpus,
            memory_mib=flavor.memory_mib, disk_gib=flavor.local_disk_gib,
            guest_class=hostclass.HostClass(self.host_class),
            topology=self.guest, devices=tuple(
                devices.PciRequest(
                    alias, (), count, self.pci_policy or 'legacy')
                for alias, count in self.devices),
            queries=reader.queries(),
            extra_specs=guest_request.pairs(self.specs), image=image,
            # Which devices an alias stands for, the hosts say.
            doubts=tuple(doubt for doubt in reader.doubts()
                         if doubt.about != pci_alias.KEY))

    @property
    def _names_pcpus(self) -> bool:
        return any(_PCPU_KEY.match(key) and whole_number(value)
                   for key, value in self.specs.items())

    def asked(self, name: str) -> int:
        """How much of a resource nova asks for, in all groups."""
        return self.request.queries[0].resources.get(name, 0)

    @property
    def is_pinned(self) -> bool:
        return self.cpu_policy is not model.CpuPolicy.SHARED

    @property
    def policy_keys(self) -> tuple[str, ...]:
        """The keys that make the guest a pinned one."""
        return ('hw:cpu_policy', 'hw_cpu_policy', *(
            key for key in self.specs if _PCPU_KEY.match(key)))

    @property
    def thread_policy(self) -> model.ThreadPolicy:
        if self.guest:
            return self.guest.thread_policy
        for key, value in self.specs.items():
            if _THREADS_KEY.match(key):
                return {'required': model.ThreadPolicy.REQUIRE,
                        'forbidden': model.ThreadPolicy.ISOLATE}.get(
                            value, model.ThreadPolicy.PREFER)
        policy = self.specs.get('hw:cpu_thread_policy')
        if policy in (None, '', 'prefer'):
            policy = policy or self.image.get('hw_cpu_thread_policy')
        try:
            return model.ThreadPolicy(policy or 'prefer')
        except ValueError:
            return model.ThreadPolicy.PREFER

    @property
    def thread_keys(self) -> tuple[str, ...]:
        """The keys that a thread policy may come from."""
        return ('hw:cpu_thread_policy', 'hw_cpu_thread_policy', *(
            key for key in self.specs if _THREADS_KEY.match(key)))

    @property
    def emulator_policy(self) -> str:
        """hw:emulator_threads_policy, '' if there is none."""
        return self.specs.get('hw:emulator_threads_policy', '')

    @property
    def is_realtime(self) -> bool:
        """As nova.virt.hardware.is_realtime_enabled."""
        return is_true(self.specs.get('hw:cpu_realtime'))

    @property
    def devices(self) -> tuple[tuple[str, int], ...]:
        """(alias, count) of the PCI devices asked for."""
        return pci_alias.counts(self.specs)

    @property
    def pci_policy(self) -> str:
        """The NUMA affinity of PCI devices, '' if neither asks for one."""
        return self.value('pci_numa_affinity_policy') or ''

    def traits(self, trait_value: str) -> set[str]:
        """The traits that the flavor marks as required or as forbidden."""
        return {key.partition(':')[2] for key, value in self.specs.items()
                if value == trait_value and key.partition(':')[0].startswith(
                    'trait')}

    @property
    def host_class(self) -> str:
        """The class of hosts that it belongs on: dedicated or shared."""
        specs = dict(self.specs)
        try:
            return hostclass.class_of_guest(specs, self.cpu_policy)
        except hostclass.UnknownClass:
            del specs[flavor_model.CLASS_KEY]
            return hostclass.class_of_guest(specs, self.cpu_policy)

    @property
    def candidates(self) -> tuple[target.TargetHosts, ...]:
        """The hosts whose traits are as the flavor wants them.

        All of them if that leaves none. What follows from a thread policy
        has rules of its own.
        """
        request = self.request
        spared = {inventory.THREADS} - {
            key.partition(':')[2] for key in self.specs
            if _THREADS_KEY.match(key)}
        return tuple(host for host in self.hosts
                     if not host.wrong_traits(request) - spared) or self.hosts

    def where(self, keys: Iterable[str]) -> errors.Location:
        """Where the first of these keys stands, else the flavor."""
        for key in keys:
            if key in self.specs or key in self.flavor.origins:
                return self.flavor.origin(key)
            if key in self.image:
                return errors.Location(IMAGE_SOURCE, key=key)
        return self.flavor.where

    @property
    def most_threads(self) -> int:
        """Of any core of the hosts that it may go to; 0 without hosts."""
        return max((size for host in self.candidates
                    for cell in host.host.cells for size in cell.core_sizes),
                   default=0)

    def number(self, key: str) -> int:
        """A whole number that an extra spec has, 0 if it has none."""
        return whole_number(self.specs.get(key)) or 0

    def about(
        self, name: str, text: str,
        severity: check_rule.Severity | None = None,
    ) -> check_rule.Violation:
        """What a rule sees in one thing that is said.

        :param name: of an extra spec with its namespace; or without it, where
            images may say it as well
        :param text: what is to be told of it
        """
        if ':' in name:
            return self.violation(f'{shown(name, self.specs[name])} {text}',
                                  (name,), severity=severity)
        return self.violation(f'{self.shown(name)} {text}', (
            f'hw:{name}', f'hw_{name}'), severity=severity)

    def violation(
        self, message: str, keys: tuple[str, ...] = (), advice: str = '',
        severity: check_rule.Severity | None = None,
    ) -> check_rule.Violation:
        """What a rule sees in it.

        :param keys: extra specs, image properties, or other properties of
            the flavor ('vcpus', 'ram') that it is about; it is told to stand
            at the first of them that there is
        """
        name = self.flavor.name
        return check_rule.Violation(
            subject=f'flavor {name}', kind='flavor', name=name,
            id=self.flavor.id, location=self.where(keys), message=message,
            advice=advice, severity=severity, details={'flavor': name},
            # One of a cloud has no line, one of another tool's file no word.
            is_catalogue=bool(self.flavor.where.line)
            and flavor_model.CATALOGUE_KEY in self.specs)
