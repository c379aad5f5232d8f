# SPDX-License-Identifier: Apache-2.0
"""Terraform's own language, as far as files of flavors use it.

Flavors whose values are written out are read, with locals, defaults of
variables, and merge(). Other values stay the expressions that they are, and
are no values of a flavor.
"""

from collections.abc import Mapping
import re
from typing import Any

from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning import extras
from nova_pinning.flavors import foreign

_ADVICE = "give what 'terraform show -json' prints of the plan or the state"
_NAME = re.compile(r'(?<!\$)\$\{(local|var)\.(\w+)\}')
_MERGE = re.compile(r'\$\{merge\((.*)\)\}', re.DOTALL)
_BRACKETS = re.compile(r'\$\{\((.*)\)\}', re.DOTALL)


def is_terraform(path: str) -> bool:
    """Whether a file is written in the language, by its name."""
    return path.endswith(('.tf', '.tofu'))


def parse(text: str, source_name: str) -> source.YamlDocument:
    """The flavors of a file, as its JSON form has them.

    :param source_name: what errors call it
    :raises errors.InputError: if it is not in the language, or makes several
        flavors of one
    """
    extras.need('a Terraform file', 'hcl2', 'lark')
    from hcl2.query import body
    import lark

    try:
        document = body.DocumentView.parse(text.rstrip() + '\n')
    except lark.exceptions.UnexpectedInput as error:
        raise errors.InputError('is not written in Terraform\'s language',
                                errors.Location(source_name, max(
                                    0, getattr(error, 'line', 0)))) from None
    names: dict[tuple[str, str], Any] = {}
    flavors: dict[str, dict[str, Any]] = {}
    lines: dict[source.Path, int] = {}
    for block in document.blocks():
        attributes = {one.name: one for one in block.attributes()}
        values = {name: _said(one.value_node)
                  for name, one in attributes.items()}
        match block.labels:
            case ['locals']:
                names |= {('local', name): value
                          for name, value in values.items()}
            case ['variable', name] if 'default' in values:
                names['var', name] = values['default']
            case ['resource', foreign.TERRAFORM_TYPE, label]:
                flavors[label] = values
                for name, one in attributes.items():
                    line = one.raw._meta.line
                    if name in ('count', 'for_each'):
                        raise errors.InputError(
                            'has a value that is not known before Terraform '
                            'runs', errors.Location(source_name, line),
                            _ADVICE)
                    path = 'resource', foreign.TERRAFORM_TYPE, label
                    lines.setdefault(path, line)
                    lines[*path, name] = line

    def line_of(path: source.Path) -> int:
        while path and path not in lines:
            path = path[:-1]
        return lines.get(path, 0)

    return source.YamlDocument(
        {'resource': {foreign.TERRAFORM_TYPE: {
            label: _resolved(values, names)
            for label, values in flavors.items()}}},
        source_name, lambda path, key: (line_of(path), 0))


def _said(node: Any) -> Any:
    """What stands somewhere, with expressions in ``${}``."""
    from hcl2 import utils

    return node.to_dict(utils.SerializationOptions(
        with_comments=False, explicit_blocks=False, preserve_heredocs=False,
        preserve_scientific_notation=False, strip_string_quotes=True))


def _resolved(said: Any, names: Mapping[tuple[str, str], Any]) -> Any:
    """The same with all values in it that are known.

    :param names: what locals and variables say
    """
    if isinstance(said, dict):
        return {_resolved(key, names): _resolved(value, names)
                for key, value in said.items()}
    if isinstance(said, list):
        return [_resolved(value, names) for value in said]
    if not isinstance(said, str):
        # Terraform has one kind of numbers.
        return int(said) if isinstance(said, float) and (
            said.is_integer()) else said

    def named(match: re.Match[str]) -> Any:
        # One that leads back to itself is not there on the way.
        others = dict(names)
        return (_resolved(others.pop(match.groups()), others)
                if match.groups() in names else match[0])

    def as_text(match: re.Match[str]) -> str:
        value = named(match)
        return str(value) if type(value) in (str, int, float) else match[0]

    if whole := _NAME.fullmatch(said):
        return named(whole)
    if whole := _BRACKETS.fullmatch(said):
        return _resolved(_listed(whole[1])[0], names) or said
    if whole := _MERGE.fullmatch(said):
        parts = [_resolved(part, names) for part in _listed(whole[1])]
        return ({key: value for part in parts for key, value in part.items()}
                if all(isinstance(part, dict) for part in parts) else said)
    return _NAME.sub(as_text, said)


def _listed(text: str) -> list[Any]:
    """What stands between commas; [None] if that cannot be told."""
    from hcl2.query import body
    import lark

    try:
        listed = body.DocumentView.parse(f'x = [{text}]\n').attribute('x')
    except lark.exceptions.UnexpectedInput:
        return [None]
    elements: list[Any] = _said(listed.value_node)
    return elements
