#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check names: of classes, and those that docstrings mention.

No two public classes of nova_pinning may share a name. What a docstring has
in a role (:func:`fit`) or after :raises has to be a name that the project's
code has somewhere, and what it has after :param one that the function takes.
"""

import ast
import builtins
from collections.abc import Iterator
import pathlib
import re
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ('nova_pinning', 'benchmarks', 'demo', 'minicloud', 'tools')

ROLE = re.compile(r':(?:attr|class|data|exc|func|meth|mod):`~?([^`]+)`')
RAISES = re.compile(r'^ *:raises ([^:]+):', re.MULTILINE)
PARAMETER = re.compile(r'^ *:(?:param|[ic]var) ([^:]+):', re.MULTILINE)

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)


def words(tree: ast.AST) -> Iterator[str]:
    """Yield every name that code has, dotted ones piece by piece."""
    for node in ast.walk(tree):
        for field in ('id', 'attr', 'name', 'arg', 'asname', 'module'):
            if isinstance(word := getattr(node, field, None), str):
                yield from word.split('.')


def unknown(node: Any, text: str, known: set[str]) -> Iterator[str]:
    """Yield what a docstring mentions that is not there.

    :param node: what it is of
    :param known: all names of the project
    """
    named = [re.sub(r'\s+', '', one) for one in ROLE.findall(text)]
    for kinds in RAISES.findall(text):
        named += re.split(r',\s*', kinds)
    for name in named:
        if name.rpartition('.')[2] not in known:
            yield f'{name} does not exist'
    taken = known if not isinstance(node, FUNCTIONS) else {
        argument.arg for argument in ast.walk(node.args)
        if isinstance(argument, ast.arg)}
    for names in PARAMETER.findall(text):
        for name in re.split(r',\s*', names):
            if name.lstrip('*') not in taken:
                yield f'{node.name} has no {name}'


def main() -> int:
    trees = {
        path.relative_to(ROOT): ast.parse(path.read_bytes(), str(path))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob('*.py'))
        if 'tests' not in path.relative_to(ROOT).parts}
    known = set(dir(builtins))
    for path, tree in trees.items():
        known.update(path.with_suffix('').parts, words(tree))
    first: dict[str, pathlib.Path] = {}
    found = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if (isinstance(node, ast.ClassDef) and node.name[0] != '_'
                    and path.parts[0] == 'nova_pinning'
                    and first.setdefault(node.name, path) != path):
                found.append((path, node.lineno, f'{node.name} is a class of '
                              f'{first[node.name]} as well'))
            if isinstance(node, DOCUMENTED) and (
                    text := ast.get_docstring(node)):
                found += [(path, getattr(node, 'lineno', 1), wrong)
                          for wrong in unknown(node, text, known)]
    for path, line, wrong in found:
        print(f'{path}:{line}: {wrong}')
    return int(bool(found))


if __name__ == '__main__':
    sys.exit(main())
