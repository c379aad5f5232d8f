# SPDX-License-Identifier: Apache-2.0
"""The page of the fleet, made by ``fleet report`` in a process of its own.

Nova reads flavors with options that are one for a whole process, and a page
of thousands of hosts takes minutes; neither may disturb what counts and
serves. The page is made when somebody asks for it, and no more often than
needed.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from nova_pinning import errors
from nova_pinning.exporter import exporter_service
from nova_pinning.fleet import snapshot

_NICE = 19
#: A page says of when it is; one that is younger is shown again.
_LEAST_AGE_SECONDS = 120.0
_LIMIT_SECONDS = 1800.0
_LAST_CHARACTERS = 500


class FleetPageMaker:
    """Makes pages, one at a time.

    :param least_age_seconds: for how long a page is kept whatever changes
    """

    def __init__(self,
                 least_age_seconds: float = _LEAST_AGE_SECONDS) -> None:
        self._least_age_seconds = least_age_seconds
        self._made: tuple[float, str] | None = None

    def __call__(self, fleet: snapshot.Fleet) -> str:
        """The page of a fleet, an HTML document.

        :raises errors.InputError: if it could not be made
        """
        if self._made is None or (
                time.monotonic() - self._made[0] >= self._least_age_seconds):
            self._made = None
            self._made = time.monotonic(), _make(fleet)
        return self._made[1]


def _make(fleet: snapshot.Fleet) -> str:
    with tempfile.TemporaryDirectory(prefix='nova-pinning-page-') as name:
        directory = pathlib.Path(name)
        path, page = directory / 'fleet.json.zst', directory / 'page.html'
        path.write_bytes(exporter_service.packed_snapshot(fleet))
        where = errors.Location('nova-pinning fleet report')
        process = subprocess.Popen(
            [sys.executable, '-m', 'nova_pinning.cli.shell', 'fleet',
             'report', str(path), '-o', str(page)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors='replace',
            env={**os.environ, 'PYTHONWARNINGS': 'ignore'})
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        try:
            _out, said = process.communicate(timeout=_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise errors.InputError(
                f'took longer than {_LIMIT_SECONDS:.0f} seconds',
                where) from None
        if process.returncode:
            raise errors.InputError(
                said[-_LAST_CHARACTERS:].strip()
                or f'ended in status {process.returncode}', where)
        return page.read_text('utf-8')
