# SPDX-License-Identifier: Apache-2.0
"""What to install where a package is missing, or Python is too old.

The base installation is what nova-scheduler and nova-api need, on each Python
that nova runs on. All else comes with an extra of pyproject.toml, ``tools`` by
default here, and needs a newer Python.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
from typing import NoReturn

from nova_pinning import errors

_EXTRAS = {
    'hcl2': 'terraform',
    'jinja2': 'bench',
    'lark': 'terraform',
    'prometheus_client': 'metrics',
    'tornado': 'exporter',
    'watcher': 'watcher',
}

_COMMANDS_PYTHON = (3, 11)

# Drivers that a nova.conf may name, but no extra brings.
_DRIVERS = {
    'MySQLdb': 'mysqlclient',
    'psycopg2': 'psycopg2',
}


def install_advice(package: str) -> str:
    """What to do where a package is missing, with the line to run.

    :param package: as it is imported
    """
    if package in _DRIVERS:
        return f'run pip install {_DRIVERS[package]}'
    extra = _EXTRAS.get(package, 'tools')
    return f"run pip install 'nova-pinning[{extra}]'"


class OldPython(ModuleNotFoundError):
    """This Python will do for nova-scheduler and nova-api, but not here."""


def need_python() -> None:
    """Make sure that commands can be imported.

    :raises OldPython: if they cannot
    """
    if sys.version_info < _COMMANDS_PYTHON:
        raise OldPython


def need(what: str, *packages: str) -> None:
    """Make sure that packages are there, before something takes long.

    :param what: needs them, for the error: 'a chart'
    :param packages: as they are imported
    :raises errors.InputError: naming the first that is missing
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise errors.InputError(
                f'{what} needs the Python package {package}, which is not '
                'installed', None, install_advice(package))


def missing(error: BaseException) -> errors.InputError | None:
    """What to say of an error that comes of what is not installed.

    :returns: None if it is none, or about a module of our own, which no extra
        brings
    """
    if not isinstance(error, ModuleNotFoundError):
        return None
    if isinstance(error, OldPython):
        needed = '.'.join(map(str, _COMMANDS_PYTHON))
        return errors.InputError(
            f'commands need Python {needed} or newer, and this is '
            f'{platform.python_version()}', None,
            'install nova-pinning[tools] with a newer one, in a virtual '
            'environment of its own')
    package = (error.name or '').partition('.')[0]
    if package in ('', 'nova_pinning'):
        return None
    return errors.InputError(
        f'the Python package {package} is not installed', None,
        install_advice(package))


def end(error: ModuleNotFoundError) -> NoReturn:
    """Say so on the error output, and end the program as bad input does.

    :raises ModuleNotFoundError: if it is about a module of our own
    """
    text = missing(error)
    if text is None:
        raise error
    print(f'error: {text}', file=sys.stderr)
    raise SystemExit(2)
