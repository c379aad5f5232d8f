# SPDX-License-Identifier: Apache-2.0
"""Documents held against a JSON Schema, with errors that people can read.

A schema's ``title`` says in words what is expected, so that it reads well
after "is not": ``a number of vCPUs, 1 or more``. It is what an error says
where a value does not match.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import functools
from importlib import resources
import itertools
import json
import re
from typing import Any

from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning import spelling

#: How many errors are told at once.
MAX_ERRORS = 20
# How many are looked at to find the ones that stand first.
_MAX_LOOKED_AT = 1000
_MAX_SHOWN = 60

_TYPES = {
    'object': 'a mapping (key: value)', 'array': 'a list', 'string': 'text',
    'integer': 'a whole number', 'number': 'a number',
    'boolean': 'true or false', 'null': 'nothing',
}
_LIMITS = {
    'const': '{}',
    'minimum': '{} or more',
    'maximum': '{} or less',
    'exclusiveMinimum': 'more than {}',
    'minLength': 'text with something in it',
    'maxLength': 'text of at most {} characters',
    'maxItems': 'a list of at most {}',
    'maxProperties': 'a mapping of at most {} keys',
    'uniqueItems': 'a list in which nothing stands twice',
    'pattern': 'text of the form {}',
}
# What documents are, by a key that no other kind of document has.
_KINDS = {
    'families': 'a catalogue of flavors', 'groups': 'a site file',
    'layouts': 'a fleet snapshot', 'moves': 'a plan of moves',
    'nodes': 'a host file'}
_YES_NO = {'yes': 'true', 'on': 'true', 'no': 'false', 'off': 'false'}


@functools.cache
def shipped(package: str, name: str) -> Mapping[str, Any]:
    """A JSON Schema that comes with a package.

    :param package: as its modules know it, ``__package__``
    :param name: of the file
    """
    text = resources.files(package).joinpath(name).read_text('utf-8')
    schema: Mapping[str, Any] = json.loads(text)
    return schema


def validate(document: source.YamlDocument, schema: Mapping[str, Any]) -> None:
    """Hold a document against a schema (draft 2020-12).

    If the schema has a constant ``version``, a document of another version
    is told so, and nothing else. Neither is more said of a document that is
    of another kind altogether.

    :raises errors.InputErrors: with up to MAX_ERRORS errors, in the order in
        which they stand in the document
    """
    _check_kind(document, schema)
    _check_version(document, schema)
    failures = itertools.islice(
        validator(schema).iter_errors(document.value), _MAX_LOOKED_AT)
    problems = [document.error(message, path, advice, is_key)
                for path, is_key, message, advice in dict.fromkeys(
                    told for failure in failures
                    for told in _explain(failure))]
    problems.sort(key=lambda error: (error.where.line, error.where.column)
                  if error.where else (0, 0))
    raise_all(problems)


def raise_all(problems: Iterable[errors.InputError]) -> None:
    """Tell of all that is wrong, up to MAX_ERRORS; nothing if none is.

    :raises errors.InputErrors: if there is any
    """
    if found := tuple(problems):
        raise errors.InputErrors(found[:MAX_ERRORS],
                                 has_more=len(found) > MAX_ERRORS)


def validator(schema: Mapping[str, Any]) -> Any:
    """What tells whether values are what a schema describes."""
    # It takes longer to import than most commands take otherwise.
    import jsonschema

    draft = jsonschema.Draft202012Validator
    # To JSON Schema 2.0 is a whole number, to the code that reads it a float.
    return jsonschema.validators.extend(
        draft, {'pattern': _check_pattern},
        type_checker=draft.TYPE_CHECKER.redefine(
            'integer', lambda _checker, value: type(value) is int))(schema)


def _check_pattern(_validator: Any, pattern: str, value: Any,
                   _schema: Any) -> Iterator[Exception]:
    """JSON Schema's "pattern", with a ``$`` that means the very end.

    To Python it also matches before a newline there.
    """
    import jsonschema

    if pattern.endswith('$'):
        pattern = pattern[:-1] + r'\Z'
    if isinstance(value, str) and not re.search(pattern, value):
        yield jsonschema.ValidationError(
            f'{_show(value)} does not match {pattern}')


def _check_kind(document: source.YamlDocument,
                schema: Mapping[str, Any]) -> None:
    known = schema.get('properties', {})
    given = document.value if isinstance(document.value, dict) else {}
    found = [key for key in _KINDS if key in given]
    if found and not any(key in known for key in found):
        wanted = next((kind for key, kind in _KINDS.items() if key in known),
                      'another kind of document')
        raise errors.InputErrors((document.error(
            f'is {_KINDS[found[0]]} where {wanted} belongs'),))


def _check_version(document: source.YamlDocument,
                   schema: Mapping[str, Any]) -> None:
    known = schema.get('properties', {}).get('version', {}).get('const')
    if known is None:
        return
    message = ''
    path: source.Path = ()
    advice = f'this release reads version {known}'
    if not isinstance(document.value, dict):
        message = (f'is {_show(document.value)} where a mapping (key: value) '
                   'belongs')
        advice = ''
    elif 'version' not in document.value:
        message = 'has no version'
        advice = f'write "version: {known}" at the top'
    elif document.value['version'] is True or document.value[
            'version'] != known:
        message = (f'{_show(document.value["version"])} is not a version that '
                   'is understood')
        path = 'version',
    if message:
        raise errors.InputErrors((document.error(message, path, advice),))


# What is wrong, as (path, is it about the key, message, advice).
_Told = tuple[source.Path, bool, str, str]


def _explain(failure: Any) -> Iterator[_Told]:
    """A failure of jsonschema in words; a few where it stands for several."""
    keyword, rule = failure.validator, failure.validator_value
    value, path = failure.instance, tuple(failure.absolute_path)
    if 'propertyNames' in list(failure.schema_path)[-2:-1]:
        # The instance is the key itself.
        yield (*path, value), True, *_mismatch(failure)
    elif keyword == 'additionalProperties':
        known = failure.schema.get('properties', {})
        patterns = failure.schema.get('patternProperties', {})
        for key in value:
            if key not in known and not any(
                    re.search(pattern, key) for pattern in patterns):
                yield ((*path, key), True, f'{_show(key)} is not known here',
                       nearest(key, known))
    elif keyword == 'required':
        for key in rule:
            if key not in value:
                yield path, False, f'{key} is missing', ''
    elif keyword in ('anyOf', 'oneOf') and failure.context:
        yield from _nearest_branch(failure, path)
    elif keyword == 'dependentRequired':
        for key in rule.keys() & value.keys():
            for needed in rule[key]:
                if needed not in value:
                    yield ((*path, key), True,
                           f'{key} goes only together with {needed}', '')
    elif keyword in ('minProperties', 'minItems') and not value:
        yield path, False, 'is empty', ''
    else:
        yield path, False, *_mismatch(failure)


def nearest(word: str, known: Iterable[str]) -> str:
    """Advice that names what is nearest to an unknown word."""
    known = list(known)
    return spelling.did_you_mean(word, known) or (
        f'choose from {", ".join(known)}' if known else '')


def _mismatch(failure: Any, expected: str = '') -> tuple[str, str]:
    """What is wrong with one value, and advice."""
    value, rule = failure.instance, failure.validator_value
    expected = expected or failure.schema.get('title', '')
    advice = ''
    if failure.validator == 'enum':
        names = list(map(str, rule))
        expected = expected or f'one of {", ".join(names)}'
        if isinstance(value, str):
            advice = spelling.did_you_mean(value, names, 1)
    elif failure.validator == 'type':
        expected = expected or _types(rule)
        if rule == 'boolean' and str(value).lower() in _YES_NO:
            advice = f'write {_YES_NO[str(value).lower()]}'
    elif not expected:
        expected = _LIMITS.get(failure.validator, '').format(rule)
    if not expected:
        return str(failure.message), ''
    if value is None:
        return f'has no value, where {expected} belongs', advice
    return f'{_show(value)} is not {expected}', advice


def _types(rule: str | Sequence[str]) -> str:
    names = [rule] if isinstance(rule, str) else rule
    return ' or '.join(_TYPES.get(name, name) for name in names)


def _nearest_branch(failure: Any, path: source.Path) -> Iterator[_Told]:
    """Of several ways to write something, tell of the one that was meant.

    That is the one of the right type, with the fewest errors.
    """
    branches: dict[int, list[Any]] = {}
    for inner in failure.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    fitting = [
        inners for inners in branches.values()
        if not any(inner.validator == 'type' and len(inner.path) == 0
                   for inner in inners)]
    if any(inner.path or inner.validator in ('additionalProperties',
                                             'required')
           for inners in fitting for inner in inners):
        for inner in min(fitting, key=len):
            yield from _explain(inner)
        return
    expected = failure.schema.get('title') or ' or '.join(dict.fromkeys(
        branch.get('title') or _types(branch.get('type', 'something else'))
        for branch in failure.validator_value))
    nearest_failure = fitting[0][0] if fitting else failure
    message, advice = _mismatch(nearest_failure, expected)
    word = _YES_NO.get(str(failure.instance).lower())
    yield path, False, message, f'write {word}' if word else advice


def _show(value: Any) -> str:
    """A value in an error message, short."""
    if value is None:
        return 'nothing'
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, dict):
        return 'a mapping'
    if isinstance(value, list):
        return 'a list'
    text = str(value)
    if len(text) > _MAX_SHOWN:
        text = text[:_MAX_SHOWN] + '...'
    return repr(text) if isinstance(value, str) and not text.isidentifier() \
        else text
