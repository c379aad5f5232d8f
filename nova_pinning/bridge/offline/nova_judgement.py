# SPDX-License-Identifier: Apache-2.0
"""Flavors and images, judged by nova's own checks.

They are the validators of nova-api and what nova.compute.api and the libvirt
driver ask of nova.virt.hardware and nova.pci.request.
"""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import functools
import json
import re
from typing import Any

from nova.api.validation.extra_specs import validators
from nova import exception
from nova import objects
from nova.pci import request as pci_request
from nova.virt import hardware

from nova_pinning.admission import pci_alias
from nova_pinning.bridge.offline import nova_capabilities
from nova_pinning.bridge.offline import nova_options
from nova_pinning.bridge import topology
from nova_pinning.checks import check_rule
from nova_pinning import errors
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors.checks import cpus
from nova_pinning.flavors.checks import filter_rules
from nova_pinning.flavors.checks import guest_topology
from nova_pinning.flavors.checks import nova_exceptions
from nova_pinning.flavors.checks import nova_rules
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import release_support
from nova_pinning import spelling

#: What an image may have that nova needs to know nothing of in advance.
_OTHER_PROPERTIES = ('vmware_adaptertype', 'kernel_id', 'ramdisk_id')
#: Where no image is given, it is one that suits any flavor: memory encryption
#: makes demands on images that a flavor cannot meet.
_ANY_IMAGE = {
    'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35',
    'hw_firmware_stateless': 'true', 'hw_video_model': 'none'}
_IMAGE_ID = '00000000-0000-0000-0000-000000000000'

#: Numbers of vCPUs beyond this would fill the memory before nova gives up.
_MAX_NUMBER = 65535
_CPU_SET_KEY = re.compile(
    r'hw[:_](?:numa_cpus\.\d+|cpu_dedicated_mask|cpu_realtime_mask)')


@dataclasses.dataclass(frozen=True, slots=True)
class NovaConstraint:
    """A function of nova.virt.hardware that takes a flavor and an image.

    :param rule: what it is that nova refuses, unless the exception tells
    :param roots: of the keys that it reads, see nova_exceptions.About
    """

    name: str
    rule: check_rule.Rule[Any]
    roots: tuple[str, ...]
    takes_image: bool = True


#: All of them are asked, so that more than the first mistake is told. The
#: last one makes the guest's NUMA topology. Not every release has them all.
CONSTRAINTS = tuple(constraint for constraint in (
    NovaConstraint('get_cpu_policy_constraint', nova_rules.CPU_POLICY,
                   ('cpu_policy',)),
    NovaConstraint('get_cpu_thread_policy_constraint', nova_rules.CPU_POLICY,
                   ('cpu_thread_policy',)),
    NovaConstraint('get_emulator_thread_policy_constraint',
                   nova_rules.CPU_POLICY, ('emulator_threads_policy',), False),
    NovaConstraint('get_dedicated_cpu_constraint', nova_rules.CPU_POLICY,
                   ('cpu_dedicated_mask',), False),
    NovaConstraint('get_realtime_cpu_constraint', nova_rules.CPU_POLICY,
                   ('cpu_realtime_mask', 'cpu_realtime')),
    NovaConstraint('get_mem_encryption_constraint', nova_rules.MEMORY,
                   ('mem_encryption', 'mem_encryption_model')),
    NovaConstraint('get_locked_memory_constraint', nova_rules.MEMORY,
                   ('locked_memory',)),
    NovaConstraint('get_cpu_topology_constraints', nova_rules.TOPOLOGY, tuple(
        f'{prefix}{name}' for prefix in ('cpu_', 'cpu_max_')
        for name in ('sockets', 'cores', 'threads'))),
    NovaConstraint('get_pci_numa_policy_constraint', nova_rules.PCI,
                   ('pci_numa_affinity_policy',)),
    *(NovaConstraint(name, nova_rules.DEVICE, tuple(roots))
      for name, *roots in (
          ('get_number_of_serial_ports', 'serial_port_count'),
          ('get_vif_multiqueue_constraint', 'vif_multiqueue_enabled'),
          ('get_packed_virtqueue_constraint', 'virtio_packed_ring'),
          ('get_pmu_constraint', 'pmu'),
          ('get_vtpm_constraint', 'tpm_model', 'tpm_version'),
          ('get_secure_boot_constraint',),
          ('get_maxphysaddr_mode', 'maxphysaddr_mode'),
          ('get_ephemeral_encryption_constraint', 'ephemeral_encryption'),
          ('get_ephemeral_encryption_format', 'ephemeral_encryption_format'),
          ('get_sound_model', 'sound_model'),
          ('get_usb_model', 'usb_model'),
          ('get_redirected_usb_ports', 'redirected_usb_ports'))),
    NovaConstraint('numa_get_constraints', nova_rules.NUMA,
                   ('numa_nodes', 'numa_mem', 'numa_cpus', 'mem_page_size')),
) if nova_capabilities.functions(hardware, (constraint.name,)))


