#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check names: of classes, and those that docstrings mention.

No two public classes of nova_pinning may share a name. What a docstring has
in a role (:func:`fit`), after :raises or after :param has to exist.
"""

import ast
import builtins
import collections
from collections.abc import Iterable
from collections.abc import Iterator
import functools
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


class Module:
    """A module, and what is bound in it.

    :ivar imported: what imported names stand for, such as
        'nova_pinning.model.Host'
    :ivar names: all others that are bound, at whatever depth
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path.relative_to(ROOT)
        parts = self.path.with_suffix('').parts
        self.name = '.'.join(parts).removesuffix('.__init__')
        self.tree = ast.parse(path.read_bytes(), str(path))
        self.imported: dict[str, str] = {}
        self.names: set[str] = set()
        self.classes: dict[str, ast.ClassDef] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    name = one.asname or one.name.partition('.')[0]
                    self.imported[name] = one.name if one.asname else name
            elif isinstance(node, ast.ImportFrom):
                self.imported.update({
                    one.asname or one.name: f'{node.module}.{one.name}'
                    for one in node.names})
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
            self.names |= bound(node)


def bound(node: Any) -> set[str]:
    """Return what a statement binds, and of a function what it takes."""
    if isinstance(node, FUNCTIONS):
        given = node.args
        return {node.name, *(argument.arg for argument in (
            *given.posonlyargs, *given.args, *given.kwonlyargs,
            *filter(None, (given.vararg, given.kwarg))))}
    if isinstance(node, ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return {node.id}
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return {node.attr}
    return set()


class Project:
    """All modules of the project, by name."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = {module.name: module for module in modules}
        self._called = collections.defaultdict(list)
        for name in self.modules:
            self._called[name.rpartition('.')[2]].append(name)
        # What is installed: nova, oslo_config and others.
        self._foreign = sys.stdlib_module_names | {
            target.partition('.')[0] for module in self.modules.values()
            for target in module.imported.values()} - set(PACKAGES)

    def has(self, module: Module, name: str) -> bool:
        """Tell whether a name is one that a reader of a module can find."""
        first, *rest = name.split('.')
        if first in module.imported:
            return self._exists('.'.join((module.imported[first], *rest)))
        if first in module.names:
            return all(one in module.names or one in self.members(
                module, first) for one in rest)
        if hasattr(builtins, first) or first in self._foreign:
            return True
        return self._exists(name) or any(
            self._exists('.'.join((other, *rest)))
            for other in self._called[first])

    def _exists(self, name: str) -> bool:
        """Tell whether there is a name, with all the modules it is in."""
        if name in self.modules or name.partition('.')[0] in self._foreign:
            return True
        parent, _, last = name.rpartition('.')
        if parent in self.modules:
            return last in (self.modules[parent].names |
                            self.modules[parent].imported.keys())
        parent, _, class_name = parent.rpartition('.')
        return parent in self.modules and last in self.members(
            self.modules[parent], class_name)

    @functools.cache
    def members(self, module: Module, class_name: str) -> set[str]:
        """Return what a class and its bases have, and what makes one."""
        if class_name not in module.classes:
            return set()
        node = module.classes[class_name]
        found = {one.attr for one in ast.walk(node)
                 if isinstance(one, ast.Attribute)
                 and isinstance(one.ctx, ast.Store)}
        for statement in node.body:
            if not isinstance(statement, FUNCTIONS):
                found |= set().union(*map(bound, ast.walk(statement)))
            elif statement.name == '__init__':
                found |= bound(statement)
            else:
                found.add(statement.name)
        for base in map(ast.unparse, node.bases):
            first, _, rest = base.partition('.')
            if not rest and base != class_name:
                found |= self.members(module, base)
            other = self.modules.get(module.imported.get(first, ''))
            if other is not None:
                found |= self.members(other, rest)
        return found


def documented(tree: ast.Module) -> Iterator[tuple[Any, str]]:
    """Yield all that has a docstring, with it."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node, text


def unknown(project: Project, module: Module) -> Iterator[tuple[int, str]]:
    """Yield what docstrings mention that is not there, with the line."""
    for node, text in documented(module.tree):
        line = getattr(node, 'lineno', 1)
        named = [re.sub(r'\s+', '', one) for one in ROLE.findall(text)]
        for kinds in RAISES.findall(text):
            named += re.split(r',\s*', kinds)
        for name in named:
            if not project.has(module, name):
                yield line, f'{name} does not exist'
        taken = (project.members(module, node.name)
                 if isinstance(node, ast.ClassDef) else bound(node))
        for names in PARAMETER.findall(text):
            for name in re.split(r',\s*', names):
                if name.lstrip('*') not in taken:
                    yield line, f'{node.name} has no {name}'


def twice(modules: Iterable[Module]) -> Iterator[tuple[Module, int, str]]:
    """Yield the public classes that are not the first of their name."""
    first: dict[str, pathlib.Path] = {}
    for module in modules:
        for name, node in module.classes.items():
            if not name.startswith('_') and (
                    first.setdefault(name, module.path) != module.path):
                yield module, node.lineno, (
                    f'{name} is a class of {first[name]} as well')


def main() -> int:
    project = Project(map(Module, sorted(
        path for package in PACKAGES
        for path in (ROOT / package).rglob('*.py')
        if 'tests' not in path.relative_to(ROOT).parts)))
    found = list(twice(
        module for module in project.modules.values()
        if module.path.parts[0] == 'nova_pinning'))
    found += [(module, line, text) for module in project.modules.values()
              for line, text in unknown(project, module)]
    for module, line, text in found:
        print(f'{module.path}:{line}: {text}')
    return int(bool(found))


if __name__ == '__main__':
    sys.exit(main())
