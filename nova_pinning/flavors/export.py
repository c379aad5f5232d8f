# SPDX-License-Identifier: Apache-2.0
"""A catalogue of flavors that exist already.

What the catalogue has words for is said in them. Whether a word says what a
flavor has is not guessed: it is translated, and one that does not come back as
what the flavor has gives way to the extra specs themselves.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import functools
import re
from typing import Any

from nova_pinning.admission import pci_alias
from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.document import schema
from nova_pinning.document import yaml_text
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import difference
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import listing
from nova_pinning.flavors import shape
from nova_pinning.flavors import translate
from nova_pinning.flavors import words

_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,63}')
_CLASS_KEY = 'hw:cpu_policy'
_CLASSES = ('dedicated', 'shared', 'mixed')

# Properties of flavors that a catalogue says if they are not as usual.
_AS_SAID: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ('disk', 'disk_gib', '{}GiB'.format),
    ('ephemeral', 'ephemeral_gib', '{}GiB'.format),
    ('swap', 'swap_mib', quantities.text),
    ('rxtx_factor', 'rxtx_factor', float), ('description', 'description', str))

#: A word of the catalogue, and what it says.
Word = tuple[str, Any]

_SPECS = Mapping[str, str]


def catalogue_text(flavors: Iterable[flavor_model.Flavor],
                   name: str | None = None) -> str:
    """A catalogue, version 2, as YAML.

    Translated again it gives the same flavors, but for their ids and the
    extra specs that say to which catalogue and family they belong.

    :param name: what to call it; if None, as the catalogue that all flavors
        come from is called, else 'exported'
    :raises errors.InputError: if there is no flavor, or the name cannot be
        used
    """
    flavors = tuple(flavors)
    if not flavors:
        raise errors.InputError('there are no flavors to export')
    name = name or _common_name(flavors)
    if not _NAME.fullmatch(name):
        raise errors.InputError(
            f'{name!r} cannot be the name of a catalogue',
            errors.Location('--name'), 'a name has up to 64 letters, digits '
            "and '.', '_', '-'")
    placed: dict[str, dict[str, flavor_model.Flavor]] = {}
    for flavor in flavors:
        family, size = _place(flavor, placed)
        placed.setdefault(family, {})[size] = flavor
    text = yaml_text.dump({
        'version': 2, 'name': name, 'families': {
            family: _family(family, sizes)
            for family, sizes in placed.items()}})
    _verify(text, flavors)
    return text


def _common_name(flavors: Sequence[flavor_model.Flavor]) -> str:
    names = {flavor.extra_specs.get(flavor_model.CATALOGUE_KEY, '')
             for flavor in flavors}
    name = names.pop()
    return name if not names and _NAME.fullmatch(name) else 'exported'


def _place(flavor: flavor_model.Flavor,
           taken: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    """The family and the size that a flavor is to be."""
    prefix, dot, _rest = flavor.name.rpartition('.')
    family = flavor.extra_specs.get(flavor_model.FAMILY_KEY, '')
    if not _NAME.fullmatch(family):
        family = prefix if dot and _NAME.fullmatch(prefix) else 'exported'
    size = flavor.name.removeprefix(f'{family}.')
    # Room is left for a number.
    size = re.sub(r'[^A-Za-z0-9._-]+', '-', size).lstrip('._-')[:56] or 'size'
    unique, number = size, 1
    while unique in taken.get(family, ()):
        number += 1
        unique = f'{size}-{number}'
    return family, unique


def _size(flavor: flavor_model.Flavor,
          class_name: str | None) -> dict[str, Any]:
    """A flavor as a size of a family that says nothing but its class.

    A word stays if all that it stands for is what the flavor has, and more of
    it than what was said before.
    """
    specs = flavor.own_specs
    said = _properties(flavor)
    covered = _translated(flavor, said, class_name)
    for key, value in _words(specs):
        if isinstance(value, dict) and isinstance(said.get(key), dict):
            value = {**said[key], **value}
        tried = {**said, key: value}
        if not _size_validator().is_valid(
                {part: tried[part] for part in ('vcpus', 'memory', key)}):
            continue
        made = _translated(flavor, tried, class_name)
        if len(made) > len(covered) and made.items() <= specs.items():
            said, covered = tried, made
    rest = {key: value for key, value in sorted(specs.items())
            if key not in covered}
    return {**said, 'extra_specs': rest} if rest else said


def _translated(flavor: flavor_model.Flavor, said: Mapping[str, Any],
                class_name: str | None) -> dict[str, str]:
    """The extra specs of a flavor as a size that says so.

    Empty if the size makes no sense.
    """
    name = shape.placed('exported')
    fields = shape.merge(
        {'class': shape.placed(class_name)}, shape.placed(said).value)
    try:
        specs, _origins = translate.extra_specs(shape.CatalogueEntry(
            catalogue=name, family=name, size='', key=name.key,
            numa_cell=None, vcpus=shape.placed(flavor.vcpus),
            memory_mib=shape.placed(flavor.memory_mib), said=fields))
    except errors.InputError:
        return {}
    return {key: value for key, value in specs.items()
            if key not in flavor_model.OWNERSHIP}


@functools.cache
def _size_validator() -> Any:
    whole = schema.shipped(__package__, 'catalogue-2.json')
    return schema.validator({
        '$ref': '#/$defs/size', '$defs': whole['$defs']})


def _properties(flavor: flavor_model.Flavor) -> dict[str, Any]:
    """What is not an extra spec."""
    said: dict[str, Any] = {
        'vcpus': flavor.vcpus, 'memory': quantities.text(flavor.memory_mib)}
    for word, field, text in _AS_SAID:
        value = getattr(flavor, field)
        if value != listing.DEFAULTS[field]:
            said[word] = text(value)
    if not flavor.is_public:
        said['access'] = {'projects': list(flavor.projects)}
    return said


def _words(specs: _SPECS) -> Iterator[Word]:
    """Words that might stand for extra specs, the better ones first."""
    if 'hw:cpu_dedicated_mask' in specs:
        yield 'dedicated_vcpus', specs['hw:cpu_dedicated_mask']
    yield from _numa(specs)
    for word in words.WORDS:
        said = word.read(specs[word.key]) if (
            word.key in specs and word.key != _CLASS_KEY) else None
        if said is not None:
            if word.path[0] == 'cpu_topology':
                yield 'cpu_topology', 'match-host'
            yield word.path[0], said
    yield from _devices(specs)
    yield from _cpu_cap(specs)
    for key, value in specs.items():
        kind, _colon, name = key.partition(':')
        amount = words.number(value)
        if kind == 'resources' and amount is not None:
            yield 'resources', {name: amount}
    yield from _traits(specs)


def _numa(specs: _SPECS) -> Iterator[Word]:
    count = words.number(specs.get('hw:numa_nodes', ''))
    if not count or count > 64:
        return
    keys = [(f'hw:numa_cpus.{cell}', f'hw:numa_mem.{cell}')
            for cell in range(count)]
    if not any(key in specs for pair in keys for key in pair):
        yield 'numa_nodes', count
    elif all(key in specs for pair in keys for key in pair):
        cells = []
        for cpus, memory in keys:
            size = words.number(specs[memory])
            try:
                vcpus = str(cpuset.CpuSet.parse(specs[cpus]))
            except ValueError:
                return
            if size is None:
                return
            cells.append({'vcpus': vcpus, 'memory': quantities.text(size)})
        yield 'numa_nodes', cells


def _devices(specs: _SPECS) -> Iterator[Word]:
    # What stands beside them that cannot be read, or twice, does not come
    # back from them.
    aliases = dict(pci_alias.counts(specs))
    if aliases:
        yield 'pci_devices', aliases


def _cpu_cap(specs: _SPECS) -> Iterator[Word]:
    keys = ('quota:cpu_period', 'quota:cpu_quota')
    period, quota = (words.number(specs.get(key, '')) for key in keys)
    if not period or not quota:
        return
    percent = quota * 100 / period
    cap: dict[str, int | float] = {
        'percent': int(percent) if percent.is_integer() else percent}
    if period != translate.PERIOD_US:
        cap['period_us'] = period
    yield 'cpu_cap', cap


def _traits(specs: _SPECS) -> Iterator[Word]:
    for requirement in ('required', 'forbidden'):
        traits = sorted(
            key.removeprefix('trait:') for key, value in specs.items()
            if key.startswith('trait:') and value == requirement)
        if traits:
            yield 'traits', {requirement: traits}


def _family(name: str,
            flavors: Mapping[str, flavor_model.Flavor]) -> dict[str, Any]:
    """A family, which says what all its sizes have in common.

    :param flavors: by the names of their sizes
    """
    classes = {flavor.extra_specs.get(_CLASS_KEY, '')
               for flavor in flavors.values()}
    # Only families have one, and sizes do not.
    found = classes.pop()
    class_name = None if classes or found not in _CLASSES else found
    sizes = {size: _size(flavor, class_name)
             for size, flavor in flavors.items()}
    common = _common(tuple(sizes.values()))
    for size, said in sizes.items():
        own = {key: {name: below for name, below in value.items()
                     if name not in common.get(key, ())}
               if key in shape.GROUPS else value
               for key, value in said.items() if key not in common
               or key in shape.GROUPS}
        flavor_name = flavors[size].name
        sizes[size] = ({} if flavor_name == f'{name}.{size}' else {
            'name': flavor_name}) | {
                key: value for key, value in own.items() if value != {}}
    return ({'class': class_name} if class_name else {}) | common | {
        'sizes': sizes}


def _common(sizes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all sizes say, key by key where a size adds to its family."""
    common = {}
    for key, value in sizes[0].items():
        if key in shape.GROUPS:
            value = {name: below for name, below in value.items()
                     if all(size.get(key, {}).get(name) == below
                            for size in sizes)}
        elif key in ('vcpus', 'memory') or any(
                size.get(key) != value for size in sizes):
            continue
        if value != {}:
            common[key] = value
    return common


def _verify(text: str, flavors: Iterable[flavor_model.Flavor]) -> None:
    """Look whether a catalogue becomes the flavors that it was made from.

    :raises errors.InputError: if it is too large for a catalogue
    """
    again = {flavor.name: flavor
             for flavor in catalogue.parse(text, 'export').flavors}
    for flavor in flavors:
        for flavor_difference in difference.differences(
                flavor, again[flavor.name]):
            if flavor_difference.key not in flavor_model.OWNERSHIP:
                raise AssertionError(f'{flavor.name}: {flavor_difference}')
