# SPDX-License-Identifier: Apache-2.0
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

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.explain import host_verdicts
from nova_pinning.flavors import flavor_model
from nova_pinning import model

#: What makes a wanted guest of a flavor and the properties of an image.
Reader = Callable[[flavor_model.Flavor, Mapping[str, str]],
                  guest_request.GuestRequest]

_MAX_CELLS = 8
_EXPLICIT_CELLS = ('numa_cpus.', 'numa_mem.')
#: Flavors of the fleet that are shown.
_MAX_FLAVORS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class OrderedFlavor:
    """A flavor and the properties of an image."""

    flavor: flavor_model.Flavor
    image: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def get(self, root: str) -> str | None:
        """A property by its name without ``hw:`` or ``hw_``."""
        value = self.flavor.extra_specs.get(f'hw:{root}')
        return self.image.get(f'hw_{root}') if value is None else value

    def having(self, root: str, value: str | None) -> 'OrderedFlavor':
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
        return OrderedFlavor(
            dataclasses.replace(self.flavor, extra_specs=specs), image)


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorAlternative:
    """A change of what is asked for that makes the guest fit.

    :param changes: extra specs and image properties to be set, by key; None
        for those to be left out
    :param text: what it is, for people
    :param flavor: what is asked for then, as a flavor
    :param request: the same
    :param hosts: names of those on which it fits, none of which it did before
    """

    text: str
    changes: Mapping[str, str | None]
    flavor: flavor_model.Flavor
    request: guest_request.GuestRequest
    hosts: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Variant:
    """One property changed.

    :param property_name: variants of one property exclude each other
    """

    property_name: str
    apply: Callable[[OrderedFlavor], OrderedFlavor]