Judge = Callable[[flavor_model.Flavor], nova_rules.Judgement]


@contextlib.contextmanager
def judging(
    flavors: Iterable[flavor_model.Flavor],
    image_properties: Mapping[str, str] | None = None,
    pci_aliases: Collection[str] | None = None,
) -> Iterator[Judge]:
    """A function that judges any of these flavors within the with statement.

    Meanwhile nova's PCI aliases are replaced and nova's logs are silent, both
    in the whole process: do this in one thread at a time.

    :param image_properties: as Glance has them; None for an image that suits
        any flavor
    :param pci_aliases: the PCI aliases that nova knows; None if it knows all
        that the flavors ask for
    :raises errors.InputErrors: if nova cannot use the image's properties
    """
    image = image_meta(_ANY_IMAGE if image_properties is None
                       else image_properties)
    if pci_aliases is None:
        pci_aliases = {name for flavor in flavors
                       for name in pci_alias.names(flavor.extra_specs)}
    with nova_options.applied({('pci', 'alias'): [
            json.dumps({'name': name, 'vendor_id': 'ffff',
                        'product_id': 'ffff'})
            for name in sorted(pci_aliases) if 0 < len(name) <= 256]}):
        yield functools.partial(_judge, image, image_properties or {})


def image_meta(properties: Mapping[str, str]) -> Any:
    """A nova.objects.ImageMeta of an image with these properties.

    :raises errors.InputErrors: for properties that nova does not know, or
        whose values it cannot use
    """
    objects.register_all()
    wrong = []
    for key, value in properties.items():
        where = errors.Location(checked.IMAGE_SOURCE, key=key)
        if not _is_property(key):
            wrong.append(errors.InputError(
                f'nova knows no image property {checked.shown_name(key)}',
                where, spelling.did_you_mean(key, _property_names(), 1)))
        elif _CPU_SET_KEY.fullmatch(key) and _has_huge_number(value):
            wrong.append(errors.InputError(
                f'{checked.shown(key, value)} names vCPUs that no guest has',
                where))
        else:
            try:
                objects.ImageMetaProps.from_dict({key: value})
            except Exception as error:
                wrong.append(errors.InputError(
                    f'{checked.shown(key, value)} cannot be used: '
                    f'{_tidy(error)}', where))
    if wrong:
        raise errors.InputErrors(tuple(wrong))
    return objects.ImageMeta.from_dict({
        'id': _IMAGE_ID, 'name': '(as given)',
        'properties': dict(properties)})


def _property_names() -> list[str]:
    fields = set(objects.ImageMetaProps.fields) - {
        'hw_numa_cpus', 'hw_numa_mem', 'traits_required'}
    return [*sorted(fields), *objects.ImageMetaProps._legacy_property_map,
            *_OTHER_PROPERTIES, 'hw_numa_cpus.0', 'hw_numa_mem.0']


def _is_property(key: str) -> bool:
    return bool(re.fullmatch(r'hw_numa_(cpus|mem)\.\d+|trait:.+', key)) or (
        key in _property_names())


def _judge(image: Any, properties: Mapping[str, str],
           flavor: flavor_model.Flavor) -> nova_rules.Judgement:
    refusals = list(_extra_spec_refusals(flavor))
    told = {key for refusal in refusals for key in refusal.keys}
    blocked = list(_unreadable(flavor))
    if blocked or flavor.vcpus > cpus.MAX_VCPUS:
        refusals += [refusal for refusal in blocked
                     if refusal.keys[0] not in told]
        return nova_rules.Judgement(tuple(refusals), None, False)
    nova_flavor = objects.Flavor(
        id=1, flavorid=flavor.id or flavor.name, name=flavor.name,
        vcpus=flavor.vcpus, memory_mb=flavor.memory_mib,
        extra_specs=dict(flavor.extra_specs))
    failures = _Failures(flavor, properties)
    numa = None
    for constraint in CONSTRAINTS:
        with failures.collected(constraint):
            numa = getattr(hardware, constraint.name)(
                nova_flavor, *([image] if constraint.takes_image else []))
    with failures.collected(NovaConstraint(
            'get_best_cpu_topology', nova_rules.TOPOLOGY, ())):
        _check_topology_limits(flavor, properties)
    with failures.collected(NovaConstraint(
            'get_pci_requests_from_flavor', nova_rules.PCI, ())):
        pci_request.get_pci_requests_from_flavor(nova_flavor)
    # What follows from a value that is wrong by itself goes without saying,
    # but for what to do about it.
    refusals = [dataclasses.replace(
        refusal, advice=refusal.advice or next((
            problem.advice for problem in failures.problems
            if set(refusal.keys) & set(problem.keys)), ''))
        for refusal in refusals]
    refusals += [refusal for refusal in failures.problems
                 if not told & set(refusal.keys)]
    is_accepted = not failures.problems
    guest = None
    if is_accepted and numa is not None:
        guest = topology.guest_from_nova(numa)
    return nova_rules.Judgement(tuple(refusals), guest, is_accepted)


