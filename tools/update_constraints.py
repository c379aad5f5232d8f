# SPDX-License-Identifier: Apache-2.0
"""Write upper-constraints.txt anew, from the newest releases that fit.

    python3.11 tools/update_constraints.py

Installs tox and, with it, each kind of environment in a scratch directory
without constraints, and pins what came out. Run it with the oldest Python
that we support, since newer ones install what suits older ones, and run the
tests before committing the result.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / 'upper-constraints.txt'

# One tox environment for each virtual environment that tox.ini makes.
ENVIRONMENTS = {'py3': 'shared', 'pep8': 'pep8'}

# Left out: the project, and what comes with a virtual environment.
NOT_PINNED = ('nova-pinning', 'pip', 'setuptools', 'wheel')

HEADER = """\
# Releases known to work together, for tox and for ./run.
# Written by tools/update_constraints.py; do not edit.
"""


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


def main():
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        free = scratch / 'unconstrained.txt'
        free.touch()
        tools = scratch / 'tools'
        venv.create(tools, with_pip=True)
        subprocess.run(
            [tools / 'bin' / 'python', '-m', 'pip', 'install', 'tox'],
            check=True)
        work = scratch / 'tox'
        subprocess.run(
            [tools / 'bin' / 'python', '-m', 'tox', '--workdir', work,
             '--notest', '-e', ','.join(ENVIRONMENTS)],
            check=True, cwd=ROOT,
            env=os.environ | {'TOX_CONSTRAINTS_FILE': str(free)})
        # This one tools/minicloud makes; it needs Debian's libvirt-dev.
        cloud = scratch / 'minicloud'
        venv.create(cloud, with_pip=True)
        subprocess.run(
            [cloud / 'bin' / 'python', '-m', 'pip', 'install', '--editable',
             f'{ROOT}[minicloud]'], check=True)
        pins = {}
        for environment in (tools, cloud,
                            *(work / d for d in ENVIRONMENTS.values())):
            for name, version in frozen(environment).items():
                # Where two environments differ, one of them needs the older.
                pins[name] = min(version, pins.get(name, version), key=age)
    TARGET.write_text(HEADER + ''.join(
        f'{name}=={pins[name]}\n' for name in sorted(pins, key=str.lower)))
    print(f'{len(pins)} pins written to {TARGET.name}')


if __name__ == '__main__':
    sys.exit(main())
