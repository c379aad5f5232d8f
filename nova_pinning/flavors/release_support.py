# SPDX-License-Identifier: Apache-2.0
"""Which release of nova knows what of a flavor, an image, and traits.

Here is only what not all of model.nova_release.RELEASES have, from 2024.1 on.
It was read off nova's own validators (nova.api.validation.extra_specs), its
objects (nova.objects.image_meta, nova.objects.fields), its request filters
(nova.scheduler.request_filter) and the traits that its hosts report (nova.virt
and nova.compute); a test holds it to those of the nova that is installed.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import re

from nova_pinning.admission import flavor_reader
from nova_pinning.admission import guest_request
from nova_pinning.model import nova_release

_2024_1, _2024_2, _2025_1, _2025_2, _2026_1, _2026_2 = nova_release.RELEASES

#: The trait of hosts that nova, and no other service, looks after.
OWNER_TRAIT = 'OWNER_NOVA'


@dataclasses.dataclass(frozen=True, slots=True)
class Support:
    """An extra spec or an image property that not all releases know.

    :param since: the first release that knows it
    :param values: those that it may have, with the first release that knows
        each; empty for numbers and flags
    :param numbers: the least and the most that it may be, if it is a number;
        None for no limit
    :param without: what a guest becomes where the key is not known but stands
        there all the same
    :param until: the last release that knows it, None for the newest
    :param successor: the key that is read in its place since then
    """

    key: str
    since: nova_release.NovaRelease
    without: str
    values: Mapping[str, nova_release.NovaRelease] = dataclasses.field(
        default_factory=dict)
    numbers: tuple[int, int | None] | None = None
    until: nova_release.NovaRelease | None = None
    successor: str = ''

    def has_key(self, release: nova_release.NovaRelease) -> bool:
        """Whether a release knows the key, with whatever value."""
        return self.since <= release and (
            self.until is None or release <= self.until)

    def takes(self, value: str, release: nova_release.NovaRelease) -> bool:
        """Whether a release knows the key, and takes this value."""
        since = self.first_with(value)
        return (since is not None and since <= release
                and self.has_key(release))

    def first_with(self, value: str) -> nova_release.NovaRelease | None:
        """The first release that takes this value, None if none does."""
        if self.values:
            return self.values.get(value)
        if self.numbers:
            least, most = self.numbers
            if not re.fullmatch('[0-9]{1,18}', value) or int(value) < least:
                return None
            if most is not None and int(value) > most:
                return None
        return self.since

    @property
    def accepted(self) -> str:
        """The values that the newest release takes, for people."""
        if self.numbers:
            least, most = self.numbers
            return f'a number from {least} ' + (
                'on' if most is None else f'to {most}')
        return ', '.join(self.values)


@dataclasses.dataclass(frozen=True, slots=True)
class CloudRelease:
    """The release of nova that flavors are for, and the nova at hand.

    :param releases: any of which the cloud may run, from the oldest on; empty
        if that is not known
    :param installed: the version of the nova that does the work: '34.0.0'
    :param remarks: how the releases were found out and what that leaves open,
        sentences without a full stop
    """

    releases: tuple[nova_release.NovaRelease, ...] = ()
    installed: str = ''
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, release: nova_release.NovaRelease | None,
           installed: str) -> 'CloudRelease':
        """The one that somebody named, if anybody did."""
        return cls((release,) if release else (), installed)

    @property
    def installed_release(self) -> nova_release.NovaRelease | None:
        """That of the nova at hand, None if it is not known here."""
        return nova_release.of_nova_version(self.installed)

    @property
    def is_installed(self) -> bool:
        """Whether the nova at hand is of the release, for sure."""
        return self.releases == (self.installed_release,)

    @property
    def title(self) -> str:
        """'2025.1 or 2025.2', '' if it is not known."""
        return listed(self.releases) if self.releases else ''

    @property
    def installed_title(self) -> str:
        """What to call the nova at hand: 'nova 34.0.0 (2026.2)'."""
        release = self.installed_release
        return f'nova {self.installed}' + (f' ({release})' if release else '')

    def readable(
        self, extra_specs: Mapping[str, str], image: Mapping[str, str],
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Extra specs and image properties that the nova at hand knows.

        What it does not is no mistake as long as the cloud's release does, so
        it is left out where that is to be judged by the tables here. All of
        them if the cloud's release is not known.
        """
        release = self.installed_release
        if not self.releases or release is None:
            return dict(extra_specs), dict(image)
        return (
            {key: value for key, value in extra_specs.items()
             if _is_known_spec(key, value, release)},
            {key: value for key, value in image.items()
             if is_known_property(key, value, release)})


def listed(releases: Iterable[nova_release.NovaRelease],
           word: str = 'or') -> str:
    """'2025.1 or 2025.2'."""
    *first, last = map(str, releases)
    return f'{", ".join(first)} {word} {last}' if first else last


