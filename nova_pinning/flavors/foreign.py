# SPDX-License-Identifier: Apache-2.0
"""Flavors in the files of other tools.

What kind a file is of, its content says. All of them name a flavor's
properties nearly alike, so one table reads them all. Where a value is worked
out by the tool only when it runs, it is not guessed.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import re
from typing import Any

from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning import spelling

#: What the files are, for the error about one that is none of them.
KINDS = (
    'a catalogue',
    "what 'openstack flavor list --long -f json' or 'flavor show' prints, or "
    "nova's API",
    'a list of flavors (name, vcpus, ram, disk, extra_specs)',
    "SCS' flavor definitions",
    'Terraform files, plans and states with openstack_compute_flavor_v2',
    'Ansible tasks with openstack.cloud.compute_flavor',
    'a Heat template with OS::Nova::Flavor')

TERRAFORM_TYPE = 'openstack_compute_flavor_v2'
ANSIBLE_MODULES = ('openstack.cloud.compute_flavor', 'os_nova_flavor')
HEAT_TYPE = 'OS::Nova::Flavor'
#: The lists of flavors in SCS' definitions.
SCS_LISTS = ('mandatory', 'recommended', 'optional')

# What the tools call the properties of flavors, in lower case.
_WORDS = {
    'name': 'name',
    'id': 'id', 'flavorid': 'id', 'flavor_id': 'id',
    'vcpus': 'vcpus', 'cpus': 'vcpus',
    'ram': 'memory_mib',
    'disk': 'disk_gib',
    'ephemeral': 'ephemeral_gib',
    'os-flv-ext-data:ephemeral': 'ephemeral_gib',
    'swap': 'swap_mib',
    'rxtx_factor': 'rxtx_factor', 'rxtx factor': 'rxtx_factor',
    'rx_tx_factor': 'rxtx_factor',
    'is_public': 'is_public', 'is public': 'is_public', 'public': 'is_public',
    'os-flavor-access:is_public': 'is_public',
    'access_project_ids': 'projects', 'tenants': 'projects',
    'description': 'description',
    'extra_specs': 'extra_specs', 'properties': 'extra_specs',
}
#: Nova's own words for the properties.
NOVA_WORDS = {
    'name': 'name', 'id': 'id', 'description': 'description',
    'vcpus': 'vcpus', 'memory_mib': 'ram', 'disk_gib': 'disk',
    'ephemeral_gib': 'ephemeral', 'swap_mib': 'swap',
    'rxtx_factor': 'rxtx_factor', 'is_public': 'is_public'}
# What else stands beside them and says nothing of what a flavor is.
_OTHERS = {
    'links', 'os-flv-disabled:disabled', 'location', 'original_name',
    'state', 'cloud', 'auth', 'auth_type', 'region_name', 'region', 'wait',
    'timeout', 'interface', 'validate_certs', 'ca_cert', 'client_cert',
    'client_key', 'availability_zone', 'api_timeout', 'provider', 'timeouts',
    'depends_on', 'lifecycle', 'disabled',
}
_REQUIRED = ('name', 'vcpus', 'memory_mib')
_MAX_INT = 0x7FFFFFFF
# Of the text that older clients print for a mapping.
_PAIR = re.compile(r"([^\s,=']+)='([^']*)'(?:,\s*|$)")
# What Jinja works out, and what Terraform does.
_JINJA = re.compile(r'\{[{%]')
_INTERPOLATION = re.compile(r'(?<!\$)\$\{|(?<!%)%\{')

_Paths = Iterator[source.Path]
_Reader = Callable[[source.YamlDocument, source.Path, Any], Any]


def flavors(
        document: source.YamlDocument) -> tuple[flavor_model.Flavor, ...]:
    """The flavors of a file that is no catalogue.

    :returns: none if it is of no kind that is known
    :raises errors.InputError: if it does not say what a flavor is
    """
    made: dict[str, flavor_model.Flavor] = {}
    for path in next(filter(None, (
            list(places(document.value))
            for places in (_listed, _scs, _marked))), ()):
        flavor = _flavor(document, path)
        other = made.setdefault(flavor.name, flavor)
        if other is not flavor:
            raise document.error(
                f'a second flavor is called {flavor.name}', path,
                f'the first is in line {other.where.line}')
    return tuple(made.values())


def _listed(value: Any) -> _Paths:
    """Flavors themselves: one, a list, or either below a name for it."""
    if _is_flavor(value):
        yield ()
    elif isinstance(value, list) and any(map(_is_flavor, value)):
        yield from ((place,) for place in range(len(value)))
    elif isinstance(value, dict):
        for key in ('flavor', 'flavors'):
            yield from ((key, *path) for path in _listed(value.get(key)))


def _is_flavor(value: Any) -> bool:
    return isinstance(value, dict) and {'name', 'vcpus'} <= {
        _WORDS.get(key.lower()) for key in value}


def _scs(value: Any) -> _Paths:
    if isinstance(value, dict) and 'reference' in value:
        for key in SCS_LISTS:
            if isinstance(value.get(key), list):
                yield from ((key, place) for place in range(len(value[key])))


def _marked(value: Any, path: source.Path = ()) -> _Paths:
    """Flavors that tools know by a type or a module, wherever they stand."""
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from _marked(item, (*path, place))
    if not isinstance(value, dict):
        return
    kind = value.get('type')
    if kind == HEAT_TYPE:
        yield *path, 'properties'
    elif kind == TERRAFORM_TYPE and 'values' in value:
        yield *path, 'values'
    elif kind == TERRAFORM_TYPE and isinstance(value.get('instances'), list):
        for place in range(len(value['instances'])):
            yield *path, 'instances', place, 'attributes'
    for key, item in value.items():
        if key == TERRAFORM_TYPE:
            yield from _blocks(item, (*path, key), 1)
        elif key in ANSIBLE_MODULES:
            if not isinstance(item, dict) or item.get('state') != 'absent':
                yield *path, key
        # Of a plan it is how things were before.
        elif key != 'prior_state':
            yield from _marked(item, (*path, key))


def _blocks(value: Any, path: source.Path, labels: int) -> _Paths:
    """The blocks below so many labels; JSON may have lists at each level."""
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from _blocks(item, (*path, place), labels)
    elif labels and isinstance(value, dict):
        for label, item in value.items():
            yield from _blocks(item, (*path, label), labels - 1)
    else:
        yield path


def _at(value: Any, path: source.Path) -> Any:
    """What is at a place, None if there is none."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        else:
            value = (value[part] if isinstance(value, list)
                     and isinstance(part, int) else None)
    return value


