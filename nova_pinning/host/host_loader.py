# SPDX-License-Identifier: Apache-2.0


"""Hosts from files."""

import os
import pathlib

from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.host import host_model
from nova_pinning.host import hostfile

_SUFFIXES = ('.json', '.xml', '.yaml', '.yml')


def load(path: str | os.PathLike[str]) -> host_model.HostDescription:
    """Read a host file.

    :raises errors.InputError: if it cannot be read, or is wrong
    """
    text = source.read(path)
    if text.lstrip().startswith('<'):
        raise errors.InputError(
            'is XML, and no host file', errors.Location(os.fspath(path)),
            'run nova-pinning host discover on the host, or with --root on a '
            'copy of its /sys and /proc')
    return hostfile.read(source.parse(text, os.fspath(path)))


def load_plan(path: str | os.PathLike[str]) -> host_model.HostDescription:
    """Read a host file that has a plan.

    :raises errors.InputError: if it cannot be read, is wrong, or has none
    """
    planned = load(path)
    if planned.plan is None:
        raise errors.InputError(
            'there is no plan in it', planned.where,
            f'make one with: nova-pinning host plan {path} > plan.yaml')
    return planned


def load_directory(
    path: str | os.PathLike[str],
) -> tuple[host_model.HostDescription, ...]:
    """Read all host files of a directory, in the order of their names.

    Files are taken by their suffix; directories below are left out, and so
    are pipes, which would be waited for.

    :raises errors.InputErrors: all that is wrong with any of them
    :raises errors.InputError: if there are none
    """
    directory = pathlib.Path(path)
    try:
        files = sorted(file for file in directory.iterdir()
                       if file.suffix in _SUFFIXES
                       and not file.is_dir() and not file.is_fifo())
    except OSError as error:
        raise errors.InputError(
            f'cannot be read: {error.strerror}',
            errors.Location(str(path))) from None
    if not files:
        raise errors.InputError(
            'this directory has no host files',
            errors.Location(str(path)),
            f'their names end in {", ".join(_SUFFIXES)}')
    hosts: dict[str, host_model.HostDescription] = {}
    wrong: list[errors.InputError] = []
    for file in files:
        try:
            description = load(file)
        except errors.InputErrors as error:
            wrong += error.errors
        except errors.InputError as error:
            wrong.append(error)
        else:
            other = hosts.setdefault(description.name, description)
            if other is not description:
                wrong.append(errors.InputError(
                    f'there is a host {description.name} in '
                    f'{other.where.source} as well', description.where))
    if wrong:
        raise errors.InputErrors(tuple(wrong))
    return tuple(hosts.values())


def by_name(
    directory: str | os.PathLike[str] | None,
) -> dict[str, host_model.HostDescription]:
    """The same by the names of hosts; none without a directory."""
    if directory is None:
        return {}
    return {host.name: host for host in load_directory(directory)}