def _extra_spec_refusals(
    flavor: flavor_model.Flavor,
) -> Iterator[nova_rules.NovaRefusal]:
    for key, value in flavor.extra_specs.items():
        message = _refused(key, value)
        if message:
            yield nova_rules.NovaRefusal(
                nova_rules.EXTRA_SPEC,
                f'nova refuses {checked.shown(key, value)}: {message}', (key,),
                _advice(key, value))
        elif _validator(key) is None:
            message, advice = _unread(key)
            if message:
                yield nova_rules.NovaRefusal(
                    filter_rules.UNREAD, message, (key,), advice)


def _unread(key: str) -> tuple[str, str]:
    """What is wrong with a name that nova takes but does not know.

    '' if it may well be somebody else's. The second is what to do about it.
    """
    name = checked.shown_name(key)
    advice = meant(key)
    if key != key.strip():
        return (f'{name} has a blank at its end, so that nobody reads it',
                f'write {key.strip()}')
    if _is_property(key):
        return (f'{name} is the name of an image property, which a flavor '
                'cannot have', advice or 'set it on images')
    if advice or spelling.nearest(key.partition(':')[0], _spaces(), 1, 0.75):
        return f'nobody reads {name}', advice
    return '', ''


def _advice(key: str, value: str) -> str:
    """What to do about an extra spec that nova-api refuses."""
    if key in release_support.UNVALIDATED:
        return ('nova-compute reads it all the same: set it with '
                '--os-compute-api-version 2.85, where nova-api does not look')
    if _validator(key) is None:
        return meant(key)
    if key == pci_alias.KEY:
        return nova_exceptions.EXCEPTIONS['PciInvalidAlias'].advice
    return ''


def _refused(key: str, value: str) -> str:
    """Why nova-api refuses an extra spec, '' if it does not.

    As nova's validators.validate(), which goes through hundreds of regular
    expressions for many keys, more than Python remembers compiled.
    """
    validator = _validator(key)
    if validator is None:
        if _is_novas(key):
            return ('its validators lack the name'
                    if key in release_support.UNVALIDATED
                    else 'there is no such extra spec')
        return ''
    try:
        validator.validate(key, value)
    except exception.ValidationError as error:
        return _tidy(error).removeprefix('Validation failed; ')
    except Exception as error:
        return f'its validator fails with {_tidy(error)}'
    return ''


@functools.lru_cache(maxsize=4096)
def _validator(key: str) -> Any:
    """The validator for an extra spec, None if there is none."""
    if key in validators.VALIDATORS:
        return validators.VALIDATORS[key]
    for pattern, validator in _patterns():
        if pattern.fullmatch(key):
            return validator
    return None


@functools.cache
def _patterns() -> list[tuple[re.Pattern[str], Any]]:
    return [(re.compile(validator.name_regex), validator)
            for validator in validators.VALIDATORS.values()]


def _is_novas(key: str) -> bool:
    """Whether it is in one of the namespaces that nova keeps for itself."""
    namespace, colon, _name = key.partition(':')
    return bool(colon) and any(re.fullmatch(pattern, namespace)
                               for pattern in validators.NAMESPACES)


def _spaces() -> list[str]:
    """Nova's namespaces, without the groups that some can have."""
    return [pattern.partition('(')[0] for pattern in validators.NAMESPACES]


@functools.lru_cache(maxsize=4096)
def meant(key: str) -> str:
    """Which name of nova's was meant by one that it does not know, as advice.

    '' if none can have been: a wrong hint is worse than none.
    """
    key = key[:200]
    if _validator(key.strip()) is not None:
        return f'write {key.strip()}, without blanks' * (key != key.strip())
    space, _colon, rest = key.partition(':')
    group = re.match(r'(?:resources|trait)([\w-]*):', key)
    number = re.search(r'\.(\d+)$', key)
    parts = {'group': group[1] if group else '',
             'num': number[1] if number else '0'}
    names = [re.sub(r'\{(\w+)\}', lambda part: parts.get(part[1], ''), name)
             for name in validators.VALIDATORS]
    found = [name for name in names if spelling.is_edit(key, name)] or [
        # Some leave out hw:, or write it as for an image.
        name for name in names if _letters(key) in (
            _letters(name), _letters(name.removeprefix('hw:')))]
    if not found and _is_novas(key):
        found = [name for name in names if name.startswith(f'{key}_')] or [
            name for name in spelling.nearest(key, names, 5, 0.7)
            if spelling.is_slip(key, name)
            and (not number or name.endswith(number[0]))][:1]
    found = found or [
        f'{near}:{rest}' for near in _spaces() if spelling.is_edit(space, near)
        and _validator(f'{near}:{rest}') is not None]
    return f'perhaps {" or ".join(found)}' if 0 < len(found) < 4 else ''


