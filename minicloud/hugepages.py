# SPDX-License-Identifier: Apache-2.0
"""Huge pages of this machine, reserved while a cloud is up.

Source: Documentation/admin-guide/mm/hugetlbpage.rst of the kernel.
"""

import pathlib

from minicloud import errors
from minicloud import files
from minicloud import service

BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')
POOL = pathlib.Path('/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages')


class HugePages(service.Part):
    """Pages of 2 MiB on top of those that the machine has reserved already."""

    name = 'huge-pages'
    pool = POOL
    boot_id = BOOT_ID

    @property
    def _record(self) -> pathlib.Path:
        return self.state.run / 'huge-pages'

    def up(self) -> None:
        if self._added():
            return
        added = self.settings.huge_pages
        before = int(self.pool.read_text())
        # Recorded first: what ends between the two costs nobody a page.
        self._note(added)
        self.pool.write_text(str(before + added))
        got = int(self.pool.read_text()) - before
        if got < added:
            self._note(max(got, 0))
            self.down()
            raise errors.MiniCloudError(
                f'of {added} huge pages only {got} could be reserved: too '
                f'little memory is free in one piece',
                'Give a smaller number with --huge-pages')

    def down(self) -> None:
        if added := self._added():
            before = int(self.pool.read_text())
            self.pool.write_text(str(max(0, before - added)))
        self._record.unlink(missing_ok=True)

    def _note(self, added: int) -> None:
        files.write(self._record, f'{added} {self.boot_id.read_text()}')

    def _added(self) -> int:
        """Return how many pages are there because of us.

        None since the machine was booted: those that it has then are its own.
        """
        try:
            added, boot_id = self._record.read_text().split()
        except FileNotFoundError:
            return 0
        return int(added) if boot_id == self.boot_id.read_text().strip() else 0