def of_compute_api(cloud: str, microversion: int | None,
                   installed: str) -> CloudRelease:
    """What the compute API of a cloud tells of its release.

    The API shows no more than its highest version, which is that of nova-api:
    several releases have the same one, and hosts may run older releases.

    :param cloud: its name
    :param microversion: N of 2.N, None if the API does not say
    :param installed: the version of the nova at hand
    """
    if microversion is None:
        return CloudRelease((), installed, (
            f'cloud {cloud} does not say which versions its compute API has, '
            'so it is not told what its release of nova does not have; name '
            'it with --release',))
    ends = f'the compute API of cloud {cloud} ends at version 2.{microversion}'
    releases = nova_release.of_microversion(microversion)
    if microversion > nova_release.NEWEST.microversion:
        return CloudRelease((), installed, (
            f'{ends}, newer than that of {nova_release.NEWEST}, the newest '
            'release known here, so it is not told what its release of nova '
            'does not have',))
    if not releases:
        oldest = nova_release.RELEASES[0]
        return CloudRelease((oldest,), installed, (
            f'{ends}, older than that of {oldest}, the oldest release known '
            'here, for which it is checked',))
    if len(releases) > 1:
        return CloudRelease(releases, installed, (
            f'{ends}, which does not tell {listed(releases, "from")}; name '
            'the release with --release',))
    return CloudRelease(releases, installed, (
        f'{ends}, so nova-api is of {releases[0]}; hosts may still run an '
        'older release',))


_COUNT = (1, None)
_SOUND = dict.fromkeys(
    ('sb16', 'es1370', 'pcspk', 'ac97', 'ich6', 'ich9', 'usb', 'virtio'),
    _2025_2)
_ENCRYPTION = {
    'amd-sev': _2025_2, 'amd-sev-es': _2025_2,
    'amd-sev-snp': _2026_2, 'intel-tdx': _2026_2}


def _devices(prefix: str) -> tuple[Support, ...]:
    """What flavors and images can say alike."""
    return (
        Support(f'{prefix}mem_encryption_model', _2025_2,
                'an encrypted guest gets AMD SEV, whatever is asked for',
                _ENCRYPTION),
        Support(f'{prefix}redirected_usb_ports', _2025_2,
                'the guest has no redirected USB ports', numbers=(0, 15)),
        Support(f'{prefix}sound_model', _2025_2,
                'the guest has no sound device', _SOUND),
        Support(f'{prefix}usb_model', _2025_2, 'the guest has no USB '
                'controller but what nova gives to others', dict.fromkeys(
                    ('none', 'nec-xhci', 'qemu-xhci'), _2025_2)))


#: By key. An unknown one is refused by nova-api's validators, a known one
#: with an unknown value too.
EXTRA_SPECS = {support.key: support for support in (
    *(Support(f'hw:cpu_max_{name}', _2024_2,
              'nova limits the topology all the same', numbers=_COUNT)
      for name in ('sockets', 'cores', 'threads')),
    # Misspelt, and read by nothing.
    *(Support(f'hw:max_cpu_{name}', _2024_1, 'nova reads it nowhere',
              numbers=_COUNT, until=_2024_1,
              successor=f'hw:cpu_max_{name}')
      for name in ('sockets', 'cores', 'threads')),
    *_devices('hw:'),
    Support('hw:tpm_secret_security', _2026_1,
            'the secret of its TPM is kept as with user',
            dict.fromkeys(('user', 'host', 'deployment'), _2026_1)),
)}

#: What nova-compute reads but the validators of all releases lack, so that
#: nova-api refuses to store it from microversion 2.86 on.
UNVALIDATED = ('hw:maxphysaddr_mode', 'hw:maxphysaddr_bits')

#: By key. An unknown one is ignored, while a known one with an unknown value
#: has every server of the image refused.
IMAGE_PROPERTIES = {support.key: support for support in (
    Support('hw_firmware_stateless', _2024_2,
            'the firmware keeps its state'),
    *_devices('hw_'),
)}

#: Values that have come to an older image property.
PROPERTY_VALUES = {('hw_vif_model', 'igb'): _2025_1}

