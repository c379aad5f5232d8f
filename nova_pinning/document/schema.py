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

"""Documents held against a JSON Schema, with errors that people can read.

A schema's ``title`` says in words what is expected, so that it reads well
after "is not": ``a number of vCPUs, 1 or more``. It is what an error says
where a value does not match.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import difflib
import functools
from importlib import resources
import itertools
import json
import re
from typing import Any
from typing import Protocol

from nova_pinning.document import source
from nova_pinning import errors

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
_YES_NO = {'yes': 'true', 'on': 'true', 'no': 'false', 'off': 'false'}


@functools.cache
def shipped(package: str, name: str) -> Mapping[str, Any]:
    """A JSON Schema that comes with a package.

    :param package: as its modules know it, ``__package__``
    :param name: of the file
    """
    text = resources.files(package).joinpath(name).read_text('utf-8')
    found: Mapping[str, Any] = json.loads(text)
    return found


_Path = source.Path


class Document(Protocol):
    """What there is of a document that was read, whatever it was."""

    @property
    def value(self) -> Any: ...

    @property
    def source(self) -> str: ...

    def error(self, message: str, path: _Path = (), advice: str = '',
              key: bool = False) -> errors.InputError: ...


def validate(document: Document, schema: Mapping[str, Any]) -> None:
    """Hold a document against a schema (draft 2020-12).

    If the schema has a constant ``version``, a document of another version
    is told so, and nothing else.

    :raises errors.InputErrors: with up to MAX_ERRORS errors, in the order in
        which they stand in the document
    """
    # It takes longer to import than most commands take otherwise.
    import jsonschema

    _check_version(document, schema)
    draft = jsonschema.Draft202012Validator
    # To JSON Schema 2.0 is a whole number, to the code that reads it a float.
    validator = jsonschema.validators.extend(
        draft, {'pattern': _check_pattern},
        type_checker=draft.TYPE_CHECKER.redefine(
            'integer', lambda _checker, value: type(value) is int))(schema)
    failures = itertools.islice(
        validator.iter_errors(document.value), _MAX_LOOKED_AT)
    found = list(dict.fromkeys(
        one for failure in failures for one in _explain(failure)))
    if found:
        told = [_at(document, *one) for one in found]
        told.sort(key=lambda one: (one.where.line, one.where.column)
                  if one.where else (0, 0))
        raise errors.InputErrors(
            tuple(told[:MAX_ERRORS]), has_more=len(told) > MAX_ERRORS)


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


# What is wrong, as (path, is it about the key, message, advice).
_Told = tuple[source.Path, bool, str, str]


def _at(document: Document, path: source.Path, is_key: bool,
        message: str, advice: str) -> errors.InputError:
    return document.error(message, path, advice, key=is_key)


def _check_version(document: Document,
                   schema: Mapping[str, Any]) -> None:
    known = schema.get('properties', {}).get('version', {}).get('const')
    if known is None:
        return
    advice = f'this release reads version {known}'
    if not isinstance(document.value, dict):
        raise errors.InputErrors((document.error(
            f'is {_show(document.value)} where a mapping (key: value) '
            'belongs'),))
    if 'version' not in document.value:
        raise errors.InputErrors((document.error(
            'has no version', advice=f'write "version: {known}" at the top'),))
    version = document.value['version']
    if version != known or isinstance(version, bool):
        raise errors.InputErrors((document.error(
            f'{_show(version)} is not a version that is understood',
            ('version',), advice),))


def _explain(failure: Any) -> Iterator[_Told]:
    """A failure of jsonschema in words; a few where it stands for several."""
    keyword = failure.validator
    path = tuple(failure.absolute_path)
    if 'propertyNames' in list(failure.schema_path)[-2:-1]:
        # The instance is the key itself.
        yield (*path, failure.instance), True, *_mismatch(failure)
    elif keyword == 'additionalProperties':
        yield from _unknown_keys(failure, path)
    elif keyword == 'required':
        for key in failure.validator_value:
            if key not in failure.instance:
                yield path, False, f'{key} is missing', ''
    elif keyword in ('anyOf', 'oneOf') and failure.context:
        yield from _nearest_branch(failure, path)
    elif keyword == 'dependentRequired':
        for key, needed in failure.validator_value.items():
            if key in failure.instance:
                for one in needed:
                    if one not in failure.instance:
                        yield ((*path, key), True,
                               f'{key} goes only together with {one}', '')
    elif keyword in ('minProperties', 'minItems') and not failure.instance:
        yield path, False, 'is empty', ''
    else:
        yield path, False, *_mismatch(failure)


def _unknown_keys(failure: Any, path: source.Path) -> Iterator[_Told]:
    known = failure.schema.get('properties', {})
    patterns = failure.schema.get('patternProperties', {})
    for key in failure.instance:
        if key in known or any(re.search(one, key) for one in patterns):
            continue
        yield ((*path, key), True, f'{_show(key)} is not known here',
               nearest(key, known))


def nearest(word: str, known: Iterable[str]) -> str:
    """Advice that names what is nearest to an unknown word."""
    known = list(known)
    near = difflib.get_close_matches(
        word.lower().replace('-', '_'), known, 3, 0.6)
    if near:
        return f'did you mean {" or ".join(near)}?'
    return f'known are {", ".join(known)}' if known else ''


def _mismatch(failure: Any) -> tuple[str, str]:
    """What is wrong with one value, and advice."""
    value, rule = failure.instance, failure.validator_value
    expected = failure.schema.get('title')
    advice = ''
    if failure.validator == 'enum':
        names = [str(one) for one in rule]
        expected = expected or f'one of {", ".join(names)}'
        if isinstance(value, str):
            near = difflib.get_close_matches(value.lower(), names, 1)
            advice = f'did you mean {near[0]}?' if near else ''
    elif failure.validator == 'type':
        expected = expected or _types(rule)
        if rule == 'boolean' and str(value).lower() in _YES_NO:
            advice = f'write {_YES_NO[str(value).lower()]}'
    elif not expected:
        expected = _limit(failure.validator, rule)
    if expected is None:
        return str(failure.message), ''
    if value is None:
        return f'has no value, where {expected} belongs', advice
    return f'{_show(value)} is not {expected}', advice


def _limit(keyword: str, rule: Any) -> str | None:
    words = {
        'const': f'{rule}',
        'minimum': f'{rule} or more',
        'maximum': f'{rule} or less',
        'exclusiveMinimum': f'more than {rule}',
        'minLength': 'text with something in it',
        'maxLength': f'text of at most {rule} characters',
        'maxItems': f'a list of at most {rule}',
        'maxProperties': f'a mapping of at most {rule} keys',
        'uniqueItems': 'a list in which nothing stands twice',
        'pattern': f'text of the form {rule}',
    }
    return words.get(keyword)


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
    depth = len(failure.absolute_path)
    fitting = [
        found for found in branches.values()
        if not any(inner.validator == 'type' and
                   len(inner.absolute_path) == depth for inner in found)]
    if fitting and _goes_deeper(fitting, depth):
        for inner in min(fitting, key=len):
            yield from _explain(inner)
        return
    expected = failure.schema.get('title') or ' or '.join(dict.fromkeys(
        branch.get('title') or _types(branch.get('type', 'something else'))
        for branch in failure.validator_value))
    advice = _YES_NO.get(str(failure.instance).lower(), '')
    if advice:
        advice = f'write {advice}'
    elif fitting:
        advice = _mismatch(fitting[0][0])[1]
    if failure.instance is None:
        yield path, False, f'has no value, where {expected} belongs', advice
    else:
        yield (path, False, f'{_show(failure.instance)} is not {expected}',
               advice)


def _goes_deeper(branches: Iterable[list[Any]], depth: int) -> bool:
    return any(len(inner.absolute_path) > depth
               or inner.validator in ('additionalProperties', 'required')
               for found in branches for inner in found)


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
