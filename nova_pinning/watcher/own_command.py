# SPDX-License-Identifier: Apache-2.0
"""nova-pinning, run in a process of its own.

Nova cannot be imported where Watcher is: both register options of the same
names with oslo.config, with other definitions. Besides, a solver that runs for
a minute is better kept out of a service that has threads to serve.
"""

from collections.abc import Collection
import os
import subprocess
import sys

from nova_pinning import errors

#: Of a program that did not end as it should: the end of what it said.
_LAST_CHARACTERS = 2000


def run(*arguments: str, statuses: Collection[int] = (0,)) -> str:
    """Run a command.

    :param arguments: such as 'fleet', 'import', 'nova'
    :param statuses: with which it may end
    :returns: what it said on its error output, such as warnings
    :raises errors.InputError: with what it said, if it ended otherwise
    """
    done = subprocess.run(
        [sys.executable, '-m', 'nova_pinning.cli.shell', *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, errors='replace',
        # Eventlet warns about itself, and whoever imports it.
        env={**os.environ, 'PYTHONWARNINGS': 'ignore'})
    said = done.stderr.strip()
    if done.returncode not in statuses:
        raise errors.InputError(
            said.removeprefix('error: ')[-_LAST_CHARACTERS:]
            or f'ended with status {done.returncode}',
            errors.Location(' '.join(('nova-pinning', *arguments[:2]))))
    return said