def _flavor(document: source.YamlDocument,
            path: source.Path) -> flavor_model.Flavor:
    """A flavor from its properties, under whichever names.

    :raises errors.InputError: if it is none
    """
    raw = _at(document.value, path)
    if not isinstance(raw, dict):
        raise document.error('is no mapping of the properties of a flavor',
                             path)
    given: dict[str, Any] = {}
    keys: dict[str, str] = {}
    specs: dict[str, str] = {}
    origins: dict[str, errors.Location] = {}
    for key, value in _with_defaults(document.value, path, raw).items():
        place = (*path, key)
        word = _WORDS.get(key.lower())
        # SCS has extra specs among the rest.
        if word is None and ':' in key and _is_scs(path):
            specs[key] = _text(document, place, value)
            origins[key] = document.locate(place, key=True)
        elif word == 'extra_specs':
            for spec, text in _specs(document, place, value).items():
                specs[spec] = text
                origins[spec] = document.locate((*place, spec), key=True)
            given[word] = True
        elif word is not None:
            reader: _Reader = _READERS.get(word, _number)
            given[word] = reader(document, place, value)
            keys[word] = key
            origins[NOVA_WORDS.get(word, word)] = document.locate(
                place, key=True)
        elif key.lower() not in _OTHERS:
            raise document.error(
                f'{key} is no property of a flavor that is known', place,
                spelling.did_you_mean(key, _WORDS), key=True)
    _check(document, path, given, keys)
    given.pop('extra_specs', None)
    given = {word: value for word, value in given.items()
             if value is not None}
    return flavor_model.Flavor(
        **given, extra_specs=specs, where=document.locate(path),
        origins=origins)


