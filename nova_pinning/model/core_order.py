# SPDX-License-Identifier: Apache-2.0
"""In which order nova-compute reports the cores of a cell."""

from collections.abc import Collection


def as_reported(
    cores: Collection[tuple[int, ...]],
) -> tuple[tuple[int, ...], ...]:
    """The cores of a cell as nova's libvirt driver lists them.

    Nova gives out cores in this order. ``_get_host_numa_topology`` means to
    sort them by their numbers, but what it sorts are sets, and of two sets
    without a common CPU neither is the smaller one. So they stay as they come
    out of the set that they were collected in: by their hashes, which for
    numbers are the same in every process.

    :param cores: the online CPUs of each core, also those that no guest gets:
        nova takes these out afterwards
    :returns: the same cores
    """
    core_of = {tuple(set(core)): core for core in cores}
    siblings_of = {
        cpu: siblings for siblings, core in core_of.items() for cpu in core}
    # This set is to be filled as nova fills it, CPU by CPU.
    return tuple(core_of[siblings] for siblings in {
        siblings_of[cpu] for cpu in sorted(siblings_of)})
