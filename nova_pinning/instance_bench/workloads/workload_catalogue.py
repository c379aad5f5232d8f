# SPDX-License-Identifier: Apache-2.0
"""Workload files: those that ship with the project, and one's own.

doc/source/admin/bench-workloads.rst describes the format, workloads-1.json is
its JSON Schema.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import functools
from importlib import resources
import os
import re
import types
from typing import Any

from nova_pinning.document import decoder
from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.workloads import command
from nova_pinning.instance_bench.workloads import figures
from nova_pinning.instance_bench.workloads import programs

_SCHEMA = 'workloads-1.json'
# What shlex.quote leaves as it is: text to the shell, in quotes or not.
_PLAIN = re.compile(r'[\w@%+=:,./-]*', re.ASCII)


@functools.cache
def shipped() -> Mapping[str, bench_model.Workload]:
    """The workloads of the project, by name."""
    workloads: dict[str, bench_model.Workload] = {}
    directory = resources.files(__package__)
    for file in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith('.yaml'):
            workloads |= parse(file.read_text('utf-8'), file.name)
    return types.MappingProxyType(workloads)


def load(paths: Iterable[str | os.PathLike[str]],
         ) -> Mapping[str, bench_model.Workload]:
    """The workloads of the project and those of some files, by name.

    :raises errors.InputError: with all that is wrong with a file, up to
        schema.MAX_ERRORS at once (errors.InputErrors)
    """
    workloads = dict(shipped())
    for path in paths:
        workloads |= parse(source.read(path), os.fspath(path), workloads)
    return workloads


def parse(text: str, source_name: str,
          taken: Iterable[str] = ()) -> dict[str, bench_model.Workload]:
    """Workloads from text.

    :param source_name: what errors call it
    :param taken: names that others have
    :raises errors.InputErrors: as :func:`load` does
    """
    document = source.parse(text, source_name)
    schema.validate(document, schema.shipped(__package__, _SCHEMA))
    workloads = {name: _workload(name, value)
                 for name, value in document.value['workloads'].items()}
    schema.raise_all([
        *_taken(document, workloads, frozenset(taken)),
        *(problem for name, workload in workloads.items()
          for problem in _problems(document, name, workload))])
    return workloads


def parameter_problems(
    workload: bench_model.Workload, given: Mapping[str, Any]
) -> Iterator[tuple[str, bool, str, str]]:
    """What is wrong with parameters that are given to a workload.

    :returns: the name of a parameter, whether the name itself is wrong, what
        is wrong, and advice
    """
    for name, value in given.items():
        if name not in workload.parameters:
            yield (name, True, f'workload {workload.name} has no parameter '
                   f'{name}', schema.nearest(name, workload.parameters)
                   or 'it has none at all')
            continue
        message, advice = _mismatch(workload.parameters[name], value)
        if message:
            yield name, False, message, advice


def _mismatch(default: bench_model.Parameter,
              value: object) -> tuple[str, str]:
    """What is wrong with a value where the default is of some kind."""
    if command.reference(default) or isinstance(default, int):
        fits = type(value) is int or bool(command.reference(value))
        return ('', '') if fits else (f'{value!r} is not a whole number', '')
    if isinstance(default, float):
        fits = type(value) in (int, float)
        return ('', '') if fits else (f'{value!r} is not a number', '')
    if not isinstance(value, str):
        return f'{value!r} is not text', 'put it into quotes'
    return _shell_problem(value), ''


def _shell_problem(value: str) -> str:
    """Why the shell might take text for more than that, '' if it does not."""
    is_plain = _PLAIN.fullmatch(value) or command.reference(value)
    return '' if is_plain else (
        f'{value!r} has other characters than letters, digits and '
        '@%+=:,./_-; the command can have them')


def _workload(name: str, value: Mapping[str, Any]) -> bench_model.Workload:
    """A workload of a file; its keys are the attributes, but for the class."""
    fields = {key: item.strip() if key in ('about', 'command', 'peer')
              else item for key, item in value.items()}
    workload: bench_model.Workload = decoder.decode(
        bench_model.Workload, fields | {
            'name': name, 'workload_class': fields.pop('class'),
            'figures': [{'pattern': None, **figure}
                        for figure in value['figures']],
            'prepare': [text.strip() for text in value.get('prepare', ())]})
    return workload


def _taken(document: source.YamlDocument, workload_names: Iterable[str],
           taken: frozenset[str]) -> Iterator[errors.InputError]:
    for name in workload_names:
        if name in taken:
            yield document.error(
                f'there is a workload {name} already', ('workloads', name),
                'give it another name', key=True)


def _problems(document: source.YamlDocument, name: str,
              workload: bench_model.Workload) -> Iterator[errors.InputError]:
    """What a schema cannot tell."""
    path: source.Path = ('workloads', name)
    yield from _figure_problems(document, path, workload)
    yield from _own_parameter_problems(document, path, workload)
    for below, text in _commands(workload):
        allowed = _allowed(below[0], workload)
        for message, advice in _command_problems(text, allowed):
            yield document.error(message, (*path, *below), advice)
    if workload.source and (
            '/' in workload.source
            or not (programs.sources() / workload.source).is_file()):
        yield document.error(
            f'{workload.source!r} is not a program of this project',
            (*path, 'source'), 'a program of your own is named in the '
            'command, and has to be installed')


def _allowed(key: str | int,
             workload: bench_model.Workload) -> tuple[str, ...]:
    """What a command can name in braces."""
    if key == 'build':
        return ('programs',)
    if key == 'peer':
        return (*workload.parameters, *command.PEER_VALUES)
    return (*workload.parameters, *command.VALUES)


def _commands(
        workload: bench_model.Workload) -> Iterator[tuple[source.Path, str]]:
    yield ('command',), workload.command
    for index, text in enumerate(workload.prepare):
        yield ('prepare', index), text
    for key, text in (('peer', workload.peer), ('build', workload.build)):
        if text:
            yield (key,), text


def _command_problems(
        text: str, allowed: Iterable[str]) -> Iterator[tuple[str, str]]:
    try:
        named = command.names(text)
    except ValueError as error:
        yield str(error), 'a brace that stands for itself is written twice'
        return
    for name in sorted(named.difference(allowed)):
        yield f'{{{name}}} names nothing', schema.nearest(name, allowed)


def _figure_problems(
        document: source.YamlDocument, path: source.Path,
        workload: bench_model.Workload) -> Iterator[errors.InputError]:
    seen = set()
    for index, figure in enumerate(workload.figures):
        below = (*path, 'figures', index)
        if figure.name in seen:
            yield document.error(f'there is a figure {figure.name} already',
                                 (*below, 'name'))
        seen.add(figure.name)
        if figure.pattern is None:
            if figure.better is bench_model.Better.HIGHER:
                yield document.error(
                    'a figure without a pattern is the time taken, of which '
                    'less is better', (*below, 'better'),
                    'give it a pattern, or write better: lower')
            continue
        try:
            figures.compiled(figure.pattern)
        except ValueError as error:
            yield document.error(str(error), (*below, 'pattern'))


def _own_parameter_problems(document: source.YamlDocument, path: source.Path,
                            workload: bench_model.Workload,
                            ) -> Iterator[errors.InputError]:
    texts = ' '.join(text for _below, text in _commands(workload))
    for name, value in workload.parameters.items():
        below = (*path, 'parameters', name)
        if name in (*command.VALUES, *command.PEER_VALUES):
            yield document.error(
                f'{name} is a name that every command gets from its instance',
                below,
                'give it another name', key=True)
        elif f'{{{name}}}' not in texts:
            yield document.error(f'no command names {{{name}}}', below,
                                 key=True)
        if isinstance(value, str) and (problem := _shell_problem(value)):
            yield document.error(problem, below)
