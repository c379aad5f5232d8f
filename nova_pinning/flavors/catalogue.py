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
"""The catalogue: a file that says what is sold, and the flavors it makes.

doc/source/reference/catalogue.rst describes the format, catalogue-1.json is
its JSON Schema.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import itertools
import os
from typing import Any

from nova_pinning.document import quantities
from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.flavors import model
from nova_pinning.flavors import names
from nova_pinning.flavors import shape
from nova_pinning.flavors import translate

MAX_FLAVORS = 10_000

# What the database behind nova can hold (nova.db.constants.MAX_INT).
_MAX_INT = 0x7FFFFFFF
_DEFAULT_NAME = '{family}.{size}'
_SIZE_FIELDS = ('vcpus', 'memory_gib')

#: The properties of a flavor, and the words of the catalogue for them.
_PROPERTIES = {
    'vcpus': 'vcpus', 'ram': 'memory_mib', 'disk': 'disk',
    'ephemeral': 'ephemeral', 'swap': 'swap', 'rxtx_factor': 'rxtx_factor',
    'description': 'description', 'is_public': 'access', 'projects': 'access',
}


@dataclasses.dataclass(frozen=True, slots=True)
class Catalogue:
    """What a catalogue file says.

    :param name: what its flavors carry as ``pinning:catalogue``
    :param flavors: family by family, in the order of the file
    :param source: the file's name
    """

    name: str
    flavors: tuple[model.Flavor, ...]
    source: str = dataclasses.field(default='', compare=False)


def load(path: str | os.PathLike[str]) -> Catalogue:
    """Read a catalogue file and make its flavors.

    :raises errors.InputError: with all that is wrong, up to
        schema.MAX_ERRORS at once (errors.InputErrors)
    """
    return parse(source.read(path), os.fspath(path))


def parse(text: str, source_name: str) -> Catalogue:
    """The same from text.

    :param source_name: what errors call it
    """
    document = source.parse(text, source_name)
    _refuse_huge(document)
    schema.validate(document, schema.shipped(__package__, 'catalogue-1.json'))
    return Catalogue(document.value['name'], _flavors(document), source_name)


def _refuse_huge(document: source.Document) -> None:
    """Refuse what would keep the schema busy, or make too many flavors.

    :raises errors.InputError: if so
    """
    series = _below(document.value, 'sizes')
    families = _below(document.value, 'families')
    places: list[tuple[Any, source.Path]] = [
        (value, ('sizes', name)) for name, value in series.items()]
    made = 0
    for name in families:
        sizes = _below(families, name).get('sizes')
        path: source.Path = ('families', name, 'sizes')
        if not isinstance(sizes, str):
            places.append((sizes, path))
        made += _count(series.get(sizes) if isinstance(sizes, str) else sizes)
        if made > MAX_FLAVORS:
            raise document.error(
                f'up to here it makes {made:,} flavors; more than '
                f'{MAX_FLAVORS:,} are refused', path)
    for value, path in places:
        if _count(value) > MAX_FLAVORS:
            raise document.error(
                f'{_count(value):,} sizes; more than {MAX_FLAVORS:,} are '
                'refused', path)


def _below(value: Any, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _count(series: Any) -> int:
    if not isinstance(series, dict):
        return 0
    if 'memory_per_vcpu' in series:
        series = series.get('vcpus')
    return len(series) if isinstance(series, dict | list) else 0


def _flavors(document: source.Document) -> tuple[model.Flavor, ...]:
    """All flavors, or all that is wrong with them.

    What is wrong in a family is told for the first of its sizes only.
    """
    wrong: dict[errors.Location | None, errors.InputError] = {}
    made: dict[str, model.Flavor] = {}
    numa_cell = None
    try:
        numa_cell = _numa_cell(document)
    except errors.InputError as error:
        wrong[error.where] = error
    for family in document.value['families']:
        try:
            shapes = _shapes(document, family, numa_cell)
        except errors.InputError as error:
            wrong.setdefault(error.where, error)
            continue
        for one in shapes:
            try:
                flavor = _flavor(one)
                _refuse_namesake(flavor, made.get(flavor.name))
                made[flavor.name] = flavor
            except errors.InputError as error:
                wrong.setdefault(error.where, error)
    if wrong:
        raise errors.InputErrors(
            tuple(itertools.islice(wrong.values(), schema.MAX_ERRORS)),
            has_more=len(wrong) > schema.MAX_ERRORS)
    return tuple(made.values())


def _refuse_namesake(flavor: model.Flavor,
                     other: model.Flavor | None) -> None:
    if other is not None:
        raise errors.InputError(
            f'a second flavor is called {flavor.name}', flavor.where,
            f'the first is {other.where.key} in line {other.where.line}')


def _numa_cell(document: source.Document) -> tuple[int, int] | None:
    raw = document.value.get('numa_cell')
    if raw is None:
        return None
    return raw['vcpus'], quantities.memory_mib(
        raw['memory'], document.locate(('numa_cell', 'memory')))


def _shapes(document: source.Document, family: str,
            numa_cell: tuple[int, int] | None) -> list[shape.Shape]:
    path: source.Path = ('families', family)
    raw = dict(document.value['families'][family])
    sizes = raw.pop('sizes')
    sizes_path: source.Path = (*path, 'sizes')
    is_named = isinstance(sizes, str)
    if is_named:
        series = document.value.get('sizes', {})
        if sizes not in series:
            raise document.error(
                f'there is no series of sizes called {sizes}', sizes_path,
                schema.nearest(sizes, series))
        sizes_path = 'sizes', sizes
        sizes = series[sizes]
    shapes = []
    for name, size, size_path, memory_path in _sizes(
            document, sizes, sizes_path):
        settings, groups = shape.merge(raw, path, size, size_path)
        memory, _path = settings.pop('memory')
        settings['memory_mib'] = (
            quantities.memory_mib(memory, document.locate(memory_path)),
            memory_path)
        shapes.append(shape.Shape(
            document=document, family=family, size=name, family_path=path,
            path=path if is_named else size_path, settings=settings,
            groups=groups, numa_cell=numa_cell))
    return shapes


def _sizes(
    document: source.Document, raw: Mapping[str, Any], path: source.Path,
) -> Iterator[tuple[str, Mapping[str, Any], source.Path, source.Path]]:
    """The sizes of a series: name, values, their path, that of the memory."""
    if 'memory_per_vcpu' not in raw:
        for name, size in raw.items():
            yield name, size, (*path, name), (*path, name, 'memory')
        return
    memory_path = *path, 'memory_per_vcpu'
    each = quantities.memory_mib(
        raw['memory_per_vcpu'], document.locate(memory_path))
    template = raw.get('size_name', '{vcpus}')
    _check_template(document, template, (*path, 'size_name'), _SIZE_FIELDS)
    for position, vcpus in enumerate(raw['vcpus']):
        memory = vcpus * each
        name = names.fill(template, vcpus=vcpus, memory_mib=memory)
        yield (name, {'vcpus': vcpus, 'memory': memory},
               (*path, 'vcpus', position), memory_path)


def _check_template(document: source.Document, template: str,
                    path: source.Path, known: tuple[str, ...]) -> None:
    try:
        names.check_template(template, known)
    except names.TemplateError as error:
        raise document.error(
            f'the template {template!r} cannot be used: {error}', path,
        ) from None


def _flavor(one: shape.Shape) -> model.Flavor:
    name, name_path = _name(one)
    specs, origins = translate.extra_specs(one)
    access = one.get('access', 'public')
    for key, word in _PROPERTIES.items():
        path = one.path_of(word)
        origins[key] = one.document.locate(path, key=True)
    origins['name'] = one.document.locate(name_path, key=True)
    flavor = model.Flavor(
        name=name,
        vcpus=one.vcpus,
        memory_mib=_checked(one, 'memory_mib', one.memory_mib, 1),
        disk_gib=_amount(one, 'disk', quantities.disk_gib),
        ephemeral_gib=_amount(one, 'ephemeral', quantities.disk_gib),
        swap_mib=_amount(one, 'swap', quantities.memory_mib),
        rxtx_factor=float(one.get('rxtx_factor', 1.0)),
        is_public=access == 'public',
        projects=(() if access == 'public'
                  else tuple(sorted(access['projects']))),
        description=one.get('description', ''),
        extra_specs=specs,
        where=one.document.locate(one.path, key=True),
        origins=origins)
    return dataclasses.replace(flavor, id=names.flavor_id(
        one.document.value['name'], flavor))


def _amount(one: shape.Shape, key: str, read: Any) -> int:
    if one.get(key) is None:
        return 0
    value = read(one.get(key), one.where(one.path_of(key)))
    return _checked(one, key, value, 0)


def _checked(one: shape.Shape, key: str, value: int, least: int) -> int:
    if not least <= value <= _MAX_INT:
        raise one.error(f'{value} is not from {least} to {_MAX_INT}',
                        one.path_of(key))
    return value


def _name(one: shape.Shape) -> tuple[str, source.Path]:
    if one.get('name') is not None:
        return one.get('name'), one.path_of('name')
    path: source.Path = ('flavor_name',)
    template = one.document.value.get('flavor_name', _DEFAULT_NAME)
    if one.get('flavor_name') is not None:
        template, path = one.get('flavor_name'), one.path_of('flavor_name')
    _check_template(one.document, template, path, names.FIELDS)
    name = names.fill(template, vcpus=one.vcpus, memory_mib=one.memory_mib,
                      family=one.family, size=one.size)
    if len(name) > 255 or name != name.strip() or '\n' in name:
        raise one.error(
            f'the name {name[:80]!r} is not of 1 to 255 characters on one '
            'line without blanks around it', path)
    if 'flavor_name' not in one.settings \
            and 'flavor_name' not in one.document.value:
        path = one.path
    return name, path