#: Traits that nova's hosts report, by name, with the first release in which
#: any of them does.
TRAITS = {
    'COMPUTE_SECURITY_STATELESS_FIRMWARE': _2024_2,
    'COMPUTE_SECURITY_TPM_CRB': _2024_2,
    'COMPUTE_SECURITY_TPM_TIS': _2024_2,
    'COMPUTE_MEM_BACKING_FILE': _2025_1,
    'COMPUTE_STORAGE_VIRTIO_FS': _2025_1,
    **{f'COMPUTE_SOUND_MODEL_{model.upper()}': _2025_2 for model in _SOUND},
    'HW_CPU_X86_AMD_SEV_ES': _2025_2,
    'HW_PCI_ONE_TIME_USE': _2025_2,
    'COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER': _2026_1,
    'COMPUTE_SECURITY_TPM_SECRET_SECURITY_HOST': _2026_1,
    'COMPUTE_SECURITY_TPM_SECRET_SECURITY_DEPLOYMENT': _2026_1,
    'HW_CPU_X86_AMXBF16': _2026_1,
    'HW_CPU_X86_AMXINT8': _2026_1,
    'HW_CPU_X86_AMXTILE': _2026_1,
    'HW_CPU_X86_AMD_SEV_SNP': _2026_2,
    'HW_CPU_X86_INTEL_TDX': _2026_2,
    'HW_PCI_LIVE_MIGRATABLE': _2026_2,
    OWNER_TRAIT: _2026_2,
}

#: Nova's request filters, by the names of the functions.
REQUEST_FILTERS = {
    'virtio_sound_filter': _2025_2,
    'tpm_secret_security_filter': _2026_1,
    'owner_nova_filter': _2026_2,
}

#: What stands in the libvirt XML of every guest with a NUMA topology, as of
#: which release.
XML = (
    (_2025_2, "the flavor's extra specs and the image's properties in "
              '<metadata>'),
    (_2026_1, 'an I/O thread, in <iothreads>, which <iothreadpin> keeps on '
              'the CPUs of the emulator threads'),
)

# Of AMD SEV no more than its resource was asked for before.
_ASKED = TRAITS | {'HW_CPU_X86_AMD_SEV': _2025_2}
_TRAIT = re.compile(r'trait[^:]*:(.+)')


def is_known_property(key: str, value: str,
                      release: nova_release.NovaRelease) -> bool:
    """Whether a release reads an image property and takes its value.

    What is not in the tables is known to all of them, or to none.
    """
    since = PROPERTY_VALUES.get((key, value))
    if since is not None:
        return since <= release
    support = IMAGE_PROPERTIES.get(key)
    return support is None or support.takes(value, release)


def _is_known_spec(key: str, value: str,
                   release: nova_release.NovaRelease) -> bool:
    # Nova's validators know the traits of the os-traits of their time.
    trait = _TRAIT.fullmatch(key)
    if trait and TRAITS.get(trait[1], release) > release:
        return False
    support = EXTRA_SPECS.get(key)
    return support is None or support.takes(value, release)


def required_traits(extra_specs: Mapping[str, str],
                    image: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(key, trait) of the traits that a flavor and an image ask for."""
    for key, value in (*extra_specs.items(), *image.items()):
        match = _TRAIT.fullmatch(key)
        if match and value == 'required':
            yield key, match[1]


def added_traits(
    extra_specs: Mapping[str, str], image: Mapping[str, str],
    release: nova_release.NovaRelease,
) -> frozenset[str]:
    """What the scheduler of a release asks Placement for by itself.

    Only the traits that not all releases ask for, and not those that flavor
    or image name: a release asks for what its hosts report.
    """
    asked = flavor_reader.FlavorReader(
        1, 1, 0, extra_specs, guest_request.pairs(image),
        None).queries()[0].required | {OWNER_TRAIT}
    return frozenset(trait for trait in asked
                     if trait in _ASKED and _ASKED[trait] <= release) - {
        trait for _key, trait in required_traits(extra_specs, image)}


def preview_differences(
    cloud: CloudRelease, extra_specs: Mapping[str, str],
    image: Mapping[str, str],
) -> Iterator[str]:
    """What a preview by the nova at hand is not, for a release of another.

    What the release does not know of flavor and image is for the rules to
    tell (checks.release_rules).

    :returns: sentences without a full stop; none if it is that release's own
    """
    if not cloud.releases or cloud.is_installed:
        return
    release, made_by = cloud.releases[-1], cloud.installed_release
    yield (f'this is what {cloud.installed_title} makes of it, which is '
           f'installed; the query, the fit and the XML of nova {release} may '
           'differ, in what is told here and in more')
    if made_by is None:
        return
    known_specs, known_properties = cloud.readable(extra_specs, image)
    left_out = [
        *(key for key, value in extra_specs.items()
          if key not in known_specs and _is_known_spec(key, value, release)),
        *(key for key, value in image.items() if key not in known_properties
          and is_known_property(key, value, release))]
    for key in left_out:
        yield (f'{key} is left out of it, since nova {made_by} does not know '
               'it')
    own = added_traits(extra_specs, image, made_by)
    others = added_traits(extra_specs, image, release)
    for trait in sorted(own - others):
        yield f'nova {release} does not ask Placement for trait {trait}'
    for trait in sorted(others - own):
        yield f'nova {release} also asks Placement for trait {trait}'
    for since, what in XML:
        if release < since <= made_by:
            yield f'the XML of nova {release} does not have {what}'
        if made_by < since <= release:
            yield f'the XML of nova {release} also has {what}'