class AlternativeFinder:
    """Finds ways to make a guest fit on some of the hosts.

    :param order: what was asked for
    :param request: the same
    :param subjects: hosts that could take the guest but for room or for
        threads; the guest fits on none of them
    """

    def __init__(
        self,
        judge: host_verdicts.HostJudge,
        read: Reader,
        order: OrderedFlavor,
        request: guest_request.GuestRequest,
        subjects: Sequence[host_occupancy.HostOccupancy],
    ) -> None:
        self._judge = judge
        self._read = read
        self._order = order
        self._request = request
        self._subjects = subjects
        # No other property does with fewer CPUs.
        need = sum(demand.dedicated for demand in request.topology.demands
                   ) if request.topology else 0
        self._roomy = [subject for subject in subjects if need <= sum(
            cell.free_count for cell in subject.engine.cells)]

    def properties(self) -> list[FlavorAlternative]:
        """Ways to change properties, those that change least first.

        One property at a time; two where no single one helps; all that can
        be changed where no two do. Of the variants of a property only those
        that open more hosts than the ones before it.
        """
        if not self._roomy:
            return []
        variants = self._variants()
        for size in (1, 2):
            alternatives = self._try(
                combination
                for combination in itertools.combinations(variants, size)
                if len({change.property_name
                        for change in combination}) == size)
            if alternatives:
                return alternatives
        loosest = {variant.property_name: variant for variant in variants}
        return self._try([tuple(loosest.values())]) if len(
            loosest) > 2 else []

    def smaller(
        self, flavors: Iterable[flavor_model.Flavor],
    ) -> Iterator[FlavorAlternative]:
        """Smaller sizes: flavors of the fleet, then any size of this shape.

        :param flavors: of the fleet
        """
        ordered = self._order.flavor
        fewer = sorted(
            (flavor for flavor in flavors if flavor.vcpus <= ordered.vcpus
             and flavor.memory_mib <= ordered.memory_mib
             and (flavor.vcpus, flavor.memory_mib)
             != (ordered.vcpus, ordered.memory_mib)),
            key=lambda flavor: (-flavor.vcpus, -flavor.memory_mib))
        shown: list[tuple[int, int]] = []
        for flavor in fewer:
            alternative = self._alternative(
                OrderedFlavor(flavor, self._order.image), self._subjects)
            if alternative is None or not self._is_alike(alternative.request):
                continue
            yield dataclasses.replace(
                alternative, changes={}, text=f'flavor {flavor.name} '
                f'({_size(flavor)})')
            shown.append((flavor.vcpus, flavor.memory_mib))
            if len(shown) == _MAX_FLAVORS:
                break
        largest = self._largest()
        if largest is not None and (
                largest.request.vcpus,
                largest.request.memory_mib) not in shown:
            yield largest

    def _is_alike(self, other_request: guest_request.GuestRequest) -> bool:
        """Whether another guest is one that would be sold for this one."""
        aliases, other_aliases = (
            {device.alias for device in request.devices}
            for request in (self._request, other_request))
        is_pinned, is_other_pinned = (
            request.topology is not None and request.topology.is_pinned
            for request in (self._request, other_request))
        return (other_request.guest_class is self._request.guest_class
                and aliases == other_aliases and is_pinned == is_other_pinned)

    def _largest(self) -> FlavorAlternative | None:
        """The largest size of this shape, with memory in proportion.

        What is smaller fits wherever the larger one does, so that halving
        the range finds it.
        """
        ordered = self._order.flavor
        cells = len(self._request.topology.cells) if self._request.topology \
            else 1
        found: dict[int, FlavorAlternative | None] = {}

        def fits(share: int) -> bool:
            found[share] = self._alternative(
                self._sized(share * cells, cells), self._subjects)
            return found[share] is not None

        best = found.get(largest(fits, (ordered.vcpus - 1) // cells + 1))
        if best is None:
            return None
        return dataclasses.replace(
            best, changes={},
            text=f'{_size(best.flavor)}, the largest of this shape')

    def _sized(self, vcpus: int, cells: int) -> OrderedFlavor:
        ordered = self._order.flavor
        unit_mib = cells * self._page_mib()
        memory_mib = max(
            unit_mib, ordered.memory_mib * vcpus // ordered.vcpus
            // unit_mib * unit_mib)
        return OrderedFlavor(dataclasses.replace(
            ordered, vcpus=vcpus, memory_mib=memory_mib), self._order.image)

    def _page_mib(self) -> int:
        """What the memory of a cell has to be a multiple of, 1 for no page."""
        sizes = [cell.page_size_kib for cell in self._request.topology.cells
                 if cell.page_size_kib] if self._request.topology else []
        return max(1, max(sizes, default=0) // 1024)

    def _variants(self) -> list[_Variant]:
        """The properties that can be changed, and to what."""
        guest = self._request.topology
        if guest is None:
            return list(_device_variants(self._request))
        return [
            *_thread_variants(guest), *_emulator_variants(guest),
            *_device_variants(self._request), *self._cell_variants(guest),
            *_page_variants(guest)]

    def _cell_variants(self, guest: model.Guest) -> Iterator[_Variant]:
        most = max((len(subject.host.cells) for subject in self._subjects),
                   default=1)
        ordered = len(guest.cells)
        counts = [*range(ordered + 1, min(most, _MAX_CELLS) + 1),
                  *range(ordered - 1, 0, -1)]
        for count in counts:
            yield _Variant('cells', functools.partial(_in_cells, count))

    def _try(
        self, combinations: Iterable[tuple[_Variant, ...]],
    ) -> list[FlavorAlternative]:
        alternatives: list[FlavorAlternative] = []
        most: dict[tuple[str, ...], int] = {}
        for combination in combinations:
            order = self._order
            for variant in combination:
                order = variant.apply(order)
            alternative = self._alternative(order, self._roomy)
            knobs = tuple(change.property_name for change in combination)
            if alternative is not None and len(alternative.hosts) > most.get(
                    knobs, 0):
                most[knobs] = len(alternative.hosts)
                alternatives.append(alternative)
        return alternatives

    def _alternative(
        self, order: OrderedFlavor,
        subjects: Sequence[host_occupancy.HostOccupancy],
    ) -> FlavorAlternative | None:
        """A changed order with the hosts it fits on, None if there is none.

        :param subjects: where to try it
        """
        try:
            request = self._read(order.flavor, order.image)
        except errors.InputError:
            # Nova would refuse it: properties that go together.
            return None
        hosts = tuple(subject.host.name for subject in subjects
                      if self._judge.fits(subject, request))
        if not hosts:
            return None
        changes = _changes(self._order, order)
        return FlavorAlternative(', '.join(
            f'without {key}' if value is None else f'{key}={value}'
            for key, value in changes.items()),
            changes, order.flavor, request, hosts)


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


def _device_variants(
        request: guest_request.GuestRequest) -> Iterator[_Variant]:
    if any(device.policy != 'preferred' for device in request.devices):
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


def _in_cells(count: int, order: OrderedFlavor) -> OrderedFlavor:
    """The same order with so many equal cells."""
    for key in (*order.flavor.extra_specs, *order.image):
        root = key[3:]
        if key.startswith(('hw:', 'hw_')) and root.startswith(
                _EXPLICIT_CELLS):
            order = order.having(root, None)
    return order.having('numa_nodes', str(count))


def _changes(before: OrderedFlavor,
             after: OrderedFlavor) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for old, new in ((before.flavor.extra_specs, after.flavor.extra_specs),
                     (before.image, after.image)):
        changes.update((key, new.get(key)) for key in (*new, *old)
                       if old.get(key) != new.get(key))
    return changes


def _size(flavor: flavor_model.Flavor) -> str:
    vcpus = f'{flavor.vcpus} vCPU' + ('' if flavor.vcpus == 1 else 's')
    return f'{vcpus}, {quantities.shown_memory(flavor.memory_mib)}'


def largest(fits: Callable[[int], bool], too_large: int,
            hint: int = 0) -> int:
    """The largest number for which something holds, 0 if it does for none.

    :param too_large: one for which it does not
    :param hint: where it is likely to be
    """
    low, high = 0, max(1, too_large)
    for guess in (hint, hint + 1):
        if low < guess < high:
            if fits(guess):
                low = guess
            else:
                high = guess
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
