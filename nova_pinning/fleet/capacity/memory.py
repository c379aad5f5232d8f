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


"""The free memory of a host cell, by the pages that guests ask for."""

from collections.abc import Iterable
from collections.abc import Mapping

from nova_pinning import model

_KIB_PER_MIB = 1024
#: Stands for the pages of guests that ask for no size.
DEFAULT_PAGES = 0


def free_mib(view: model.HostCell) -> dict[int, int]:
    """Free memory in MiB by page size in KiB.

    What guests get that ask for no size is under DEFAULT_PAGES: the smallest
    pages, where the host tells of pages at all.
    """
    smallest = view.smallest_pages
    found = {}
    if smallest is None:
        found[DEFAULT_PAGES] = view.memory_mib - view.memory_used_mib
    for pool in view.pages:
        size = DEFAULT_PAGES if pool == smallest else pool.size_kib
        found[size] = pool.free_kib // _KIB_PER_MIB
    return {size: max(0, mib) for size, mib in found.items()}


def page_sizes(wanted: int | None, view: model.HostCell) -> Iterable[int]:
    """The page sizes, as above, that a guest may get on a cell.

    :param wanted: a guest cell's page_size_kib
    """
    smallest = view.smallest_pages
    if not wanted or wanted == model.PAGES_SMALL or smallest is None:
        return [DEFAULT_PAGES]
    large = [pool.size_kib for pool in view.pages if pool != smallest]
    if wanted == model.PAGES_LARGE:
        return large
    if wanted == model.PAGES_ANY:
        return [*large, DEFAULT_PAGES]
    if wanted == smallest.size_kib:
        return [DEFAULT_PAGES]
    return [wanted] if wanted in large else []


def cpus_with_memory(
    have_mib: Mapping[int, int],
    needs: Iterable[tuple[int, int, Iterable[int]]],
) -> int:
    """The most CPUs for which there is memory, as guests come.

    :param have_mib: as :func:`free_mib` has it
    :param needs: CPUs, MiB and allowed page sizes of guests
    """
    needs = tuple(needs)
    return sum(
        max((mib * cpus // memory_mib for cpus, memory_mib, sizes in needs
             if size in sizes), default=0)
        for size, mib in have_mib.items())