def _letters(name: str) -> str:
    return re.sub('[-_:.]', '', name).lower()


def _unreadable(
    flavor: flavor_model.Flavor,
) -> Iterator[nova_rules.NovaRefusal]:
    """CPU numbers so high that nova would need hours, or all memory."""
    for key, value in flavor.extra_specs.items():
        if _CPU_SET_KEY.fullmatch(key) and _has_huge_number(value):
            yield nova_rules.NovaRefusal(
                nova_rules.FAILURE,
                f'{checked.shown(key, value)} names vCPUs that no guest has; '
                f'this one has {flavor.vcpus}', (key,))


def _has_huge_number(text: str) -> bool:
    return any(len(number.lstrip('0')) > 9 or int(number) > _MAX_NUMBER
               for number in re.findall('[0-9]+', text))


def _check_topology_limits(
    flavor: flavor_model.Flavor, properties: Mapping[str, str],
) -> None:
    """As nova.virt.hardware.get_best_cpu_topology, in less time.

    :raises nova.exception.ImageVCPULimitsRangeImpossible: if the limits allow
        no topology
    """
    wish = guest_topology.topology_constraints(
        checked.CheckedFlavor(flavor, properties))
    if guest_topology.choose(flavor.vcpus, *wish[:2]) is None:
        sockets, cores, threads = (
            min(flavor.vcpus, limit) for limit in wish.limits)
        raise exception.ImageVCPULimitsRangeImpossible(
            vcpus=flavor.vcpus, sockets=sockets, cores=cores,
            threads=threads)


class _Failures:
    """The exceptions that nova raises about one flavor, each once."""

    def __init__(self, flavor: flavor_model.Flavor,
                 image: Mapping[str, str]) -> None:
        self._flavor = flavor
        self._image = image
        self._seen: set[str] = set()
        self.problems: list[nova_rules.NovaRefusal] = []

    @contextlib.contextmanager
    def collected(self, constraint: NovaConstraint) -> Iterator[None]:
        try:
            yield
        except exception.NovaException as error:
            told = _tidy(error)
            about = nova_exceptions.about(type(error).__name__, told)
            self._add(about.rule or constraint.rule, told,
                      about.roots or constraint.roots, about.advice)
        # Odd values make nova fail in any way.
        except Exception as error:
            self._add(nova_rules.FAILURE, _tidy(error), constraint.roots)

    def _add(self, code: check_rule.Rule[Any], message: str,
             roots: tuple[str, ...], advice: str = '') -> None:
        if message in self._seen:
            return
        self._seen.add(message)
        keys = self._keys(message, roots)
        culprits = [
            next(checked.shown(key, values[key])
                 for key in keys if key in values)
            for values in (self._flavor.extra_specs, self._image)
            if any(key in values for key in keys)]
        what = ' with '.join(culprits) or 'the flavor'
        self.problems.append(nova_rules.NovaRefusal(
            code, f'nova refuses {what}: {message}', keys, advice))

    def _keys(self, message: str, roots: tuple[str, ...]) -> tuple[str, ...]:
        """The keys that are there: those named, then those concerned.

        The flavor's come before the image's, since those can be changed.
        """
        there = (*self._flavor.extra_specs, *self._image)
        named = [key for key in there if re.search(
            rf'(?<![\w:]){re.escape(key)}(?![\w.])', message)]
        concerned = [
            key for prefix in ('hw:', 'hw_') for root in roots
            for key in there
            if key == f'{prefix}{root}' or key.startswith(f'{prefix}{root}.')]
        if not (named or concerned) and pci_alias.KEY in there:
            concerned.append(pci_alias.KEY)
        return tuple(sorted(dict.fromkeys((*named, *concerned)),
                            key=lambda key: key in self._image))


def _tidy(error: Exception) -> str:
    """What an exception says, on one line and without a full stop."""
    if isinstance(error, exception.NovaException):
        text = error.format_message()
    else:
        text = f'{type(error).__name__}: {error}'
    return checked.shown_text(text)
