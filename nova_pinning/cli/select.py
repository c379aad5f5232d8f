# SPDX-License-Identifier: Apache-2.0
"""The flavor that a command line names."""

from collections.abc import Iterable
from collections.abc import Sequence
import os

from nova_pinning.bridge.offline import standalone
from nova_pinning.cli import common_options
from nova_pinning import cpuset
from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import words
from nova_pinning import spelling

#: What a flavor given as key=value has besides extra specs, all as nova and
#: openstack call it.
_PROPERTIES = ('name', 'vcpus', 'ram', 'disk', 'ephemeral', 'swap')
#: Words of a catalogue that stand for an extra spec.
_CATALOGUE_WORDS = {word.path[0]: f'write {word.key}' for word in words.WORDS
                    if len(word.path) == 1}
_OPTION = '--flavor'
_WRITTEN_OUT = (
    "write it out, like 'vcpus=8 ram=16GiB hw:cpu_policy=dedicated'")
_MAX_VCPUS = cpuset.MAX_CPU_ID + 1

#: What a flavor is called that is written out without a name.
UNNAMED = 'flavor'


def named_flavors(
    among: Sequence[flavor_model.Flavor], names: Sequence[str], source: str,
) -> tuple[flavor_model.Flavor, ...]:
    """Those that are named, themselves or by their family.

    :param source: where they are from
    :raises errors.InputError: for a name that there is not
    """
    if not names:
        return tuple(among)
    unknown = [name for name in names
               if not any(_is_named(name, flavor) for flavor in among)]
    if unknown:
        raise errors.InputError(
            f'no flavor or family is called {unknown[0]!r}',
            errors.Location(source), _nearest(unknown[0], among))
    return tuple(flavor for flavor in among
                 if any(_is_named(name, flavor) for name in names))


def _is_named(name: str, flavor: flavor_model.Flavor) -> bool:
    return name in (flavor.name, flavor.extra_specs.get(
        flavor_model.FAMILY_KEY))


def _nearest(name: str, among: Iterable[flavor_model.Flavor]) -> str:
    known = list(dict.fromkeys(
        known_name for flavor in among for known_name in (
            flavor.name, flavor.extra_specs.get(flavor_model.FAMILY_KEY, ''))
        if known_name))
    return common_options.known(spelling.nearest(name, known) or known)


def named_flavor(
    text: str,
    among: Sequence[flavor_model.Flavor] | None = None,
    source: str = '',
) -> flavor_model.Flavor:
    """A flavor by name, or ``FILE:NAME``, ``FILE``, ``key=value ...``.

    :param among: flavors that have a name, None if there cannot be any
    :param source: where these are from
    :raises errors.InputError: if it is not one of these
    """
    return flavor_and_catalogue(text, among, source)[0]


def flavor_and_catalogue(
    text: str,
    among: Sequence[flavor_model.Flavor] | None = None,
    source: str = '',
) -> tuple[flavor_model.Flavor, catalogue.Catalogue | None]:
    """The same, with the catalogue that it is from, if it is from one."""
    for flavor in among or ():
        if flavor.name == text:
            return flavor, None
    if not text and not among:
        raise errors.InputError('names no flavor', errors.Location(_OPTION),
                                _WRITTEN_OUT)
    is_file = os.path.exists(text)
    path, _colon, name = text.rpartition(':')
    if not is_file and path and os.path.exists(path):
        sold = catalogue.load(path)
        return _only(sold.flavors, name, path), sold
    if '=' in text and not is_file:
        return _written_out(text), None
    if among is not None and not is_file:
        raise errors.InputError(
            f'{source} has no flavor called {text!r}, and there is no such '
            'file', errors.Location(_OPTION),
            _nearest(text, among) if among else _WRITTEN_OUT)
    if not is_file and not path and not _looks_like_file(text):
        raise errors.InputError(
            f'there is no file {text!r}, and nothing here knows flavors by '
            'their names alone', errors.Location(_OPTION),
            f'name its catalogue as well, like flavors.yaml:{text}, or '
            + _WRITTEN_OUT)
    # Of a file that is not there, what is said is its name, not the flavor's.
    sold = catalogue.load(text if is_file else path or text)
    return _only(sold.flavors, '', text), sold


