# SPDX-License-Identifier: Apache-2.0
"""What has to be installed: Debian packages and a virtual environment."""

from collections.abc import Iterable
import hashlib
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tomllib

from minicloud import errors
from minicloud import files
from minicloud import process
from minicloud import settings

PROJECT = pathlib.Path(__file__).resolve().parent.parent

# A program or file that each package brings.
DEBIAN = {
    'mariadb-server': 'mariadbd',
    'rabbitmq-server': '/usr/lib/rabbitmq/bin/rabbitmq-server',
    'libvirt-daemon-system': 'libvirtd',
    'libvirt-clients': 'virsh',
    'qemu-system-x86': 'qemu-system-x86_64',
    'qemu-utils': 'qemu-img',
    'openssh-server': '/usr/sbin/sshd',
    'openssh-client': 'ssh',
    'util-linux': 'nsenter',
    'iproute2': 'ip',
    'gcc': 'gcc',
    'pkg-config': 'pkg-config',
    'libvirt-dev': '/usr/include/libvirt/libvirt.h',
}

# Users without whom a program does nothing that may be there without its
# package: libvirtd comes with libvirt-daemon as well. Any of them will do;
# other distributions call QEMU's qemu.
USERS = {'libvirt-daemon-system': {'libvirt-qemu', 'qemu'}}


def missing(wanted: Iterable[str] = tuple(DEBIAN)) -> list[str]:
    """Return the Debian packages that are not here with what they bring.

    :param wanted: keys of DEBIAN
    """
    users = {entry.pw_name for entry in pwd.getpwall()}
    return [package for package in wanted if not (
        _brings(DEBIAN[package])
        and (package not in USERS or users & USERS[package]))]


def _brings(program: str) -> bool:
    if program.startswith('/'):
        return os.path.exists(program)
    return shutil.which(program, path=_path()) is not None


def _path() -> str:
    return os.environ.get('PATH', '') + ':/usr/sbin:/sbin'


def install() -> None:
    """Install the Debian packages.

    :raises: MiniCloudError
    """
    packages = missing()
    if not packages:
        return
    if not shutil.which('apt-get'):
        raise errors.MiniCloudError(
            'this is not Debian or Ubuntu: there is no apt-get',
            'Install what is called there: ' + ', '.join(packages))
    # Nothing that gets installed is to be started: a cloud brings its own.
    environment = {**os.environ, 'DEBIAN_FRONTEND': 'noninteractive',
                   'RUNLEVEL': '1'}
    for arguments in (['update'], ['install', '--yes',
                                   '--no-install-recommends', *packages]):
        done = subprocess.run(['apt-get', *arguments], env=environment)
        if done.returncode:
            raise errors.MiniCloudError(
                f'apt-get {arguments[0]} failed',
                'See what it says above; only root can install packages')


def constraints(release: str) -> pathlib.Path:
    """Return the file with the versions of all packages of a release."""
    return PROJECT / 'upper-constraints' / f'{release}.txt'


def venv_is_ready(state: settings.State, release: str) -> bool:
    try:
        made_from = (state.venv(release) / 'made-from').read_text()
    except FileNotFoundError:
        return False
    # Its Python is a link to one of the machine's.
    return (made_from == _made_from(release)
            and os.path.exists(state.bin('python', release)))


def _made_from(release: str) -> str:
    with (PROJECT / 'pyproject.toml').open('rb') as file:
        project = json.dumps(tomllib.load(file)['project'])
    return hashlib.sha256(b'\0'.join([
        constraints(release).read_bytes(), project.encode(),
        (PROJECT / 'setup.cfg').read_bytes(),
        str(PROJECT).encode()])).hexdigest()


def make_venv(state: settings.State, release: str) -> None:
    """Make the virtual environment that a release's services run in.

    :raises: MiniCloudError
    """
    log = state.log / f'pip-{release}.log'
    venv = state.venv(release)
    shutil.rmtree(venv, ignore_errors=True)
    commands = [
        [sys.executable, '-m', 'venv', str(venv)],
        [state.bin('python', release), '-m', 'pip', 'install',
         '--disable-pip-version-check', '--constraint',
         str(constraints(release)), '--editable',
         f'{PROJECT}[minicloud]']]
    with log.open('w') as output:
        for command in commands:
            done = subprocess.run([*process.ENDS_WITH_US, *command],
                                  stdout=output, stderr=subprocess.STDOUT)
            if done.returncode:
                raise errors.MiniCloudError(
                    f'the virtual environment of {release} could not be '
                    f'made',
                    detail=process.tail(log))
    files.write(venv / 'made-from', _made_from(release))
