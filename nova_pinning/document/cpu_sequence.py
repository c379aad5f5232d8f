# SPDX-License-Identifier: Apache-2.0
"""CPUs in an order that counts, as text: ``4-7,44-47``.

The order is that of the vCPUs which have them; a set of CPUs is a
``cpuset.CpuSet``.
"""

import functools

from nova_pinning import cpuset


@functools.lru_cache(maxsize=65536)
def text_of(cpus: tuple[int, ...]) -> str:
    """CPUs in their order, with ranges for those that follow each other."""
    ranges: list[list[int]] = []
    for cpu in cpus:
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1][1:] = [cpu]
        else:
            ranges.append([cpu])
    return ','.join('-'.join(map(str, bounds)) for bounds in ranges)


@functools.lru_cache(maxsize=65536)
def parse(text: str) -> tuple[int, ...]:
    """The CPUs of a text that has the form of one.

    :raises ValueError: if a range runs backwards, or a CPU or their number
        is out of bounds
    """
    numbers: list[int] = []
    for item in text.split(','):
        first, _dash, last = item.partition('-')
        cpus = range(int(first), int(last or first) + 1)
        if not cpus:
            raise ValueError(f'the range {item} runs backwards')
        if cpus[-1] > cpuset.MAX_CPU_ID:
            raise ValueError(f'{item}: CPU ids end at {cpuset.MAX_CPU_ID}')
        numbers += cpus
        if len(numbers) > cpuset.MAX_CPU_ID + 1:
            raise ValueError(f'more than {cpuset.MAX_CPU_ID + 1:,} CPUs')
    return tuple(numbers)
