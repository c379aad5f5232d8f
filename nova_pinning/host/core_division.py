# SPDX-License-Identifier: Apache-2.0
"""Cores that are divided: a thread for pinned vCPUs, another for others."""

from collections.abc import Iterable

from nova_pinning import cpuset
from nova_pinning.host import host_model
from nova_pinning.host import words

#: What comes of it, and what to do.
WHY = ('a pinned vCPU waits for whatever runs on the other thread of its '
       'core, and thread policy require has no place there')
ADVICE = ('have cpu_dedicated_set name whole cores, as "nova-pinning host '
          'plan" does')


def text(cores: Iterable[Iterable[int]], dedicated: cpuset.CpuSet,
         shared: cpuset.CpuSet) -> str:
    """What is divided, and which dedicated CPUs are not; '' if nothing is.

    :param cores: the threads of each, as far as they are known
    """
    divided = [core for core in map(cpuset.CpuSet, cores)
               if core & dedicated and core - dedicated]
    if not divided:
        return ''
    cpus = cpuset.union(divided)
    uses = ', '.join(
        f'{part} {use}' for part, use in (
            (cpus & dedicated, 'dedicated'),
            (cpus & shared - dedicated, 'shared'),
            (cpus - dedicated - shared, 'for the host')) if part)
    count = words.count(len(divided), 'core')
    whole = dedicated - cpus
    return (f'{count} divided between uses: of {words.cpus(cpus)}, {uses}; '
            + (f'whole cores are dedicated CPUs {whole}' if whole
               else 'no core is dedicated as a whole'))


def of_host(description: host_model.HostDescription) -> str:
    """The same of a described host, by what nova.conf says there."""
    nova = description.nova
    return text(
        (core for node in description.nodes for core in node.cores),
        nova.dedicated_cpus or cpuset.CpuSet(),
        nova.shared_cpus or cpuset.CpuSet())
