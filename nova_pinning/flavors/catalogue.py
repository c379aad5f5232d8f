# SPDX-License-Identifier: Apache-2.0
"""The catalogue: a file that says what is sold, and the flavors it makes.

doc/source/reference/catalogue.rst describes the format, catalogue-2.json is
its JSON Schema.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import os
from typing import Any

from nova_pinning.document import quantities
from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import foreign
from nova_pinning.flavors import host_separation
from nova_pinning.flavors import names
from nova_pinning.flavors import shape
from nova_pinning.flavors import terraform
from nova_pinning.flavors import translate
from nova_pinning.model import nova_release

MAX_FLAVORS = 10_000

# What the database behind nova can hold (nova.db.constants.MAX_INT).
_MAX_INT = 0x7FFFFFFF
_DEFAULT_NAME = '{family}.{size}'
_SIZE_FIELDS = ('vcpus', 'memory_gib')

#: The properties of a flavor, and the words of the catalogue for them.
_PROPERTIES = {
    'vcpus': 'vcpus', 'ram': 'memory', 'disk': 'disk',
    'ephemeral': 'ephemeral', 'swap': 'swap', 'rxtx_factor': 'rxtx_factor',
    'description': 'description', 'is_public': 'access', 'projects': 'access',
}


@dataclasses.dataclass(frozen=True, slots=True)
class Catalogue:
    """What a catalogue file says.

    :param name: what its flavors carry as ``pinning:catalogue``; '' of a
        file of another kind that has flavors
    :param flavors: family by family, in the order of the file
    :param release: of nova that the cloud runs, None if the file does not say
    :param separation: what keeps the classes apart, as far as the file says
    :param source: the file's name
    """

    name: str
    flavors: tuple[flavor_model.Flavor, ...]
    release: nova_release.NovaRelease | None = None
    separation: host_separation.Separation = host_separation.DEFAULT
    source: str = dataclasses.field(default='', compare=False)


def load(path: str | os.PathLike[str]) -> Catalogue:
    """Read a catalogue, or flavors in the file of another tool.

    :raises errors.InputError: with all that is wrong, up to
        schema.MAX_ERRORS at once (errors.InputErrors)
    """
    name = os.fspath(path)
    text = source.read(path)
    if terraform.is_terraform(name):
        document = terraform.parse(text, name)
    else:
        document = source.parse(text, name)
    flavors = foreign.flavors(document)
    if flavors:
        return Catalogue('', flavors, source=name)
    # A file with a version is one of ours, if perhaps not of this kind.
    if isinstance(document.value, dict) and not (
            document.value.keys().isdisjoint(('families', 'version'))):
        return _made(document)
    raise errors.InputError(
        'has no flavors in any form that is known', errors.Location(name),
        f'known are {"; ".join(foreign.KINDS)}')


def load_own(path: str | os.PathLike[str]) -> Catalogue:
    """Read a catalogue, which alone says which of a cloud's flavors it owns.

    :raises errors.InputError: as :func:`load` does, also for other files
    """
    sold = load(path)
    if not sold.name:
        raise errors.InputError(
            'has flavors, but is no catalogue', errors.Location(sold.source),
            f'make one: nova-pinning flavor show {sold.source} -f catalogue '
            '--name NAME')
    return sold


def parse(text: str, source_name: str) -> Catalogue:
    """A catalogue from text.

    :param source_name: what errors call it
    :raises errors.InputError: as :func:`load` does, also of another kind
    """
    return _made(source.parse(text, source_name))


def _made(document: source.YamlDocument) -> Catalogue:
    _refuse_huge(document)
    schema.validate(document, schema.shipped(
        __package__, 'catalogue-2.json'))
    return Catalogue(document.value['name'], _flavors(document),
                     _release(document), host_separation.Separation(
                         **document.value.get('separation', {})),
                     document.source)


def _release(document: source.YamlDocument) -> nova_release.NovaRelease | None:
    named = document.value.get('nova_release')
    if named is None:
        return None
    try:
        # Without quotes it is a number to YAML.
        return nova_release.of_name(str(named))
    except nova_release.UnknownRelease as error:
        raise document.error(str(error), ('nova_release',)) from None


def _refuse_huge(document: source.YamlDocument) -> None:
    """Refuse what would keep the schema busy, or make too many flavors.

    :raises errors.InputError: if so
    """
    series = _below(document.value, 'sizes')
    for name, value in series.items():
        if _count(value) > MAX_FLAVORS:
            raise document.error(
                f'{_count(value):,} sizes; more than {MAX_FLAVORS:,} are '
                'refused', ('sizes', name))
    families = _below(document.value, 'families')
    made = 0
    for name in families:
        sizes = _below(families, name).get('sizes')
        made += _count(series.get(sizes) if isinstance(sizes, str) else sizes)
        if made > MAX_FLAVORS:
            raise document.error(
                f'up to here it makes {made:,} flavors; more than '
                f'{MAX_FLAVORS:,} are refused', ('families', name, 'sizes'))


def _below(value: Any, key: str) -> Mapping[str, Any]:
    section = value.get(key) if isinstance(value, dict) else None
    return section if isinstance(section, dict) else {}


def _count(series: Any) -> int:
    if not isinstance(series, dict):
        return 0
    if 'memory_per_vcpu' in series:
        series = series.get('vcpus')
    return len(series) if isinstance(series, dict | list) else 0


def _flavors(document: source.YamlDocument) -> tuple[flavor_model.Flavor, ...]:
    """All flavors, or all that is wrong with them.

    What is wrong in a family is told for the first of its sizes only.
    """
    wrong: dict[errors.Location | None, errors.InputError] = {}
    made: dict[str, flavor_model.Flavor] = {}
    numa_cell = None
    try:
        numa_cell = _numa_cell(document)
    except errors.InputError as error:
        wrong[error.where] = error
    for family in document.value['families']:
        try:
            sizes = _shapes(document, family, numa_cell)
        except errors.InputError as error:
            wrong.setdefault(error.where, error)
            continue
        for size in sizes:
            try:
                flavor = _flavor(size)
                _refuse_namesake(flavor, made.get(flavor.name))
                made[flavor.name] = flavor
            except errors.InputError as error:
                wrong.setdefault(error.where, error)
    schema.raise_all(wrong.values())
    return tuple(made.values())


def _refuse_namesake(flavor: flavor_model.Flavor,
                     other: flavor_model.Flavor | None) -> None:
    if other is not None:
        raise errors.InputError(
            f'a second flavor is called {flavor.name}', flavor.where,
            f'the first is {other.where.key} in line {other.where.line}')


def _numa_cell(document: source.YamlDocument) -> tuple[int, int] | None:
    raw = document.value.get('numa_cell')
    if raw is None:
        return None
    return raw['vcpus'], quantities.memory_mib(
        raw['memory'], document.locate(('numa_cell', 'memory')))


def _shapes(document: source.YamlDocument, name: str,
            numa_cell: tuple[int, int] | None) -> list[shape.CatalogueEntry]:
    """The sizes of a family."""
    path: source.Path = ('families', name)
    raw = dict(document.value['families'][name])
    sizes = raw.pop('sizes')
    sizes_path: source.Path = (*path, 'sizes')
    key = None
    if isinstance(sizes, str):
        series = document.value.get('sizes', {})
        if sizes not in series:
            raise document.error(
                f'there is no series of sizes called {sizes}', sizes_path,
                schema.nearest(sizes, series))
        sizes_path = 'sizes', sizes
        sizes = series[sizes]
        key = document.locate(path, key=True)
    top = {key: value for key, value in document.value.items()
           if key == 'flavor_name'}
    family = (shape.read_mapping(document, (), top)
              | shape.read_mapping(document, path, raw))
    shapes = []
    for size_name, size in _sizes(document, sizes, sizes_path):
        fields = shape.merge(family, size.value)
        memory = fields['memory']
        mib = quantities.memory_mib(memory.value, memory.where)
        shapes += [shape.CatalogueEntry(
            catalogue=shape.read(document, ('name',), document.value['name']),
            family=shape.read(document, path, name), size=size_name + group,
            key=key or size.key, numa_cell=numa_cell,
            vcpus=fields['vcpus'], said=said,
            memory_mib=dataclasses.replace(memory, value=mib))
            for group, said in shape.by_group(fields)]
    return shapes


def _sizes(document: source.YamlDocument, series: Mapping[str, Any],
           path: source.Path) -> Iterator[tuple[str, shape.Placed[Any]]]:
    """The sizes of a series, by name."""
    if 'memory_per_vcpu' not in series:
        yield from shape.read_mapping(document, path, series).items()
        return
    fields = shape.read_mapping(document, path, series)
    each = fields['memory_per_vcpu']
    mib = quantities.memory_mib(each.value, each.where)
    template = series.get('size_name', '{vcpus}')
    if 'size_name' in fields:
        _check_template(fields['size_name'], _SIZE_FIELDS)
    for vcpus in fields['vcpus'].value:
        memory = vcpus.value * mib
        name = names.fill_template(template,
                                   vcpus=vcpus.value,
                                   memory_mib=memory)
        yield name, dataclasses.replace(vcpus, value={
            'vcpus': vcpus, 'memory': dataclasses.replace(each, value=memory)})


def _check_template(template: shape.Placed[str],
                    known: tuple[str, ...]) -> None:
    wrong = names.template_mistake(template.value, known)
    if wrong:
        raise errors.InputError(
            f'the template {template.value!r} cannot be used: {wrong}',
            template.where)


def _flavor(size: shape.CatalogueEntry) -> flavor_model.Flavor:
    name, name_key = _name(size)
    specs, origins = translate.extra_specs(size)
    for key, word in _PROPERTIES.items():
        setting = size.get(word)
        origins[key] = setting.key if setting else size.key
    origins['name'] = name_key
    projects = size.get('access', 'projects')
    factor, description = size.get('rxtx_factor'), size.get('description')
    flavor = flavor_model.Flavor(
        name=name,
        vcpus=size.vcpus.value,
        memory_mib=_checked(size, size.memory_mib, size.memory_mib.value, 1),
        disk_gib=_amount(size, 'disk', quantities.disk_gib),
        ephemeral_gib=_amount(size, 'ephemeral', quantities.disk_gib),
        swap_mib=_amount(size, 'swap', quantities.memory_mib),
        rxtx_factor=float(factor.value if factor else 1),
        is_public=projects is None,
        projects=tuple(sorted(
            project.value for project in projects.value)) if projects else (),
        description=description.value if description else '',
        extra_specs=specs,
        ignored={code: reason.value
                 for code, reason in size.group('ignore').items()},
        where=size.key,
        origins=origins)
    return dataclasses.replace(flavor, id=names.flavor_id(
        size.catalogue.value, flavor))


def _amount(size: shape.CatalogueEntry, key: str,
            read: Callable[[str | int, errors.Location], int]) -> int:
    amount = size.get(key)
    if amount is None:
        return 0
    return _checked(size, amount, read(amount.value, amount.where), 0)


def _checked(size: shape.CatalogueEntry, of: shape.Placed[Any], value: int,
             least: int) -> int:
    if not least <= value <= _MAX_INT:
        raise size.error(f'{value} is not from {least} to {_MAX_INT}', of)
    return value


def _name(size: shape.CatalogueEntry) -> tuple[str, errors.Location]:
    """What it is called, and what says so."""
    own = size.get('name')
    if own:
        return own.value, own.key
    template = size.get('flavor_name') or shape.Placed(
        _DEFAULT_NAME, size.key, size.key)
    _check_template(template, names.FIELDS)
    name = names.fill_template(
        template.value, vcpus=size.vcpus.value,
        memory_mib=size.memory_mib.value, family=size.family.value,
        size=size.size)
    if len(name) > 255 or name != name.strip() or '\n' in name:
        raise size.error(
            f'the name {name[:80]!r} is not of 1 to 255 characters on one '
            'line without blanks around it', template)
    return name, template.key
