# SPDX-License-Identifier: Apache-2.0
"""Terraform's own language, as far as files of flavors use it.

python-hcl2 reads it; what is worked out here are the values that a file says
by itself: literals, local values and variables with a default, ``merge`` and
text that has these within it.
"""

from collections.abc import Mapping
import json
from typing import Any

from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning import extras
from nova_pinning.flavors import foreign

_ADVICE = "give what 'terraform show -json' prints of the plan or the state"
# What stands for the beginning of an interpolation or a directive, in JSON
# as well.
_ESCAPES = ('$${', '%%{')


def is_terraform(path: str) -> bool:
    """Whether a file is of this language, by its name."""
    return path.endswith(('.tf', '.tofu'))


def parse(text: str, source_name: str) -> source.YamlDocument:
    """The resources of a file, as JSON says the same.

    :param source_name: what errors call it
    :returns: its value has ``resource`` only, by type and label
    :raises errors.InputError: if it is not of this language
    """
    extras.need('a Terraform file', 'hcl2', 'lark')
    import hcl2
    import lark

    try:
        # It takes blocks for whole only if a line ends them.
        tree = hcl2.parses_to_tree(text.rstrip() + '\n')
    except lark.exceptions.UnexpectedInput as error:
        raise errors.InputError('is not written in Terraform\'s language',
                                errors.Location(source_name, max(
                                    0, getattr(error, 'line', 0)))) from None
    return _Reading(tree, source_name).document()


class _Reading:
    """A file's values, worked out when something asks for them."""

    def __init__(self, tree: Any, source_name: str) -> None:
        self._source = source_name
        self._lines: dict[source.Path, int] = {}
        # What stands where a name does, and the names being worked out.
        self._names: dict[tuple[str, str], Any] = {}
        self._open: list[tuple[str, str]] = []
        self._flavors: dict[str, Mapping[str, Any]] = {}
        body, = _children(tree, 'body')
        for block in _children(body, 'block'):
            labels = [_word(child) for child in block.children
                      if _kind(child) in ('identifier', 'string')]
            attributes = {
                _word(attribute.children[0]): attribute
                for inner in _children(block, 'body')
                for attribute in _children(inner, 'attribute')}
            match labels:
                case ['locals']:
                    self._names |= {('local', name): value
                                    for name, value in attributes.items()}
                case ['variable', name] if 'default' in attributes:
                    self._names['var', name] = attributes['default']
                case ['resource', foreign.TERRAFORM_TYPE, label]:
                    self._flavors[label] = attributes

    def document(self) -> source.YamlDocument:
        made = {label: self._flavor(label, attributes)
                for label, attributes in self._flavors.items()}
        return source.YamlDocument(
            {'resource': {foreign.TERRAFORM_TYPE: made}}, self._source,
            lambda path, key: (self._line(path), 0))

    def _flavor(self, label: str,
                attributes: Mapping[str, Any]) -> dict[str, Any]:
        path: source.Path = ('resource', foreign.TERRAFORM_TYPE, label)
        for name in ('count', 'for_each'):
            if name in attributes:
                raise self._unknown(attributes[name])
        values = {}
        for name, attribute in attributes.items():
            self._lines.setdefault(path, attribute.meta.line)
            self._lines[*path, name] = attribute.meta.line
            values[name] = self._value(attribute.children[-1])
        return values

    def _line(self, path: source.Path) -> int:
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 0)

    def _unknown(self, node: Any) -> errors.InputError:
        return errors.InputError(
            'has a value that is not known before Terraform runs',
            errors.Location(self._source, node.meta.line), _ADVICE)

    def _value(self, node: Any) -> Any:
        """What an expression comes to.

        :raises errors.InputError: if the file alone does not say
        """
        parts = [part for part in node.children if not _is_blank(part)]
        match _kind(node):
            case 'expr_term' if len(parts) == 1:
                return self._value(parts[0])
            case 'expr_term' if len(parts) == 3 and parts[0] == '(':
                return self._value(parts[1])
            case 'int_lit' | 'float_lit' | 'literal_value':
                return json.loads(parts[0])
            case 'unary_op' if parts[0] == '-':
                return -self._value(parts[1])
            case 'string':
                return ''.join(map(self._part, parts[1:-1]))
            case 'tuple':
                return [self._value(part) for part in parts
                        if not isinstance(part, str)]
            case 'object':
                return dict(map(self._element, _children(node, 'object_elem')))
            case 'get_attr_expr_term':
                return self._named(node, parts)
            case 'function_call' if _word(parts[0]) == 'merge':
                merged: dict[str, Any] = {}
                for arguments in _children(node, 'arguments'):
                    for part in _children(arguments, 'expr_term'):
                        value = self._value(part)
                        if not isinstance(value, dict):
                            raise self._unknown(part)
                        merged |= value
                return merged
        raise self._unknown(node)

    def _part(self, part: Any) -> str:
        inner = part.children[0]
        if not isinstance(inner, str):
            # Between the brackets of an interpolation.
            value = self._value(inner.children[1])
            if isinstance(value, bool) or not isinstance(
                    value, str | int | float):
                raise self._unknown(inner)
            return str(value)
        if inner[:3] in _ESCAPES:
            return str(inner)
        try:
            return str(json.loads(f'"{inner}"'))
        except ValueError:
            raise self._unknown(part) from None

    def _element(self, element: Any) -> tuple[str, Any]:
        key, value = (part for part in element.children
                      if not isinstance(part, str) and not _is_blank(part))
        inner = key.children[0]
        # A name without brackets is the text itself.
        if _kind(inner.children[0]) == 'identifier':
            return _word(inner.children[0]), self._value(value)
        return str(self._value(inner)), self._value(value)

    def _named(self, node: Any, parts: Any) -> Any:
        """The value of local.NAME or var.NAME."""
        whole, attribute = parts
        name = (_word(whole.children[0]) if _kind(whole.children[0]) ==
                'identifier' else '', _word(attribute.children[-1]))
        if name not in self._names or name in self._open:
            raise self._unknown(node)
        self._open.append(name)
        value = self._value(self._names[name].children[-1])
        self._open.pop()
        return value


def _kind(node: Any) -> str:
    return '' if isinstance(node, str) else str(node.data)


def _is_blank(node: Any) -> bool:
    return _kind(node) == 'new_line_or_comment'


def _children(node: Any, kind: str) -> list[Any]:
    return [child for child in node.children if _kind(child) == kind]


def _word(node: Any) -> str:
    """A name, or a text without anything to work out."""
    return ''.join(map(str, node.scan_values(lambda part: part != '"')))
