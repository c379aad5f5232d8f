# SPDX-License-Identifier: Apache-2.0
"""Random cases, most of them close to the edge between fits and does not.

A case is made in two steps: a host, part of it in use, and then a guest whose
cells are cut to what some of the host's cells have left, a little more or a
little less. Each case depends on its seed and number only, so any one of
them can be made again without the others.
"""

from __future__ import annotations

import random
import typing as ty

from nova_pinning.tests.oracle import oracle_case

_T = ty.TypeVar('_T')
_Data = dict[str, ty.Any]

_SMALL, _LARGE, _ANY = -1, -2, -3
_KIB_2M, _KIB_1G = 2048, 1048576
_PHYSNETS = ('red', 'green', 'blue')
_VENDOR = '8086'

#: Permutations that the oracle may have to walk through: 4 of 8 cells.
_MAX_CELLS, _MAX_GUEST_CELLS = 8, 4


def generate(seed: int, number: int) -> oracle_case.Case:
    """Return case ``number`` of the series that ``seed`` stands for."""
    case = random_case(random.Random(f'{seed}/{number}'))
    Allotments(random.Random(f'{seed}/{number}/allotments')).mix(case.data)
    return case


def random_case(rng: random.Random) -> oracle_case.Case:
    """Return a case made from this source of randomness."""
    return oracle_case.Case(Generator(rng).case())


