# SPDX-License-Identifier: Apache-2.0
"""A random storm over a cloud, and whether every guest is in its place.

The storm boots, resizes, migrates, evacuates, shelves and deletes guests of
both classes on hosts of both classes, most of which could take either, and
now and then a host changes its class. What nova did is read from its
database and from Placement, never from the code under test: the storm knows
by itself which guest belongs where.

What a seed settles is what the storm asks for. Nova's choice among equally
good hosts may differ between runs, and then so does what comes after.
"""

import collections
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import math
import random
import typing as ty

import fixtures
from nova import context as nova_context
from nova import objects
from nova.scheduler import manager as scheduler_manager

from demo import cloud
from demo import hosts
from nova_pinning import cpuset
from nova_pinning.model import hostclass
from nova_pinning.tests.functional import layers
from nova_pinning.tests.functional import operated_cloud

DEDICATED = layers.DEDICATED
SHARED = layers.SHARED

#: All of one size in memory: it is CPUs that the storm is about.
MEMORY_MIB = 512

_IMAGE_POLICY = 'image_hw_cpu_policy'
_PINNED = {'hw:cpu_policy': 'dedicated'}

OFFERS = {offer.name: offer for offer in (
    layers.Offer('enterprise', 2, 2, _PINNED),
    layers.Offer('enterprise-large', 4, 4, {
        **_PINNED, 'hw:cpu_thread_policy': 'require'}),
    layers.Offer('mixed', 3, 2, {
        'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '^0'}),
    layers.Offer('emulator-shared', 2, 2, {
        **_PINNED, 'hw:emulator_threads_policy': 'share'}),
    layers.Offer('pinned-by-image', 2, 2, image_asks=True),
    layers.Offer('plain', 2, 0),
    layers.Offer('plain-large', 4, 0),
    layers.Offer('floating', 2, 0, {'hw:cpu_policy': 'shared'}),
)}


def _shape(dedicated: str | None = None,
           shared: str | None = None,
           memory_gib: int = 32,
           ratio: float = 1.5) -> hosts.HostShape:
    """12 CPUs in 2 cells: 0-2 and 6-8, 3-5 and 9-11, with siblings 6 apart."""
    return hosts.HostShape(
        sockets=2, cores_per_cell=3, threads=2, memory_mib=memory_gib * 1024,
        cpu_allocation_ratio=ratio, dedicated=dedicated, shared=shared)


#: Name, class it starts with, and what it could take. Nova likes free memory
#: and free vCPUs, and takes those of the CPUs for emulator threads for as
#: good as any. Hosts that could take either class have plenty of both: left
#: to itself, nova goes there first.
HOSTS = {
    f'{name}-{number}': (host_class, shape)
    for name, host_class, shape in (
        ('pinned', DEDICATED, _shape(dedicated='0-11')),
        ('emulator', DEDICATED, _shape(
            dedicated='1-2,4-5,7-8,10-11', shared='0,3,6,9',
            memory_gib=64, ratio=6.0)),
        ('floating', SHARED, _shape(shared='0-11')),
        ('hybrid', SHARED, _shape(
            dedicated='1,4,7,10', shared='0,2,3,5,6,8,9,11',
            memory_gib=48)),
    ) for number in range(1, 4)}

Shapes = Mapping[str, tuple[hostclass.HostClass | None, hosts.HostShape]]

#: The same, but for hosts that are new: nothing marks them, and they have
#: neither CPU set. The first has dedicated guests from when it was marked.
UNMARKED_HOSTS = {
    name: wanted if name.startswith(('pinned', 'floating')) else (
        DEDICATED if name == 'emulator-1' else None, _shape(memory_gib=64))
    for name, wanted in HOSTS.items() if not name.endswith('-3')}

#: What counts as an operation, once for each guest.
OPERATIONS = ('boot', 'resize', 'migrate', 'migrate_live', 'evacuate',
              'shelve', 'unshelve')

#: What is drawn from, like cards: all of it, in a new order each time.
_DECK = {'boot': 12, 'boot_many': 2, 'resize': 11, 'migrate': 6,
         'migrate_live': 6, 'evacuate': 2, 'shelve': 5, 'unshelve': 5,
         'delete': 3, 'change_class': 2}
_CARDS = sum(_DECK.values())

#: More guests than this, and some are deleted.
_CROWD = 34

#: All that can be wrong with a request that is not the cloud's fault.
_EXPECTED = (
    'NoValidHost', 'No valid host',
    # A flavor that asks for something else than the guest's image.
    'not permitted to override CPU pinning policy',
    # A flavor that forbids the trait which the guest's image requires:
    # Placement refuses both of nova's queries for a pinned guest, and
    # nova-scheduler extends the answer that it did not get.
    "<class 'TypeError'>", "'NoneType' object is not iterable")

#: How often, in operations, all of nova's records are compared.
_AUDIT_EVERY = 20


#: Server, host and class of the server, and what to say about it.
Places = dict[tuple[str, str, hostclass.HostClass], str]


@dataclasses.dataclass(slots=True)
class Guest:
    """A server of the storm's.

    :param offer: the name of its flavor
    :param image_asks: whether its image asks for pinned CPUs
    """

    server: cloud.Server
    offer: str
    image_asks: bool

    @property
    def name(self) -> str:
        return self.server.name


class Storm(fixtures.Fixture):
    """Twelve hosts of a cloud, and what befalls them.

    :param layer: what keeps the classes apart
    :param seed: the same seed asks for the same things
    :param shapes: of all hosts, with the class that they are marked as
    """

    def __init__(self, layer: layers.Layer, seed: int,
                 shapes: Shapes = HOSTS) -> None:
        super().__init__()
        self._layer = layer
        self._shapes = shapes
        self.seed = seed
        self._random = random.Random(seed)
        #: What happened, a line an operation.
        self.story: list[str] = []
        #: Guests carried through each operation, and those refused.
        self.done: collections.Counter[str] = collections.Counter()
        self.refused: collections.Counter[str] = collections.Counter()
        #: Which class each host is of now, None for that of its guests, and
        #: the hosts that have changed.
        self.classes: dict[str, hostclass.HostClass | None] = {}
        self.changed: set[str] = set()
        #: Guests on hosts of the wrong class, those for whom the scheduler
        #: picked one, alternates included, and what else is wrong; each with
        #: the line of the story where it was noticed.
        self.misplaced: Places = {}
        self.misled: Places = {}
        self.wrong: list[str] = []
        #: Guests that hosts were chosen for after they had changed.
        self.chosen_after_change = 0
        self._guests: list[Guest] = []
        self._number = 0

    def _setUp(self) -> None:
        self.nova = self.useFixture(operated_cloud.Cloud(
            filters=self._layer.filters,
            filter_paths=self._layer.filter_paths,
            weigher_paths=('nova.scheduler.weights.all_weighers',)))
        self._layer.start(self.nova)
        for name, (host_class, shape) in self._shapes.items():
            self.nova.start_host(name, shape)
            if host_class:
                self._layer.mark(name, host_class)
            self.classes[name] = host_class
        self._flavors = {
            name: create_flavor(self.nova, self._layer, offer)
            for name, offer in OFFERS.items()}
        self._image = self.nova.create_image({
            'hw_cpu_policy': 'dedicated', **self._layer.image_properties()})
        self._watch_scheduler()

    def _watch_scheduler(self) -> None:
        """Look at every host that the scheduler picks, alternates too."""
        select = scheduler_manager.SchedulerManager.select_destinations

        def watched(manager: ty.Any, context: ty.Any, **asked: ty.Any
                    ) -> ty.Any:
            selected = select(manager, context, **asked)
            spec = asked['spec_obj']
            belongs = guest_class(spec.flavor.name, (
                spec.image.properties.get('hw_cpu_policy')
                if spec.image else None))
            for server, choices in zip(asked['instance_uuids'], selected):
                for choice in choices:
                    self._note_place(self.misled, server,
                                     choice.service_host, belongs)
                self.chosen_after_change += (
                    choices[0].service_host in self.changed)
            return selected

        self.useFixture(fixtures.MockPatchObject(
            scheduler_manager.SchedulerManager, 'select_destinations',
            watched))

    # The storm.

    def settle(self, offer: str, host: str) -> None:
        """Boot a guest on a host."""
        server = self.nova.boot('settler', self._flavors[offer], host=host)
        self._guests.append(Guest(server, offer, False))

    @property
    def operations(self) -> int:
        """How many guests were carried through an operation so far."""
        return sum(self.done[name] for name in OPERATIONS)

    def run(self, operations: int,
            until: Callable[[], bool] = lambda: False) -> None:
        """Go on until there were so many operations, or something is wrong.

        A guest on the wrong host does not end the storm: without any layer
        there are many.

        :param until: whether what the storm is to show was there
        """
        deck: list[str] = []
        next_audit = 0
        for _step in range(5 * operations):
            if self.operations >= operations or self.wrong or until():
                break
            if not deck:
                # A short storm has a bit of everything, too.
                deck = list(collections.Counter({
                    name: math.ceil(count * min(1, operations / _CARDS))
                    for name, count in _DECK.items()}).elements())
                self._random.shuffle(deck)
            name = deck.pop()
            if len(self._guests) > _CROWD:
                self._delete()
            getattr(self, f'_{name}')()
            self.check()
            if self.operations >= next_audit:
                next_audit = self.operations + _AUDIT_EVERY
                self.audit()
        else:
            self._note_wrong('most operations were refused')
        if not self.wrong:
            self.audit()

    def _tell(self, said: str) -> None:
        self.story.append(f'{len(self.story) + 1} {said}')

    def _settle(self, operation: str, guest: Guest, to: str = '',
                *arguments: ty.Any, **options: ty.Any) -> bool:
        """Ask for an operation on a guest, and note how it ended.

        :param to: what the story says about it
        :returns: whether it was carried out
        """
        before = guest.server
        try:
            guest.server = getattr(self.nova, operation)(
                before, *arguments, **options)
            ended = f'{guest.server.status} on {guest.server.host}'
            is_done = guest.server.status != 'ERROR' and (
                (guest.server.status, guest.server.host) !=
                (before.status, before.host))
            reason = guest.server.fault or ''
        except cloud.RefusedError as error:
            guest.server = self.nova.show(before)
            ended, is_done, reason = 'refused', False, str(error)
            if not any(word in reason for word in _EXPECTED):
                self._note_wrong(reason)
        self._tell(f'{operation} {guest.name}{to} on {before.host}: {ended}')
        (self.done if is_done else self.refused)[operation] += 1
        if guest.server.status == 'ERROR':
            self._bury(guest, reason)
        return is_done

    def _bury(self, guest: Guest, reason: str) -> None:
        """Delete a guest in ERROR, which only lack of room may be."""
        if not any(word in reason for word in _EXPECTED):
            self._note_wrong(f'{guest.name} is in ERROR: {reason}')
        self.nova.delete(guest.server)
        if guest in self._guests:
            self._guests.remove(guest)

    def _pick(self, *states: str) -> Guest | None:
        guests = [guest for guest in self._guests
                  if guest.server.status in states]
        return self._random.choice(guests) if guests else None

    def _boot(self, count: int = 1) -> None:
        offer = self._random.choice(list(OFFERS.values()))
        self._number += 1
        name = f'guest-{self._number}'
        image = self._image if offer.image_asks else None
        flavor = self._flavors[offer.name]
        if count == 1:
            booted = [self.nova.boot(name, flavor, image=image)]
        else:
            booted = self.nova.boot_many(name, flavor, count, image=image)
        for server in booted:
            guest = Guest(server, offer.name, offer.image_asks)
            self._tell(f'boot {server.name} as {offer.name}: '
                       f'{server.status} on {server.host}')
            if server.status == 'ACTIVE':
                self._guests.append(guest)
                self.done['boot'] += 1
            else:
                self.refused['boot'] += 1
                self._bury(guest, server.fault or '')

    def _boot_many(self) -> None:
        self._boot(self._random.randint(2, 3))

    def _delete(self) -> None:
        guest = self._pick('ACTIVE', 'SHELVED_OFFLOADED')
        if guest is not None:
            self._tell(f'delete {guest.name} on {guest.server.host}')
            self.nova.delete(guest.server)
            self._guests.remove(guest)

    def _resize(self) -> None:
        guest = self._pick('ACTIVE')
        if guest is not None:
            before = guest.offer
            offer = self._random.choice([
                name for name, offer in OFFERS.items() if name != before
                and (guest.image_asks or not offer.image_asks)])
            if self._move(guest, 'resize', f' from {before} to {offer}',
                          self._flavors[offer]):
                guest.offer = offer

    def _migrate(self) -> None:
        guest = self._pick('ACTIVE')
        if guest is not None:
            self._move(guest, 'migrate')

    def _move(self, guest: Guest, operation: str, to: str = '',
              *arguments: ty.Any) -> bool:
        """Start a move and then confirm it, or take it back.

        :returns: whether the guest has moved for good
        """
        is_kept = self._random.random() < 0.8
        if not self._settle(operation, guest, to, *arguments, confirm=False):
            return False
        self.check()
        self._settle('confirm' if is_kept else 'revert', guest)
        return is_kept

    def _migrate_live(self) -> None:
        guest = self._pick('ACTIVE')
        if guest is not None:
            self._settle('migrate_live', guest)

    def _shelve(self) -> None:
        guest = self._pick('ACTIVE')
        if guest is not None:
            self._settle('shelve', guest)

    def _unshelve(self) -> None:
        guest = self._pick('SHELVED_OFFLOADED')
        if guest is not None:
            self._settle('unshelve', guest)

    def _on(self, host: str) -> list[Guest]:
        return [guest for guest in self._guests if guest.server.host == host]

    def _evacuate(self) -> None:
        in_use = {guest.server.host for guest in self._guests
                  if guest.server.host}
        if not in_use:
            return
        host = self._random.choice(sorted(in_use))
        self._tell(f'{host} fails')
        self.nova.fail_host(host)
        for guest in self._on(host):
            self._settle('evacuate', guest)
            self.check()
        self.nova.recover_host(host)
        self._tell(f'{host} is back')

    def _change_class(self) -> None:
        """Empty a host and give it the other class."""
        count = collections.Counter(self.classes.values())
        hosts_to_spare = [name for name, host_class in self.classes.items()
                          if self._takes_either(name)
                          and count[host_class] > 4]
        if not hosts_to_spare:
            return
        self._random.shuffle(hosts_to_spare)
        host = min(hosts_to_spare, key=lambda name: len(self._on(name)))
        for guest in self._on(host):
            self._settle('migrate_live', guest)
        if self._on(host):
            return
        self.classes[host] = self.classes[host].other
        self._layer.mark(host, self.classes[host])
        self.changed.add(host)
        self.done['change_class'] += 1
        self._tell(f'{host} is {self.classes[host]} from now on')

    # What must hold.

    def check(self) -> None:
        """Every guest is on a host of its class, and alone on its CPUs."""
        owner: dict[tuple[str, int], str] = {}
        all_of_them = instances()
        for instance in all_of_them:
            host = instance.host
            if not host:
                continue
            image_policy = instance.system_metadata.get(_IMAGE_POLICY)
            offer = OFFERS[instance.flavor.name]
            self._note_place(self.misplaced, instance.uuid, host,
                             _class_of(instance), all_of_them)
            pins = pinned(instance)
            wanted = offer.pinned or (offer.vcpus if image_policy else 0)
            if len(pins) != wanted:
                self._note_wrong(f'{instance.display_name} has {len(pins)} '
                                 f'pinned vCPUs, not {wanted}')
            if not pins <= self._dedicated_cpus(host):
                self._note_wrong(f'{instance.display_name} is pinned to '
                                 f'{sorted(pins)} on {host}')
            for cpu in pins:
                other = owner.setdefault((host, cpu), instance.display_name)
                if other != instance.display_name:
                    self._note_wrong(f'{other} and {instance.display_name} '
                                     f'are both on CPU {cpu} of {host}')

    def audit(self) -> None:
        """Nova's and Placement's books agree about every host."""
        # What a guest had on a host that it moved to and left again, nova
        # gives back only now; every minute otherwise.
        self.nova.update_resources()
        pins: dict[str, set[int]] = {host: set() for host in self._shapes}
        shares: dict[str, dict[str, Mapping[str, int]]] = {
            host: {} for host in self._shapes}
        for instance in instances():
            if instance.host:
                pins[instance.host] |= pinned(instance)
                shares[instance.host][instance.uuid] = self._share(instance)
        for host in self._shapes:
            booked = {cpu for cell in self.nova.host_topology(host).cells
                      for cpu in cell.pinned_cpus}
            if booked != pins[host]:
                self._note_wrong(
                    f'{host} counts CPUs {sorted(booked)} as pinned, its '
                    f'guests have {sorted(pins[host])}')
            granted = {
                server: {name: amount for name, amount in amounts.items()
                         if name.endswith('CPU')}
                for server, amounts in self.nova.allocations(host).items()}
            if granted != shares[host]:
                self._note_wrong(f'Placement has granted {granted} on {host}, '
                                 f'its guests have {shares[host]}')

    def _note_place(self, places: Places, server: str, host: str,
                    belongs: hostclass.HostClass,
                    all_of_them: ty.Any = None) -> None:
        """Note a guest that is where it does not belong.

        :param all_of_them: all servers, None to ask nova if need be
        """
        host_class = self.classes[host]
        if host_class is None and any(
                instance.host == host and instance.uuid != server
                and _class_of(instance) is not belongs
                for instance in all_of_them or instances()):
            host_class = belongs.other
        if host_class not in (None, belongs):
            places.setdefault(
                (server, host, belongs),
                f'{len(self.story)} {belongs} server {server} on '
                f'{host_class} host {host}')

    def _share(self, instance: ty.Any) -> Mapping[str, int]:
        """What Placement should have granted a server."""
        _class, shape = self._shapes[instance.host]
        # Without CPU sets, all of a host's CPUs count as VCPU.
        pcpus = len(pinned(instance)) if shape.dedicated else 0
        share = {'PCPU': pcpus, 'VCPU': instance.flavor.vcpus - pcpus}
        return {name: amount for name, amount in share.items() if amount}

    def _takes_either(self, host: str) -> bool:
        """Whether a host has CPUs for guests of both classes."""
        _class, shape = self._shapes[host]
        return bool(shape.dedicated and shape.shared)

    def _dedicated_cpus(self, host: str) -> frozenset[int]:
        _class, shape = self._shapes[host]
        return frozenset(cpuset.CpuSet.parse(
            shape.dedicated or ('' if shape.shared else '0-11')))

    def _note_wrong(self, said: str) -> None:
        self.wrong.append(f'{len(self.story)} {said}')

    def report(self) -> Iterator[str]:
        """What happened, for whoever has to look into a failure."""
        yield f'seed {self.seed}, {type(self._layer).__name__}'
        yield f'done: {dict(self.done)}, refused: {dict(self.refused)}'
        yield from list(self.misplaced.values())[:20]
        yield from list(self.misled.values())[:20]
        yield from self.wrong[:20]
        yield 'The last operations:'
        yield from self.story[-40:]


def create_flavor(nova: operated_cloud.Cloud, layer: layers.Layer,
                  offer: layers.Offer) -> str:
    """Create the flavor of an offer as a layer needs it.

    :returns: its id
    """
    return nova.create_flavor(
        offer.name, offer.vcpus, MEMORY_MIB,
        {**offer.extra_specs, **layer.extra_specs(offer)})


def guest_class(flavor: str, image_policy: str | None) -> hostclass.HostClass:
    """Where a guest belongs; not by the code under test."""
    if image_policy == 'dedicated':
        return DEDICATED
    return OFFERS[flavor].host_class


def instances() -> ty.Any:
    """All servers that nova has in its database."""
    return objects.InstanceList.get_by_filters(
        nova_context.get_admin_context(), {'deleted': False},
        expected_attrs=['flavor', 'numa_topology', 'system_metadata'])


def pinned(instance: ty.Any) -> set[int]:
    """The host CPUs that an instance is pinned to."""
    topology = instance.numa_topology
    return {cpu for cell in (topology.cells if topology else ())
            for cpu in (cell.cpu_pinning or {}).values()}


def _class_of(instance: ty.Any) -> hostclass.HostClass:
    """Where a server belongs."""
    return guest_class(instance.flavor.name,
                       instance.system_metadata.get(_IMAGE_POLICY))
