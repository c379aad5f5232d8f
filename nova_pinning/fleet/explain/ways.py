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

"""Other flavors of which a guest would fit: one property changed, or smaller.

Each way is tried: nova's code reads the changed flavor and image, and the
guest is fitted on every host. Nothing is guessed.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import itertools

from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.flavors import model as flavor_model
from nova_pinning.fleet.explain import judge as fleet_judge
from nova_pinning.fleet import standing as fleet_standing
from nova_pinning.fleet import wanted as fleet_wanted
from nova_pinning import model

#: What makes a wanted guest of a flavor and the properties of an image.
Reader = Callable[[flavor_model.Flavor, Mapping[str, str]],
                  fleet_wanted.Wanted]

_MAX_CELLS = 8
_EXPLICIT_CELLS = ('numa_cpus.', 'numa_mem.')
#: Flavors of the fleet that are shown.
_MAX_FLAVORS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """A flavor and the properties of an image."""

    flavor: flavor_model.Flavor
    image: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def get(self, root: str) -> str | None:
        """A property by its name without ``hw:`` or ``hw_``."""
        found = self.flavor.extra_specs.get(f'hw:{root}')
        return self.image.get(f'hw_{root}') if found is None else found

    def having(self, root: str, value: str | None) -> 'Order':
        """With a property set wherever it was, else in the flavor.

        :param value: None to leave it out
        """
        specs, image = dict(self.flavor.extra_specs), dict(self.image)
        was_in_image = image.pop(f'hw_{root}', None) is not None
        was_in_flavor = specs.pop(f'hw:{root}', None) is not None
        if value is not None:
            if was_in_image:
                image[f'hw_{root}'] = value
            if was_in_flavor or not was_in_image:
                specs[f'hw:{root}'] = value
        return Order(
            dataclasses.replace(self.flavor, extra_specs=specs), image)


@dataclasses.dataclass(frozen=True, slots=True)
class Way:
    """A change of what is asked for that makes the guest fit.

    :param changes: extra specs and image properties to be set, by key; None
        for those to be left out
    :param text: what it is, for people
    :param wanted: what is asked for then
    :param hosts: names of those on which it fits, none of which it did before
    """

    text: str
    changes: Mapping[str, str | None]
    wanted: fleet_wanted.Wanted
    hosts: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Variant:
    """One property changed.

    :param knob: variants of one knob exclude each other
    """

    knob: str
    apply: Callable[[Order], Order]


class Ways:
    """Finds ways to make a guest fit on some of the hosts.

    :param order: what was asked for
    :param wanted: the same
    :param subjects: hosts that could take the guest but for room or for
        threads; the guest fits on none of them
    """

    def __init__(
        self, judge: fleet_judge.Judge, read: Reader, order: Order,
        wanted: fleet_wanted.Wanted,
        subjects: Sequence[fleet_standing.Standing],
    ) -> None:
        self._judge = judge
        self._read = read
        self._order = order
        self._wanted = wanted
        self._subjects = subjects
        # No other property does with fewer CPUs.
        need = sum(one.dedicated for one in wanted.topology.demands
                   ) if wanted.topology else 0
        self._roomy = [one for one in subjects if need <= sum(
            cell.free_count for cell in one.engine.cells)]

    def properties(self) -> list[Way]:
        """Ways to change properties, those that change least first.

        One property at a time; two where no single one helps; all that can
        be changed where no two do. Of the variants of a property only those
        that open more hosts than the ones before it.
        """
        if not self._roomy:
            return []
        variants = self._variants()
        for size in (1, 2):
            found = self._try(
                combination
                for combination in itertools.combinations(variants, size)
                if len({one.knob for one in combination}) == size)
            if found:
                return found
        loosest = {one.knob: one for one in variants}
        return self._try([tuple(loosest.values())]) if len(
            loosest) > 2 else []

    def cells(self, count: int) -> Way | None:
        """The guest spread over so many cells, if that helps."""
        return self._way(in_cells(count, self._order), self._roomy)

    def smaller(
        self, flavors: Iterable[flavor_model.Flavor],
    ) -> Iterator[Way]:
        """Smaller sizes: flavors of the fleet, then any size of this shape.

        :param flavors: of the fleet
        """
        asked = self._order.flavor
        fewer = sorted(
            (one for one in flavors if one.vcpus <= asked.vcpus
             and one.memory_mib <= asked.memory_mib
             and (one.vcpus, one.memory_mib)
             != (asked.vcpus, asked.memory_mib)),
            key=lambda one: (-one.vcpus, -one.memory_mib))
        shown: list[tuple[int, int]] = []
        for flavor in fewer:
            way = self._way(Order(flavor, self._order.image), self._subjects)
            if way is None or not self._is_alike(way.wanted):
                continue
            yield dataclasses.replace(
                way, changes={}, text=f'flavor {flavor.name} '
                f'({_size(flavor)})')
            shown.append((flavor.vcpus, flavor.memory_mib))
            if len(shown) == _MAX_FLAVORS:
                break
        largest = self._largest()
        if largest is not None and (
                largest.wanted.flavor.vcpus,
                largest.wanted.flavor.memory_mib) not in shown:
            yield largest

    def _is_alike(self, wanted: fleet_wanted.Wanted) -> bool:
        """Whether another guest is one that would be sold for this one."""
        aliases, asked = ({request.alias for request in one.devices}
                          for one in (wanted, self._wanted))
        return wanted.guest_class is self._wanted.guest_class and (
            aliases == asked) and (
            (wanted.topology is not None and wanted.topology.is_pinned)
            == (self._wanted.topology is not None
                and self._wanted.topology.is_pinned))

    def _largest(self) -> Way | None:
        """The largest size of this shape, with memory in proportion.

        What is smaller fits wherever the larger one does, so that halving
        the range finds it.
        """
        asked = self._order.flavor
        cells = len(self._wanted.topology.cells) if self._wanted.topology \
            else 1
        best = None
        low, high = 1, (asked.vcpus - 1) // cells
        while low <= high:
            middle = (low + high) // 2
            way = self._way(self._sized(middle * cells, cells),
                            self._subjects)
            if way is None:
                high = middle - 1
            else:
                best, low = way, middle + 1
        if best is None:
            return None
        size = _size(best.wanted.flavor)
        return dataclasses.replace(
            best, changes={}, text=f'{size}, the largest of this shape')

    def _sized(self, vcpus: int, cells: int) -> Order:
        asked = self._order.flavor
        unit_mib = cells * self._page_mib()
        memory_mib = max(
            unit_mib, asked.memory_mib * vcpus // asked.vcpus
            // unit_mib * unit_mib)
        return Order(dataclasses.replace(
            asked, vcpus=vcpus, memory_mib=memory_mib), self._order.image)

    def _page_mib(self) -> int:
        """What the memory of a cell has to be a multiple of, 1 for no page."""
        sizes = [cell.page_size_kib for cell in self._wanted.topology.cells
                 if cell.page_size_kib] if self._wanted.topology else []
        return max(1, max(sizes, default=0) // 1024)

    def _variants(self) -> list[_Variant]:
        """The properties that can be changed, and to what."""
        guest = self._wanted.topology
        if guest is None:
            return list(_device_variants(self._wanted))
        return [
            *_thread_variants(guest), *_emulator_variants(guest),
            *_device_variants(self._wanted), *self._cell_variants(guest),
            *_page_variants(guest)]

    def _cell_variants(self, guest: model.Guest) -> Iterator[_Variant]:
        most = max((len(one.host.cells) for one in self._subjects), default=1)
        asked = len(guest.cells)
        counts = [*range(asked + 1, min(most, _MAX_CELLS) + 1),
                  *range(asked - 1, 0, -1)]
        for count in counts:
            yield _Variant('cells', functools.partial(in_cells, count))

    def _try(
        self, combinations: Iterable[tuple[_Variant, ...]],
    ) -> list[Way]:
        found: list[Way] = []
        most: dict[tuple[str, ...], int] = {}
        for combination in combinations:
            order = self._order
            for variant in combination:
                order = variant.apply(order)
            way = self._way(order, self._roomy)
            knobs = tuple(one.knob for one in combination)
            if way is not None and len(way.hosts) > most.get(knobs, 0):
                most[knobs] = len(way.hosts)
                found.append(way)
        return found

    def _way(
        self, order: Order,
        subjects: Sequence[fleet_standing.Standing],
    ) -> Way | None:
        """A changed order with the hosts it fits on, None if there is none.

        :param subjects: where to try it
        """
        try:
            wanted = self._read(order.flavor, order.image)
        except errors.InputError:
            # Nova would refuse it: properties that go together.
            return None
        hosts = tuple(one.host.name for one in subjects
                      if self._judge.fits(one, wanted))
        if not hosts:
            return None
        changes = _changes(self._order, order)
        return Way(', '.join(
            f'without {key}' if value is None else f'{key}={value}'
            for key, value in changes.items()), changes, wanted, hosts)


def _thread_variants(guest: model.Guest) -> Iterator[_Variant]:
    policies = {
        model.ThreadPolicy.ISOLATE: ('require', 'prefer'),
        model.ThreadPolicy.REQUIRE: ('prefer',),
    }.get(guest.thread_policy, ())
    for policy in policies:
        yield _setting('cpu_thread_policy', policy)


def _emulator_variants(guest: model.Guest) -> Iterator[_Variant]:
    if guest.emulator_isolated:
        yield _setting('emulator_threads_policy', 'share')


def _device_variants(wanted: fleet_wanted.Wanted) -> Iterator[_Variant]:
    if any(one.policy != 'preferred' for one in wanted.devices):
        yield _setting('pci_numa_affinity_policy', 'preferred')


def _page_variants(guest: model.Guest) -> Iterator[_Variant]:
    sizes = {cell.page_size_kib for cell in guest.cells}
    if not any(sizes) or sizes == {model.PAGES_SMALL}:
        return
    if model.PAGES_ANY not in sizes:
        if model.PAGES_LARGE not in sizes:
            yield _setting('mem_page_size', 'large')
        yield _setting('mem_page_size', 'any')
    yield _setting('mem_page_size', 'small')


def _setting(root: str, value: str) -> _Variant:
    return _Variant(root, lambda order: order.having(root, value))


def in_cells(count: int, order: Order) -> Order:
    """The same order with so many equal cells."""
    for key in (*order.flavor.extra_specs, *order.image):
        root = key[3:]
        if key.startswith(('hw:', 'hw_')) and root.startswith(
                _EXPLICIT_CELLS):
            order = order.having(root, None)
    return order.having('numa_nodes', str(count))


def _changes(before: Order, after: Order) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for old, new in ((before.flavor.extra_specs, after.flavor.extra_specs),
                     (before.image, after.image)):
        found.update((key, new.get(key)) for key in (*new, *old)
                     if old.get(key) != new.get(key))
    return found


def _size(flavor: flavor_model.Flavor) -> str:
    vcpus = f'{flavor.vcpus} vCPU' + ('' if flavor.vcpus == 1 else 's')
    return f'{vcpus}, {quantities.shown_memory(flavor.memory_mib)}'
