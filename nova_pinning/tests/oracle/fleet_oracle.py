# SPDX-License-Identifier: Apache-2.0
"""Random cases of the kinds that nova's claim is apt to get wrong.

Uneven guests, mixed guests whose first vCPUs float, page sizes, isolated
emulator threads, PCI devices in several pools: more of each than the cases of
:mod:`~nova_pinning.tests.oracle.case_generator` have. Some cases are fleets:
    the same guest, and several hosts to choose from. They have more keys:

``others``
    the other hosts, a list of ``host``, and ``pools`` and ``mapping`` as
    below ``pci``; those two mean nothing where the guest asks for no devices.
    ``odd`` is of the first host only
``unshelved``
    whether the guest was on one of the hosts before, if it fits there
``hasty``
    whether any claim that has to try more than one way counts as too slow
``sees_devices``
    whether nova-compute minds devices that the guest does not ask for, as it
    does from 2026.2 on; null if the host may be of either kind. Of the first
    host; each of ``others`` has its own
"""

from __future__ import annotations

import operator
import random
import typing as ty

from nova_pinning import model
from nova_pinning.tests.oracle import case_generator
from nova_pinning.tests.oracle import oracle_case

_Data = dict[str, ty.Any]

#: vCPUs of guest cells, or their memory, in proportion.
_UNEVEN: tuple[tuple[int, ...], ...] = (
    (2, 6), (4, 12), (1, 2), (1, 3), (3, 4), (1, 1, 2), (2, 2, 6), (1, 2, 3),
    (1, 1, 1, 3), (1, 2, 3, 4))
_LIMITS = {'cpu': 16.0, 'ram': 1.5, 'network': None}
_VENDOR = '8086'


def fleet(seed: int, number: int) -> oracle_case.Case:
    """Return case ``number`` of the series that ``seed`` stands for."""
    data = _Fleets(random.Random(f'{seed}/{number}')).case()
    case_generator.Allotments(
        random.Random(f'{seed}/{number}/allotments')).mix(data)
    _OpenPages(random.Random(f'{seed}/{number}/pages')).mix(data)
    _Releases(random.Random(f'{seed}/{number}/releases')).mix(data)
    return oracle_case.Case(data)


def many_cells(seed: int, number: int) -> oracle_case.Case:
    """The same of guests with uneven cells on hosts with many cells."""
    return oracle_case.Case(
        _ManyCells(random.Random(f'{seed}/{number}/many')).case())


def hosts(case: oracle_case.Case) -> list[oracle_case.Case]:
    """Return a case for each host that the guest can go on."""
    # In nova-scheduler there always are limits.
    data = {**case.data, 'limits': case.data['limits'] or _LIMITS}
    cases = [oracle_case.Case(data)]
    for other in data.get('others', ()):
        pci = data['pci'] and {
            **data['pci'], 'pools': other['pools'],
            'mapping': other['mapping']}
        cases.append(oracle_case.Case({
            **data, 'host': other['host'], 'pci': pci, 'odd': False,
            'sees_devices': other.get('sees_devices', True), 'others': []}))
    return cases


