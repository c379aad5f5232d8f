# SPDX-License-Identifier: Apache-2.0
"""What has to be installed: Debian packages and a virtual environment."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

from minicloud import errors
from minicloud import files
from minicloud import process
from minicloud import settings

PROJECT = pathlib.Path(__file__).resolve().parent.parent

# A program that each package brings; libvirt-dev brings a pkg-config file.
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


def missing() -> list[str]:
    """Return the Debian packages that are not installed."""
    return [package for package, program in DEBIAN.items()
            if not (os.path.exists(program) if program.startswith('/')
                    else shutil.which(program, path=_path()))]


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


def venv_is_ready(state: settings.State) -> bool:
    try:
        made_from = (state.venv / 'made-from').read_text()
    except FileNotFoundError:
        return False
    # Its Python is a link to one of the machine's.
    return made_from == _made_from() and os.path.exists(state.bin('python'))


def _made_from() -> str:
    constraints = (PROJECT / 'upper-constraints' / '2026.2.txt').read_bytes()
    with (PROJECT / 'pyproject.toml').open('rb') as file:
        project = json.dumps(tomllib.load(file)['project'])
    return hashlib.sha256(b'\0'.join([
        constraints, project.encode(), str(PROJECT).encode()])).hexdigest()


def make_venv(state: settings.State) -> None:
    """Make the virtual environment that all OpenStack services run in.

    :raises: MiniCloudError
    """
    log = state.log / 'pip.log'
    shutil.rmtree(state.venv, ignore_errors=True)
    environment = dict(os.environ)
    if not (PROJECT / '.git').exists():
        # pbr cannot tell the version of an unpacked archive.
        environment.setdefault('PBR_VERSION', '0.0.0')
    commands = [
        [sys.executable, '-m', 'venv', str(state.venv)],
        [state.bin('python'), '-m', 'pip', 'install', '--quiet',
         '--disable-pip-version-check', '--constraint',
         str(PROJECT / 'upper-constraints' / '2026.2.txt'), '--editable',
         f'{PROJECT}[minicloud]']]
    with log.open('w') as output:
        for command in commands:
            done = subprocess.run([*process.ENDS_WITH_US, *command],
                                  stdout=output, env=environment,
                                  stderr=subprocess.STDOUT)
            if done.returncode:
                raise errors.MiniCloudError(
                    'the virtual environment could not be made',
                    detail=process.tail(log))
    files.write(state.venv / 'made-from', _made_from())


def libvirt_version() -> tuple[int, ...]:
    """Return the version of libvirtd, () if it does not say."""
    said = subprocess.run(
        ['libvirtd', '--version'], capture_output=True, text=True,
        env={**os.environ, 'PATH': _path()}).stdout
    return _version(said)


def oldest_libvirt(state: settings.State) -> tuple[int, ...]:
    """Return the oldest version of libvirt that this nova works with.

    Source: MIN_LIBVIRT_VERSION in nova.virt.libvirt.driver, which is read
    and not imported, since that takes seconds.
    """
    driver, = state.venv.glob(
        'lib/python3*/site-packages/nova/virt/libvirt/driver.py')
    match = re.search(r'^MIN_LIBVIRT_VERSION = \(([\d, ]+)\)',
                      driver.read_text(), re.MULTILINE)
    return _version(match[1].replace(', ', '.')) if match else ()


def _version(text: str) -> tuple[int, ...]:
    match = re.search(r'\d+(\.\d+)+', text)
    return tuple(map(int, match[0].split('.'))) if match else ()
