# SPDX-License-Identifier: Apache-2.0
"""A catalogue of flavors that exist already.

What the catalogue has words for is said in them. Whether a word says what a
flavor has is not guessed: the catalogue is translated again, and a word that
does not come back as the same extra specs gives way to the extra specs
themselves.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import re
from typing import Any

import yaml

from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning.document import yaml_text
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import difference
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import translate
from nova_pinning.flavors import words

_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,63}')
_OWNERSHIP = (flavor_model.CATALOGUE_KEY, flavor_model.FAMILY_KEY)
_CLASS_KEY = 'hw:cpu_policy'
_CLASSES = ('dedicated', 'shared', 'mixed')

#: A word of the catalogue, what it says, and the extra specs it stands for.
Word = tuple[str, Any, tuple[str, ...]]

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
    text = _dump({
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


def _class(flavors: Mapping[str, flavor_model.Flavor]) -> str | None:
    """The class of a family: only families have one, and sizes do not."""
    names = {flavor.extra_specs.get(_CLASS_KEY, '')
             for flavor in flavors.values()}
    name = names.pop()
    return None if names or name not in _CLASSES else name


def _sizes(flavors: Mapping[str, flavor_model.Flavor],
           class_name: str | None) -> dict[str, dict[str, Any]]:
    """Flavors as sizes of a family that says nothing but its class."""
    done: dict[str, dict[str, Any]] = {}
    for matches_host in (True, False):
        # Many at once, since each translation of a catalogue takes its time.
        sizes = {}
        for size, flavor in flavors.items():
            if size not in done:
                specs = _foreign_specs(flavor, class_name)
                sizes[size] = _said(_properties(flavor), _words(
                    specs, matches_host), specs)
        done |= {size: sizes[size]
                 for size in _right(sizes, flavors, class_name)}
    return {size: done[size] if size in done else _tried_out(
        flavor, class_name) for size, flavor in flavors.items()}


def _tried_out(flavor: flavor_model.Flavor,
               class_name: str | None) -> dict[str, Any]:
    """A flavor as a size, if some word does not mean what it seems to.

    Words that are right together with those before them stay.
    """
    specs = _foreign_specs(flavor, class_name)
    said = _properties(flavor)
    kept: list[Word] = []
    for word in _words(specs, matches_host=False):
        candidate = _said(said, [*kept, word], specs)
        if _right({'size': candidate}, {'size': flavor}, class_name):
            kept.append(word)
    return _said(said, kept, specs)


def _properties(flavor: flavor_model.Flavor) -> dict[str, Any]:
    """What is not an extra spec."""
    said: dict[str, Any] = {
        'vcpus': flavor.vcpus, 'memory': quantities.text(flavor.memory_mib)}
    if flavor.disk_gib:
        said['disk'] = f'{flavor.disk_gib}GiB'
    if flavor.ephemeral_gib:
        said['ephemeral'] = f'{flavor.ephemeral_gib}GiB'
    if flavor.swap_mib:
        said['swap'] = quantities.text(flavor.swap_mib)
    if flavor.rxtx_factor != 1.0:
        said['rxtx_factor'] = flavor.rxtx_factor
    if flavor.description:
        said['description'] = flavor.description
    if not flavor.is_public:
        said['access'] = {'projects': list(flavor.projects)}
    return said


def _said(properties: Mapping[str, Any], words: Iterable[Word],
          specs: _SPECS) -> dict[str, Any]:
    """A size from words, with the other extra specs as they are."""
    said = dict(properties)
    covered: set[str] = set()
    for word, value, keys in words:
        # Throttles and traits come one by one.
        if isinstance(value, dict) and isinstance(said.get(word), dict):
            value = {**said[word], **value}
        said[word] = value
        covered.update(keys)
    rest = {key: value for key, value in sorted(specs.items())
            if key not in covered}
    if rest:
        said['extra_specs'] = rest
    return said


def _words(specs: _SPECS, matches_host: bool) -> Iterator[Word]:
    """The words that might stand for extra specs, in the format's order.

    :param matches_host: whether a topology is said to be like that of host
        CPUs
    """
    if 'hw:cpu_dedicated_mask' in specs:
        yield 'dedicated_vcpus', specs['hw:cpu_dedicated_mask'], (
            'hw:cpu_dedicated_mask',)
    for word in words.WORDS:
        said = word.read(specs[word.key]) if word.key in specs else None
        if said is not None:
            if matches_host and word.path[0] == 'cpu_topology':
                said = 'match-host'
            yield word.path[0], said, (word.key,)
    yield from _numa(specs)
    yield from _devices(specs)
    yield from _cpu_cap(specs)
    for key, value in specs.items():
        kind, _colon, name = key.partition(':')
        amount = words.number(value)
        if kind == 'resources' and amount is not None:
            yield 'resources', {name: amount}, (key,)
    yield from _traits(specs)


def _numa(specs: _SPECS) -> Iterator[Word]:
    count = words.number(specs.get('hw:numa_nodes', ''))
    if not count or count > 64:
        return
    keys = [(f'hw:numa_cpus.{cell}', f'hw:numa_mem.{cell}')
            for cell in range(count)]
    if not any(key in specs for pair in keys for key in pair):
        yield 'numa_nodes', count, ('hw:numa_nodes',)
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
        yield ('numa_nodes', cells,
               ('hw:numa_nodes', *(key for pair in keys for key in pair)))


def _devices(specs: _SPECS) -> Iterator[Word]:
    aliases: dict[str, Any] = {}
    for item in specs.get('pci_passthrough:alias', '').split(','):
        alias, _colon, count = item.rpartition(':')
        if not alias or alias in aliases or not words.number(count):
            return
        aliases[alias] = int(count)
    yield 'pci_devices', aliases, ('pci_passthrough:alias',)


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
    yield 'cpu_cap', cap, keys


def _traits(specs: _SPECS) -> Iterator[Word]:
    for requirement in ('required', 'forbidden'):
        keys = tuple(sorted(
            key for key, value in specs.items()
            if key.startswith('trait:') and value == requirement))
        if keys:
            yield ('traits', {requirement: [
                key.removeprefix('trait:') for key in keys]}, keys)


def _right(sizes: Mapping[str, Mapping[str, Any]],
           flavors: Mapping[str, flavor_model.Flavor],
           class_name: str | None) -> set[str]:
    """Which sizes become flavors with the same extra specs.

    None if any of them becomes no flavor at all.
    """
    if not sizes:
        return set()
    text = _dump({'version': 2, 'name': 'exported', 'flavor_name': '{size}',
                  'families': {'exported': {
                      **_with_class(class_name), 'sizes': dict(sizes)}}})
    try:
        again = catalogue.parse(text, 'export').flavors
    except errors.InputError:
        return set()
    return {flavor.name for flavor in again
            if _foreign_specs(flavor) == _foreign_specs(
                flavors[flavor.name])}


def _with_class(class_name: str | None) -> dict[str, Any]:
    return {'class': class_name} if class_name else {}


def _foreign_specs(flavor: flavor_model.Flavor,
                   class_name: str | None = None) -> dict[str, str]:
    """The extra specs that come from no family, nor from its class."""
    return {key: value for key, value in flavor.extra_specs.items()
            if key not in _OWNERSHIP
            and not (class_name and key == _CLASS_KEY)}


def _family(name: str,
            flavors: Mapping[str, flavor_model.Flavor]) -> dict[str, Any]:
    """A family, which says what all its sizes have in common.

    :param flavors: by the names of their sizes
    """
    class_name = _class(flavors)
    sizes = list(_sizes(flavors, class_name).values())
    common = _with_class(class_name) | {
        key: value for key, value in sizes[0].items()
        if key not in ('vcpus', 'memory', 'extra_specs')
        and all(size.get(key) == value for size in sizes)}
    specs = [size.pop('extra_specs', {}) for size in sizes]
    common_specs = {key: value for key, value in specs[0].items()
                    if all(spec.get(key) == value for spec in specs)}
    if common_specs:
        common['extra_specs'] = common_specs
    named = {}
    for (size_name, flavor), size, own in zip(
            flavors.items(), sizes, specs, strict=True):
        for key in common:
            size.pop(key, None)
        rest = {key: value for key, value in own.items()
                if key not in common_specs}
        if rest:
            size['extra_specs'] = rest
        named[size_name] = size if flavor.name == f'{name}.{size_name}' else {
            'name': flavor.name, **size}
    return {**common, 'sizes': named}


def _verify(text: str, flavors: Iterable[flavor_model.Flavor]) -> None:
    """Look whether a catalogue becomes the flavors that it was made from.

    :raises errors.InputError: if it is too large for a catalogue
    """
    again = {flavor.name: flavor
             for flavor in catalogue.parse(text, 'export').flavors}
    for flavor in flavors:
        for flavor_difference in difference.differences(
                flavor, again[flavor.name]):
            if flavor_difference.key not in _OWNERSHIP:
                raise AssertionError(f'{flavor.name}: {flavor_difference}')


def _dump(value: Any) -> str:
    return yaml.dump(value,
                     Dumper=yaml_text.TextDumper,
                     sort_keys=False,
                     width=1 << 20,
                     default_flow_style=False,
                     allow_unicode=True)
