# SPDX-License-Identifier: Apache-2.0
"""Write upper-constraints anew, from the newest versions that fit.

    python3.11 tools/update_constraints.py
    python3.11 tools/update_constraints.py --release 2025.1
    python3.11 tools/update_constraints.py --release 2025.1 --python 3.9

Installs tox and, with it, each kind of environment in a scratch directory,
and pins what came out. With an older release of OpenStack, that release's own
published set is what nothing may be newer than, and its services are the
newest of the release. Run it with the oldest Python that all of the project
runs on, since newer ones install what suits older ones, and run the tests
before committing the result. An older Python, on which nova-scheduler alone is
supported, has a file of its own.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from nova_pinning.model import nova_release  # noqa: E402

TARGETS = ROOT / 'upper-constraints'
PUBLISHED = 'https://releases.openstack.org/constraints/upper/'

# One tox environment for each virtual environment that tox.ini makes.
ENVIRONMENTS = {'py3': 'shared', 'pep8': 'pep8', 'watcher': 'watcher',
                'browser': 'browser', 'release': 'release'}

# Left out: the project, and what comes with a virtual environment.
NOT_PINNED = ('nova-pinning', 'pip', 'setuptools', 'wheel')

# How far behind nova's the first numbers of the other services are.
BEHIND_NOVA = {
    'nova': 0, 'glance': 1, 'keystone': 4, 'openstack-placement': 18}

HEADER = """\
# Releases known to work together, for tox and for ./run.
# Written by tools/update_constraints.py; do not edit.
"""


def made(environment, *arguments):
    """Make a virtual environment.

    :param arguments: of pip install
    """
    venv.create(environment, with_pip=True)
    subprocess.run([environment / 'bin' / 'python', '-m', 'pip', 'install',
                    *arguments], check=True)
    return environment


def frozen(environment):
    python = environment / 'bin' / 'python'
    listing = subprocess.run(
        [python, '-m', 'pip', 'list', '--format=freeze'],
        check=True, stdout=subprocess.PIPE, text=True).stdout
    pins = dict(line.split('==', 1) for line in listing.splitlines())
    return {name: version for name, version in pins.items()
            if name.lower().replace('_', '-') not in NOT_PINNED}


def age(version):
    return [int(number) for number in re.findall('[0-9]+', version)]


def published(release, source):
    """What nothing of a release may be newer than, as constraints.

    :param source: a file or URL with the set that OpenStack published
    """
    if os.path.exists(source):
        text = pathlib.Path(source).read_text()
    else:
        with urllib.request.urlopen(source, timeout=60) as response:
            text = response.read().decode()
    return text + ''.join(
        f'\n{name}=={release.major - behind}.*'
        for name, behind in BEHIND_NOVA.items())


def main():
    parser = argparse.ArgumentParser(
        description='Write a file of upper-constraints anew.')
    parser.add_argument(
        '--release', default=nova_release.NEWEST.name, metavar='RELEASE',
        help='of OpenStack, such as 2025.1; the newest if it is not given')
    parser.add_argument(
        '--published', metavar='FILE',
        help="file or URL with an older release's published set, if not "
             f'{PUBLISHED}RELEASE')
    parser.add_argument(
        '--python', metavar='VERSION',
        help='on which only what nova-scheduler loads is supported, such as '
             '3.9')
    options = parser.parse_args()
    try:
        release = nova_release.of_name(options.release)
    except nova_release.UnknownRelease as error:
        parser.error(str(error))
    is_newest = release == nova_release.NEWEST
    kind = str(release)
    if options.python:
        kind += f'-py{options.python.replace(".", "")}'
    target = TARGETS / f'{kind}.txt'
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        limits = scratch / 'constraints.txt'
        limits.write_text('' if is_newest else published(
            release, options.published or f'{PUBLISHED}{release}'))
        # The style is checked, and Watcher run, with the newest release alone.
        kinds = dict(ENVIRONMENTS) if is_newest else {'py3': 'shared'}
        has_services = True
        if release.name == '2024.1' or options.python:
            # There the scheduler's part is all that is supported.
            kinds = {f'release-{kind}': f'release-{kind}'}
            has_services = False
        tools = made(scratch / 'tools', 'tox')
        work = scratch / 'tox'
        subprocess.run(
            [tools / 'bin' / 'python', '-m', 'tox', '--workdir', work,
             '--notest', '-e', ','.join(kinds)],
            check=True, cwd=ROOT,
            env=os.environ | {'TOX_CONSTRAINTS_FILE': str(limits)})
        environments = [
            tools, *(work / directory for directory in kinds.values())]
        if has_services:
            # This one tools/minicloud makes; it needs Debian's libvirt-dev.
            environments.append(made(
                scratch / 'minicloud', '--constraint', limits, '--editable',
                f'{ROOT}[minicloud]'))
        pins = {}
        for environment in environments:
            for name, version in frozen(environment).items():
                # Where two environments differ, one of them needs the older.
                pins[name] = min(version, pins.get(name, version), key=age)
    target.write_text(HEADER + ''.join(
        f'{name}=={pins[name]}\n' for name in sorted(pins, key=str.lower)))
    print(f'{len(pins)} pins written to {target.relative_to(ROOT)}')


if __name__ == '__main__':
    sys.exit(main())