class _OpenPages(case_generator.Generator):
    """Hosts on which a guest comes to different page sizes.

    It draws for itself, so that the cases are otherwise those of the seed.
    """

    def mix(self, data: _Data) -> None:
        """Make fleets of some single hosts, alike but for their pages."""
        guest = data['guest']
        if (len(guest['cells']) < 2 or data['others'] or data['odd']
                or self.chance(0.8)):
            return
        guest['pagesize'] = self.rng.choice([model.PAGES_LARGE,
                                             model.PAGES_ANY])
        for cell in guest['cells']:
            cell['memory'] = self.rng.choice([512, 1024, 2048])
        data['pci'] = None
        data['others'] = [
            {'host': self.paged(data['host']), 'pools': [], 'mapping': None}
            for _ in range(self.rng.randint(1, 3))]
        data['host'] = self.paged(data['host'])

    def paged(self, host: list[_Data]) -> list[_Data]:
        sizes = self.weighted({
            (4, 2048, 1048576): 3, (4, 2048): 1, (4, 1048576): 2, (4,): 2})
        cells = []
        for cell in host:
            free_mib = {4: self.rng.choice([1024, 4096]),
                        2048: self.rng.choice([0, 0, 1024, 2048]),
                        1048576: self.rng.choice([0, 0, 1024, 2048])}
            cells.append({
                **cell, 'memory': sum(map(free_mib.get, sizes)),
                'memory_used': 0, 'pages': [
                    [size, free_mib[size] * 1024 // size, 0, 0]
                    for size in sizes]})
        return cells


class _Releases(case_generator.Generator):
    """Hosts of several releases of nova, and guests that come back.

    It draws for itself, so that the cases are otherwise those of the seed.
    """

    def mix(self, data: _Data) -> None:
        """Say what each host is; some guests want no devices after all."""
        if data['pci'] and self.chance(0.4):
            data['pci'].update(requests=[], mapping=None)
            for other in data['others']:
                other['mapping'] = None
        for host in (data, *data['others']):
            host['sees_devices'] = self.weighted({True: 4, False: 4, None: 2})
        data['unshelved'] = self.chance(0.15)


class _Fleets(case_generator.Generator):
    """
    :cvar pci_share: of guests that want devices
    :cvar network_share: of guests that mind networks
    """

    pci_share = 0.35
    network_share = 0.15

    def case(self) -> _Data:
        policy = self.weighted(
            {'dedicated': 5, 'mixed': 4, 'shared': 0.7, None: 0.3})
        host = self.host(policy)
        guest = self.guest(policy, host)
        limits = self.limits(policy)
        with_networks = self.chance(self.network_share)
        if with_networks:
            self.networks(host, limits)
        pci = self.pci(host) if self.chance(self.pci_share) else None
        others = []
        if self.chance(0.08):
            for _ in range(self.rng.randint(1, 5)):
                others.append(self.other(policy, pci))
                if with_networks:
                    self.networks(others[-1]['host'], {})
        odd = self.chance(0.02)
        if odd:
            self.spoil(host)
        return {'host': host, 'guest': guest, 'limits': limits, 'pci': pci,
                'pack': self.chance(0.4), 'odd': odd, 'others': others,
                'hasty': self.chance(0.02)}

    def other(self, policy: str | None, pci: _Data | None) -> _Data:
        host = self.host(policy)
        made: _Data = {'host': host, 'pools': [], 'mapping': None}
        if pci:
            with_providers = any('rp_uuid' in pool for pool in pci['pools'])
            made['pools'] = self.pools(host, with_providers)
            made['mapping'] = self.mapping(made['pools'], pci['requests'])
        return made

    # The host.

    def cell_count(self) -> int:
        return self.weighted({1: 0.3, 2: 8, 3: 3, 4: 5, 5: 0.5, 6: 1, 7: 0.3,
                              8: 1.5})

    def core_counts(self, count: int, threads: int) -> list[int]:
        # CPUs enough for 2 and 6 vCPUs, and not so many that it takes long.
        cpus = [6, 8, 8, 12, 16, 16] if count <= 4 else [6, 8, 8, 12]
        if self.chance(0.5):
            return [max(self.rng.choice(cpus) // threads, 2)] * count
        return [max(self.rng.choice(cpus) // threads, 2)
                for _ in range(count)]

    def page_maker(self) -> ty.Callable[[int], list[list[int]]]:
        """As ever, but for cells without pages, where nova cannot count."""
        made = super().page_maker()
        return lambda memory: made(memory) or [[4, 256 * memory, 0, 0]]

    # The guest.

    def guest(self, policy: str | None, host: list[_Data]) -> _Data:
        guest = super().guest(policy, host)
        if self.chance(0.8) and len(host) > 1:
            shape = self.rng.choice([
                shape for shape in _UNEVEN if len(shape) <= len(host)])
            self.reshape(guest, policy, host, self.shuffled(shape))
        return guest

    def reshape(self, guest: _Data, policy: str | None, host: list[_Data],
                shape: list[int]) -> None:
        """Give the guest cells vCPUs or memory in the given proportion."""
        # Of two cells the roomier, or too few guests would fit.
        there, target = max(
            ((self.room(policy, cell), cell)
             for cell in self.rng.choices(host, k=2)),
            key=operator.itemgetter(0))
        style = self.weighted({'vcpus': 4, 'memory': 2, 'both': 2})
        even = [1] * len(shape)
        vcpus = even if style == 'memory' else shape
        memory = even if style == 'vcpus' else self.shuffled(shape)
        largest = max(there // max(vcpus), 1)
        each = self.rng.choice([1, largest, max(largest // 2, 1)])
        counts = [each * part for part in vcpus]
        sizes = [(count, 0) for count in counts]
        if policy == 'mixed':
            sizes = self.masked(counts)
        elif policy != 'dedicated':
            sizes = [(0, count) for count in counts]
        least = self.cell_memory(policy, guest['pagesize'], target)
        step = 1024 if least % 1024 == 0 else 256
        least = max(least // max(memory) // step * step, step)
        if self.chance(0.6):
            least = step
        guest['cells'] = self.guest_cells(
            sizes, [part * least for part in memory])

    @staticmethod
    def room(policy: str | None, cell: _Data) -> int:
        """Return how many vCPUs a cell has room for."""
        if policy in ('dedicated', 'mixed'):
            return len(set(cell['dedicated']) - set(cell['pinned']))
        return len(cell['shared'])

    def masked(self, counts: list[int]) -> list[tuple[int, int]]:
        """Return dedicated and shared vCPUs of each cell of a mixed guest.

        Mostly as cpu_dedicated_mask = ^0 has it: the first few vCPUs float,
        all of them in the first cell, and the rest is pinned.
        """
        style = self.weighted({'first': 6, 'each': 2, 'any': 1})
        sizes = []
        for number, count in enumerate(counts):
            shared = 0
            if style == 'any':
                shared = self.rng.randint(0, count)
            elif number == 0 or style == 'each':
                shared = min(self.rng.choice([1, 1, 1, 2]), max(count - 1, 1))
            sizes.append((count - shared, shared))
        return sizes

    def thread_policy(self, host: list[_Data]) -> str | None:
        # Guests that want no threads fit more often, and nova goes further
        # with those that fit.
        return None if self.chance(0.4) else super().thread_policy(host)

    # What else is asked of the host.

    def limits(self, policy: str | None) -> _Data:
        return super().limits(policy) or dict(_LIMITS)

    def pci(self, host: list[_Data]) -> _Data:
        pools = self.pools(host, with_providers=self.chance(0.2))
        requests = []
        for _ in range(self.weighted({1: 5, 2: 2, 3: 0.5})):
            like = self.rng.choice(pools)
            spec = {'vendor_id': _VENDOR, 'product_id': like['product_id'],
                    'dev_type': like['dev_type']}
            requests.append({
                'count': self.weighted({1: 6, 2: 3, 3: 1}),
                'spec': [spec],
                'alias': 'nic',
                'policy': self.weighted({
                    None: 1, 'required': 4, 'legacy': 3, 'preferred': 3,
                    'socket': 3}),
            })
        return {'pools': pools, 'requests': requests,
                'mapping': self.mapping(pools, requests)}

    def pools(self, host: list[_Data], with_providers: bool) -> list[_Data]:
        nodes = [cell['id'] for cell in host]
        pools = []
        for number in range(self.rng.randint(1, 6)):
            product, kind = self.weighted({
                ('1520', 'type-VF'): 6, ('154d', 'type-PCI'): 2})
            pool = {
                'vendor_id': _VENDOR,
                'product_id': product,
                'numa_node': None if self.chance(0.12) else (
                    self.rng.choice(nodes)),
                'dev_type': kind,
                'count': self.rng.choice([0, 1, 1, 2, 3]),
            }
            if with_providers:
                pool['rp_uuid'] = oracle_case.provider_id(number)
            pools.append(pool)
        return pools

    def mapping(self, pools: list[_Data],
                requests: list[_Data]) -> dict[str, list[str]] | None:
        """Allot each device to one of the pools that have the like.

        As Placement does, which knows nothing of NUMA.
        """
        mapping = {}
        for number, request in enumerate(requests):
            product = request['spec'][0]['product_id']
            for nth in range(request['count']):
                providers = [pool['rp_uuid'] for pool in pools
                             if pool['product_id'] == product and
                             pool['count'] and 'rp_uuid' in pool]
                if providers:
                    mapping[f'{oracle_case.request_id(number)}-{nth}'] = [
                        self.rng.choice(providers)]
        return mapping or None


class _ManyCells(_Fleets):
    """Guests of three or four cells that differ, on 8, 16 or 24 host cells.

    Devices are rare: nova copies all of them for each set of cells.
    """

    pci_share = network_share = 0.04

    def cell_count(self) -> int:
        return self.weighted({8: 10, 16: 2, 24: 0.4})

    def guest(self, policy: str | None, host: list[_Data]) -> _Data:
        guest = case_generator.Generator.guest(self, policy, host)
        shape = self.rng.choice(
            [shape for shape in _UNEVEN if len(shape) > 2])
        self.reshape(guest, policy, host, self.shuffled(shape))
        return guest
