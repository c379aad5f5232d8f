#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Huge pages of this machine, reserved while a cloud is up.

Source: Documentation/admin-guide/mm/hugetlbpage.rst of the kernel.
"""

import pathlib

from minicloud import errors
from minicloud import files
from minicloud import service

POOL = pathlib.Path('/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages')


class HugePages(service.Part):
    """Pages of 2 MiB on top of those that the machine has reserved already."""

    name = 'huge-pages'
    pool = POOL

    @property
    def _record(self) -> pathlib.Path:
        return self.state.run / 'huge-pages'

    def up(self) -> None:
        if self._record.exists():
            return
        added = self.settings.huge_pages
        before = int(self.pool.read_text())
        # Recorded first: what ends between the two costs nobody a page.
        files.write(self._record, str(added))
        self.pool.write_text(str(before + added))
        got = int(self.pool.read_text()) - before
        if got < added:
            files.write(self._record, str(max(got, 0)))
            self.down()
            raise errors.MiniCloudError(
                f'of {added} huge pages only {got} could be reserved: too '
                f'little memory is free in one piece',
                'Give a smaller number with --huge-pages')

    def down(self) -> None:
        try:
            added = int(self._record.read_text())
        except FileNotFoundError:
            return
        before = int(self.pool.read_text())
        self.pool.write_text(str(max(0, before - added)))
        self._record.unlink()