def _check(document: source.YamlDocument, path: source.Path,
           given: Mapping[str, Any], keys: Mapping[str, str]) -> None:
    """Look whether all that makes a flavor is said of one.

    :param given: its properties
    :param keys: what the file calls them
    :raises errors.InputError: if not
    """
    for word in _REQUIRED:
        if not given.get(word):
            raise document.error(
                f'{NOVA_WORDS.get(word, word)} is missing'
                if word not in given else f'{keys[word]} must be at least 1',
                path)
    if 'extra_specs' not in given and (
            _LISTED_BY_NOVA & _at(document.value, path).keys()):
        raise document.error(
            'has no extra specs, which is not to say that the flavor has '
            'none', path, "list them with 'openstack flavor list --long -f "
            "json', or by microversion 2.61 or later")


def _with_defaults(value: Any, path: source.Path,
                   raw: dict[str, Any]) -> dict[str, Any]:
    """Properties with what SCS' reference says where they are left out."""
    if not _is_scs(path):
        return raw
    return {field['field']: field['default'] for field in value['reference']
            if isinstance(field, dict) and 'default' in field
            and 'field' in field} | raw


def _is_scs(path: source.Path) -> bool:
    return bool(path) and path[0] in SCS_LISTS


def _text(document: source.YamlDocument, path: source.Path,
          value: Any) -> str:
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if not isinstance(value, str | int | float):
        raise document.error(
            'is not known before the tool runs' if value else
            'has no value', path, _RESULT)
    text = str(value)
    is_configuration = path[0] == 'resource'
    if (_INTERPOLATION if is_configuration else _JINJA).search(text):
        raise document.error(
            f'{text[:60]!r} is not known before the tool runs', path, _RESULT)
    return (text.replace('$${', '${').replace('%%{', '%{')
            if is_configuration else text)


def _specs(document: source.YamlDocument, path: source.Path,
           value: Any) -> Mapping[str, str]:
    if isinstance(value, dict):
        return {_text(document, (*path, key), key):
                _text(document, (*path, key), text)
                for key, text in value.items()}
    # Older clients print text.
    text = _text(document, path, value or '')
    pairs = list(_PAIR.finditer(text))
    if ''.join(pair[0] for pair in pairs) != text:
        raise document.error('is no mapping of extra specs', path)
    return {pair[1]: pair[2] for pair in pairs}


def _number(document: source.YamlDocument, path: source.Path,
            value: Any) -> int:
    text = _text(document, path, 0 if value in ('', None) else value)
    if not (text.isascii() and text.isdigit() and len(text) <= 10
            and int(text) <= _MAX_INT):
        raise document.error(
            f'{text!r} is no whole number up to {_MAX_INT}', path)
    return int(text)


def _factor(document: source.YamlDocument, path: source.Path,
            value: Any) -> float | None:
    if value is None:
        return None
    try:
        return float(_text(document, path, value))
    except ValueError:
        raise document.error(f'{value!r} is no number', path) from None


def _truth(document: source.YamlDocument, path: source.Path,
           value: Any) -> bool | None:
    text = _text(document, path, 'true' if value is None else value)
    if text.lower() not in _TRUTHS:
        raise document.error(f'{text!r} is neither true nor false', path)
    return _TRUTHS[text.lower()]


def _optional_text(document: source.YamlDocument, path: source.Path,
                   value: Any) -> str | None:
    return None if value is None else _text(document, path, value)


def _projects(document: source.YamlDocument, path: source.Path,
              value: Any) -> tuple[str, ...] | None:
    if value is None or value == []:
        return None
    if not isinstance(value, list):
        raise document.error('is no list of projects', path)
    return tuple(sorted(_text(document, (*path, place), project)
                        for place, project in enumerate(value)))


# YAML 1.1, which Ansible and Heat read, has these.
_TRUTHS = {'true': True, 'yes': True, 'on': True,
           'false': False, 'no': False, 'off': False}
_READERS: Mapping[str, _Reader] = {
    'name': _text, 'id': _optional_text, 'description': _optional_text,
    'rxtx_factor': _factor, 'is_public': _truth, 'projects': _projects}
#: Keys that show that nova or its client has written it.
_LISTED_BY_NOVA = {'RAM', 'links', 'OS-FLV-DISABLED:disabled',
                   'OS-FLV-EXT-DATA:ephemeral'}
_RESULT = ("give what it makes of it: 'terraform show -json', or 'openstack "
           "flavor list --long -f json' of the cloud")