def _looks_like_file(text: str) -> bool:
    return '/' in text or text.endswith(('.yaml', '.yml', '.json'))


def _only(among: Sequence[flavor_model.Flavor], name: str,
          path: str) -> flavor_model.Flavor:
    if not name and len(among) == 1:
        return among[0]
    for flavor in among:
        if flavor.name == name:
            return flavor
    where = errors.Location(_OPTION)
    if not name:
        raise errors.InputError(
            f'{path} has {len(among)} flavors', where,
            f'say which: {path}:{among[0].name}')
    family = [flavor.name for flavor in among
              if flavor.extra_specs.get(flavor_model.FAMILY_KEY) == name]
    if family:
        raise errors.InputError(
            f'{name} is a family, not a flavor', where,
            'say which of it: ' + common_options.listed(family))
    raise errors.InputError(f'{path} has no flavor called {name!r}', where,
                            _nearest(name, among))


def without_made_up_name(error: errors.InputError) -> str:
    """An error's message, without the name of a flavor that has none.

    One that is written out has no name but the one that it is called by.
    """
    if error.where is not None and error.where.source == _OPTION:
        return error.message.removeprefix(f'flavor {UNNAMED}: ')
    return error.message


def _written_out(text: str) -> flavor_model.Flavor:
    where = errors.Location(_OPTION)
    given = common_options.pairs(
        text.split(), where, "'vcpus=8 ram=16GiB hw:cpu_policy=dedicated'")
    for key in given:
        # Nova takes extra specs without a colon in their name as well.
        if ':' in key or key in _PROPERTIES:
            continue
        meant = spelling.did_you_mean(key, _PROPERTIES, 1)
        if meant:
            raise errors.InputError(
                f'{key} is none of {", ".join(_PROPERTIES)}', where, meant)
        meant = _CATALOGUE_WORDS.get(key, '')
        if not meant:
            # This loads most of nova.
            standalone.prepare()
            from nova_pinning.bridge.offline import nova_judgement
            meant = nova_judgement.meant(key)
        if meant:
            raise errors.InputError(f'nova reads no extra spec {key}', where,
                                    meant)
    for key in ('vcpus', 'ram'):
        if key not in given:
            raise errors.InputError(f'{key} is missing', where)
    bad = next((letter for letter in text if not letter.isprintable()), None)
    if bad and not bad.isspace():
        raise errors.InputError(
            f'has a character that no text has, U+{ord(bad):04X}', where)
    memory_mib = _memory_mib(given['ram'], where)
    if not memory_mib:
        raise errors.InputError('ram must be at least 1', where)
    return flavor_model.Flavor(
        name=given.get('name', UNNAMED),
        vcpus=_count(given, 'vcpus', where),
        memory_mib=memory_mib,
        disk_gib=_count(given, 'disk', where),
        ephemeral_gib=_count(given, 'ephemeral', where),
        swap_mib=_memory_mib(given.get('swap', '0'), where),
        extra_specs={key: value for key, value in given.items()
                     if key not in _PROPERTIES},
        where=where)


def _count(given: dict[str, str], key: str, where: errors.Location) -> int:
    text = given.get(key, '0')
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise errors.InputError(f'{key}={text} is not a number', where)
    if key == 'vcpus' and not 1 <= int(text) <= _MAX_VCPUS:
        raise errors.InputError(
            f'vcpus must be from 1 to {_MAX_VCPUS}', where)
    return int(text)


def _memory_mib(text: str, where: errors.Location) -> int:
    """Plain numbers are MiB, as for openstack flavor create."""
    if text.isascii() and text.isdigit() and len(text) <= 12:
        return int(text)
    return quantities.memory_mib(text, where)