class Generator:
    """Makes one case; derive from it to have other cases.

    What is drawn from the source of randomness, and in which order, decides
    what each number of a series stands for, and figures are published by
    number.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def weighted(self, weights: dict[_T, float]) -> _T:
        return self.rng.choices(
            list(weights), weights=list(weights.values()))[0]

    def shuffled(self, items: ty.Iterable[_T]) -> list[_T]:
        items = list(items)
        self.rng.shuffle(items)
        return items

    def case(self) -> _Data:
        policy = self.weighted(
            {'dedicated': 5, 'mixed': 2.5, 'shared': 1.5, None: 1})
        host = self.host(policy)
        guest = self.guest(policy, host)
        limits = self.limits(policy)
        if limits and self.chance(0.25):
            self.networks(host, limits)
        pci = self.pci(host) if self.chance(0.3) else None
        odd = self.chance(0.03)
        if odd:
            self.spoil(host)
        return {'host': host, 'guest': guest, 'limits': limits, 'pci': pci,
                'pack': self.chance(0.4), 'odd': odd}

    # The host.

    def host(self, policy: str | None) -> list[_Data]:
        count = self.cell_count()
        threads = self.weighted({1: 3, 2: 6, 4: 2, 8: 1})
        kinds: dict[str | None, dict[str, float]] = {
            'dedicated': {'dedicated': 9, 'both': 6, 'legacy': 5, 'shared': 1},
            'mixed': {'both': 15, 'legacy': 4, 'dedicated': 1},
        }
        kind = self.weighted(
            kinds.get(policy, {'shared': 7, 'both': 7, 'legacy': 4,
                               'dedicated': 1}))
        sizes = self.core_counts(count, threads)
        cores = self.numbered(sizes, threads)
        ids = list(range(count))
        if self.chance(0.1):
            ids = sorted(self.rng.sample(range(max(20, 2 * count)), count))
        make_pages = self.page_maker()
        memory = self.memory_total()
        with_sockets = self.chance(0.85)
        cells_a_socket = self.rng.randint(1, count)
        host = []
        for number in range(count):
            if self.chance(0.3):
                memory = self.memory_total()
            data = self.cpus(kind, cores[number])
            used = self.rng.randrange(memory // 256) * 256
            data |= {
                'id': ids[number],
                'memory': memory,
                'memory_used': used if self.chance(0.6) else 0,
                'cpu_usage': self.rng.randrange(
                    3 * len(data['shared']) + 1) if self.chance(0.6) else 0,
                'pages': make_pages(memory),
                'socket': number // cells_a_socket if with_sockets else None,
                'network': None,
            }
            host.append(data)
        return self.shuffled(host) if self.chance(0.1) else host

    def cell_count(self) -> int:
        return self.weighted(
            {1: 2, 2: 5, 3: 4, 4: 4, 5: 2, 6: 2, 7: 1, _MAX_CELLS: 1})

    def core_counts(self, count: int, threads: int) -> list[int]:
        # Small cells keep cases near the edge and quick to make; big ones
        # come often enough to have sets that Python stores differently.
        most = max(2, min(16, (96 if count > 4 else 64) // threads // 2))
        size = self.rng.choice([2, 2, 3, 4, 4, 6, 8, 12, 16])
        if self.chance(0.5):
            return [min(size, most)] * count
        return [
            min(self.rng.choice([2, 3, 4, 5, 6, 8, 10, 16]), most)
            for _ in range(count)]

    def numbered(self, sizes: list[int],
                 threads: int) -> list[list[list[int]]]:
        """Number the CPUs of each core of each cell."""
        total = sum(sizes)
        order = [
            cell for cell, size in enumerate(sizes) for _ in range(size)]
        if self.chance(0.15):
            # Some boards deal out the cores to the cells in turns.
            order = self.shuffled(order)
        adjacent = self.chance(0.4)
        ids = list(range(total * threads))
        if self.chance(0.3):
            start = self.rng.choice([0, 1, 8, 120])
            ids = sorted(self.rng.sample(
                range(start, start + 3 * total * threads), total * threads))
        cores: list[list[list[int]]] = [[] for _ in sizes]
        for core, cell in enumerate(order):
            cores[cell].append([
                ids[core * threads + t if adjacent else t * total + core]
                for t in range(threads)])
        return cores

    def cpus(self, kind: str, cores: list[list[int]]) -> _Data:
        """Share out the CPUs of one cell and have some of them taken."""
        everything = [cpu for core in cores for cpu in core]
        if self.chance(0.25):
            # Some are kept for the host's own processes.
            kept = self.some_of(cores, 0.3)
            everything = [cpu for cpu in everything if cpu not in kept]
        shared: list[int] = []
        dedicated: list[int] = []
        if kind == 'dedicated':
            dedicated = everything
        elif kind == 'shared':
            shared = everything
        elif kind == 'legacy':
            shared = dedicated = everything
        elif self.chance(0.1):
            # Everything for one or the other in this cell.
            shared, dedicated = self.shuffled([everything, []])
        else:
            taken = self.some_of(cores, self.rng.choice([0.2, 0.3, 0.5]))
            shared = [cpu for cpu in everything if cpu in taken]
            dedicated = [cpu for cpu in everything if cpu not in taken]
        if kind == 'dedicated' and self.chance(0.08):
            dedicated = []
        known = {*shared, *dedicated}
        siblings = [
            [cpu for cpu in core if cpu in known] for core in cores]
        siblings = [core for core in siblings if core]
        if self.chance(0.4):
            siblings = self.shuffled(map(self.shuffled, siblings))
        pinned: set[int] = set()
        if self.chance(0.7):
            pinned = self.some_of(
                siblings, self.rng.choice([0.1, 0.3, 0.5, 0.8, 1.0]))
        return {
            'shared': shared,
            'dedicated': dedicated,
            'pinned': sorted(pinned & set(dedicated)),
            'siblings': siblings,
        }

    def some_of(self, cores: list[list[int]], share: float) -> set[int]:
        """Pick about this share of the CPUs, as whole cores or as threads."""
        style = self.weighted({'cores': 4, 'threads': 4, 'first': 1})
        if style == 'cores':
            return {cpu for core in cores if self.chance(share)
                    for cpu in core}
        if style == 'first':
            return {core[0] for core in cores if self.chance(share)}
        return {cpu for core in cores for cpu in core if self.chance(share)}

    def memory_total(self) -> int:
        return self.rng.choice([2, 3, 4, 4, 6, 8, 8, 16]) * 1024

    def page_maker(self) -> ty.Callable[[int], list[list[int]]]:
        """Decide on the kinds of pages of a host.

        :returns: a function that divides the memory of a cell into pools
        """
        style = self.weighted(
            {'none': 2, '4k': 4, '2m': 3, '1g': 3, 'only 2m': 0.5})
        uniform = self.chance(0.5)
        fixed = self.rng.random(), self.rng.random()

        def pools(memory: int) -> list[list[int]]:
            share_2m, share_1g = fixed if uniform else (
                self.rng.random(), self.rng.random())
            left = memory
            made = []
            if style == '1g' and (uniform or self.chance(0.85)):
                count = int(share_1g * left) // 1024
                made.append(self.pool(_KIB_1G, count))
                left -= count * 1024
            if style in ('2m', '1g', 'only 2m') and (
                    uniform or self.chance(0.85)):
                count = int(share_2m * left) // 512 * 256
                made.append(self.pool(_KIB_2M, count))
                left -= count * 2
            if style in ('4k', '2m', '1g'):
                made.append(self.pool(4, left * 256))
            made.reverse()
            return self.shuffled(made) if self.chance(0.05) else made

        return pools

    def pool(self, size: int, total: int) -> list[int]:
        used = reserved = 0
        step = max(1, 262144 // size)  # 256 MiB of pages, or one page
        if total and self.chance(0.5):
            used = self.rng.randrange(0, total + 1, step)
        if total and self.chance(0.15):
            reserved = self.rng.randrange(
                0, max(total - used, 1), max(1, step // 4))
        return [size, total, used, reserved]

    def spoil(self, host: list[_Data]) -> None:
        """Make the host odd in a way that a broken database could be."""
        cell = self.rng.choice(host)
        known = [*cell['dedicated'], *cell['shared']]
        ways: list[ty.Callable[[], ty.Any]] = [
            lambda: cell.update(siblings=[]),
            lambda: cell['siblings'].append([]),
            lambda: cell['siblings'].append([900, 901, 902]),
            lambda: cell['siblings'].append(known[:2]),
            lambda: cell['siblings'] and cell['siblings'].pop(),
            lambda: cell['siblings'] and cell['siblings'][0].append(950),
            lambda: cell.update(memory=-1),
            lambda: cell.update(memory_used=cell['memory'] + 512),
            lambda: cell.update(memory=0, memory_used=0),
            lambda: cell.update(pages=[[4, 0, 0, 0]]),
            lambda: cell.update(pages=[[4, 100, 200, 0]]),
            lambda: cell['pages'].append([4, 1048576, 0, 0]),
            lambda: cell.update(cpu_usage=-4),
            lambda: cell.update(dedicated=[], shared=[], siblings=[]),
        ]
        self.rng.choice(ways)()

    # The guest.

    def guest(self, policy: str | None, host: list[_Data]) -> _Data:
        most = min(_MAX_GUEST_CELLS, len(host))
        count = self.rng.choice([1, 2, 2, 3, 3, 4])
        # Rarely a guest has more cells than the host.
        count = count if self.chance(0.01) else min(count, most)
        pagesize = self.pagesize(host)
        # Give the guest cells sizes that some host cells have, which often
        # makes nova go back on its first choice.
        targets = self.rng.sample(host, min(count, len(host)))
        targets += self.rng.choices(host, k=count - len(targets))
        sizes = [self.cell_size(policy, cell) for cell in targets]
        memories = [self.cell_memory(policy, pagesize, cell)
                    for cell in targets]
        if self.chance(0.35):
            # Room enough in one respect, so that the other decides.
            memories = [max(memory // 1024 * 256, 256) for memory in memories]
        elif self.chance(0.2):
            sizes = [(dedicated and max(dedicated // 4, 1),
                      shared and max(shared // 4, 1))
                     for dedicated, shared in sizes]
        if self.chance(0.4):
            # Alike, as a flavor without hw:numa_cpus.N has them.
            sizes = [min(sizes)] * count
            memories = [min(memories)] * count
        elif self.chance(0.3):
            memories = [min(memories)] * count
        threads = emulator = None
        if policy in ('dedicated', 'mixed'):
            threads = self.thread_policy(host)
            emulator = self.weighted({None: 6, 'share': 1, 'isolate': 3})
        elif self.chance(0.1):
            emulator = 'share'
        return {
            'cells': self.guest_cells(sizes, memories),
            'policy': policy,
            'threads': threads,
            'emulator': emulator,
            'pagesize': pagesize,
        }

    def thread_policy(self, host: list[_Data]) -> str | None:
        # Most hosts with threads never take isolate, and none without
        # threads takes require: that is soon tested.
        weights = {None: 4.0, 'prefer': 2.0, 'require': 4.0, 'isolate': 3.0}
        if all(len(core) < 2 for cell in host for core in cell['siblings']):
            weights['require'] = 0.2
        elif any(set(cell['dedicated']) != set(cell['shared'])
                 for cell in host):
            weights['isolate'] = 0.3
        return self.weighted(weights)

    def guest_cells(self, sizes: list[tuple[int, int]],
                    memories: list[int]) -> list[_Data]:
        """Number the vCPUs; each size is (dedicated, shared)."""
        vcpus = list(range(sum(map(sum, sizes))))
        if self.chance(0.2):
            vcpus = self.shuffled(vcpus)
        cells = []
        for (dedicated, shared), memory in zip(sizes, memories):
            mine, vcpus = vcpus[:dedicated + shared], vcpus[
                dedicated + shared:]
            pinned = set(self.rng.sample(mine, dedicated))
            cells.append({
                'dedicated': [vcpu for vcpu in mine if vcpu in pinned],
                'shared': [vcpu for vcpu in mine if vcpu not in pinned],
                'memory': memory,
            })
        return cells

    def cell_size(self, policy: str | None,
                  cell: _Data) -> tuple[int, int]:
        """Return a number of dedicated and of shared vCPUs."""
        dedicated = shared = 0
        if policy in ('dedicated', 'mixed'):
            free = set(cell['dedicated']) - set(cell['pinned'])
            sizes = [len(free & set(core)) for core in cell['siblings']]
            dedicated = self.near(self.rng.choice([
                len(free), len(free), len(free) // 2,
                # What whole cores, or those with two free threads, have.
                sum(size for size in sizes if size > 1),
                len([size for size in sizes if size > 1]) * 2,
                sizes.count(max(sizes, default=0)),
            ]))
        if policy != 'dedicated':
            shared = self.near(self.rng.choice([
                len(cell['shared']), len(cell['shared']) // 2, 2]))
        if policy == 'mixed' and self.chance(0.15):
            dedicated, shared = self.rng.choice(
                [(dedicated, 0), (0, shared)])
        if dedicated + shared == 0:
            return (1, 0) if policy == 'dedicated' else (0, 1)
        return dedicated, shared

    def near(self, number: int) -> int:
        less = self.weighted({0: 8, 1: 4, 2: 3, 3: 1, -1: 0.3, -2: 0.1})
        return max(number - less, int(self.chance(0.8)))

    def pagesize(self, host: list[_Data]) -> int | None:
        sizes = sorted({pool[0] for cell in host for pool in cell['pages']})
        if not sizes:
            return self.weighted({None: 9, _SMALL: 0.3, _ANY: 0.3, 4: 0.4})
        return self.weighted({
            None: 5, _SMALL: 1.5, _LARGE: 2 if len(sizes) > 1 else 0.1,
            _ANY: 2, self.rng.choice(sizes): 2, 65536: 0.1})

    def cell_memory(self, policy: str | None, pagesize: int | None,
                    cell: _Data) -> int:
        """Return MiB: near what the cell has, in steps that pages allow."""
        free = {size: (total - used - reserved) * size // 1024
                for size, total, used, reserved in cell['pages']}
        there = cell['memory'] - cell['memory_used']
        step = 256
        if free:
            size = min(free)
            if pagesize == _LARGE or (pagesize == _ANY and self.chance(0.6)):
                size = self.rng.choice(list(free))
            elif pagesize in free:
                size = pagesize
            there = free[size]
            step = max(step, size // 1024)
        if policy not in ('dedicated', 'mixed') and not pagesize:
            there = max(there, cell['memory'] // 2)
        if self.chance(0.04):
            step = 3
        much = self.rng.choice([there, there // 2, there // 4, step])
        much = much // step * step
        much += step * self.weighted({0: 10, -1: 3, 1: 0.3})
        return max(much, step)

    # What else is asked of the host.

    def limits(self, policy: str | None) -> _Data | None:
        if self.chance(0.15):
            return None
        return {
            'cpu': self.weighted({16.0: 3, 4.0: 3, 2.0: 2, 1.5: 1, 1.0: 1,
                                  0.5: 0.2}),
            'ram': self.weighted({1.5: 3, 1.0: 2, 4.0: 2, 0.9: 0.3}),
            'network': None,
        }

    def networks(self, host: list[_Data], limits: _Data) -> None:
        all_cells = self.chance(0.8)
        density = self.rng.choice([0.1, 0.25, 0.5])
        for cell in host:
            if all_cells or self.chance(0.5):
                cell['network'] = {
                    'physnets': [name for name in _PHYSNETS
                                 if self.chance(density)],
                    'tunneled': self.chance(density),
                }
        if self.chance(0.9):
            limits['network'] = {
                'physnets': [name for name in (*_PHYSNETS, 'lone')
                             if self.chance(0.3)],
                'tunneled': self.chance(0.3),
            }

    def pci(self, host: list[_Data]) -> _Data:
        nodes = [cell['id'] for cell in host]
        with_providers = self.chance(0.2)
        pools = []
        for number in range(self.rng.randint(0, 5)):
            pool = {
                'vendor_id': _VENDOR,
                'product_id': self.rng.choice(['1520', '1520', '154d']),
                'numa_node': None if self.chance(0.2) else (
                    self.rng.choice(nodes)),
                'dev_type': self.weighted(
                    {'type-VF': 5, 'type-PCI': 3, 'type-PF': 1}),
                'count': self.rng.choice([1, 1, 2, 3]),
            }
            if self.chance(0.2):
                pool['physical_network'] = self.rng.choice(_PHYSNETS)
            if with_providers:
                pool['rp_uuid'] = oracle_case.provider_id(number)
            pools.append(pool)
        requests = []
        mapping: dict[str, list[str]] = {}
        for number in range(self.rng.choice([0, 1, 1, 1, 2, 3])):
            like = self.rng.choice(pools) if pools else {
                'product_id': '1520', 'dev_type': 'type-VF'}
            spec = {'vendor_id': _VENDOR, 'product_id': like['product_id']}
            if like['dev_type'] != 'type-VF' or self.chance(0.3):
                spec['dev_type'] = like['dev_type']
            count = self.rng.choice([1, 1, 1, 2])
            alias = None if self.chance(0.2) else 'nic'
            if with_providers and alias and 'rp_uuid' in like:
                for nth in range(count):
                    mapping[f'{oracle_case.request_id(number)}-{nth}'] = [
                        like['rp_uuid']]
            requests.append({
                'count': count,
                'spec': [spec],
                'alias': alias,
                'policy': self.weighted({
                    None: 1, 'legacy': 3, 'preferred': 2, 'required': 4,
                    'socket': 3}),
            })
        return {'pools': pools, 'requests': requests,
                'mapping': mapping or None}


class Allotments(Generator):
    """Devices that Placement took from several providers for one request.

    It draws for itself, so that the cases are otherwise those of the seed.
    """

    def mix(self, data: _Data) -> None:
        """Have some guests that ask for devices ask for several alike."""
        pci = data['pci']
        if not pci or not pci['requests'] or self.chance(0.7):
            return
        for number, pool in enumerate(pci['pools']):
            pool.update(
                product_id='1520', dev_type='type-VF',
                count=self.rng.choice([1, 2, 2, 3, 4]),
                rp_uuid=oracle_case.provider_id(number))
        left = self.shuffled(
            pool['rp_uuid'] for pool in pci['pools']
            for _ in range(pool['count']))
        pci['mapping'] = {}
        for number, request in enumerate(pci['requests']):
            request.update(count=self.rng.choice([1, 2, 2, 3]), alias='nic',
                           spec=[{'vendor_id': _VENDOR, 'product_id': '1520'}])
            # Placement offers no more than there is.
            for nth in range(request['count']
                             if request['count'] <= len(left) else 0):
                pci['mapping'][f'{oracle_case.request_id(number)}-{nth}'] = [
                    left.pop()]
