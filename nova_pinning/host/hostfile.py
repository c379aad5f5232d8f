# SPDX-License-Identifier: Apache-2.0


"""Host files: YAML or JSON, version 1.

doc/source/reference/host-files.rst describes the format, host-1.json is its
schema.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
from typing import Any

from nova_pinning import cpuset
from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.host import file_forms
from nova_pinning.host import host_model
from nova_pinning.host import hostfile_keys
from nova_pinning.host import problems

_MAX_CPUS = cpuset.MAX_CPU_ID + 1


def read(document: source.YamlDocument) -> host_model.HostDescription:
    """The host that a file describes.

    :raises errors.InputErrors: all that is wrong with it
    """
    schema.validate(document, schema.shipped(__package__, 'host-1.json'))
    reader = _HostFileReader(document)
    description = reader.host()
    if not reader.errors:
        reader.check(description)
    if reader.errors:
        raise errors.InputErrors(tuple(reader.errors))
    return description


def split_cores(
    cpus: cpuset.CpuSet, threads: int, numbering: str,
) -> tuple[tuple[int, ...], ...]:
    """Cores from CPU ids that were given out in order.

    :param cpus: as many as make up whole cores
    :param numbering: 'split' if all first threads come before any second
        one: 0-3 with two threads are (0, 2), (1, 3). 'adjacent' if the
        threads of a core are neighbours: (0, 1), (2, 3)
    """
    ids = tuple(cpus)
    if numbering == 'adjacent':
        return tuple(ids[first:first + threads]
                     for first in range(0, len(ids), threads))
    count = len(ids) // threads
    return tuple(ids[core::count] for core in range(count))


def even_domains(
    cores: Sequence[tuple[int, ...]], size: int,
) -> tuple[cpuset.CpuSet, ...]:
    """L3 domains that each have so many cores, in the order of the cores."""
    return tuple(
        cpuset.CpuSet(itertools.chain.from_iterable(cores[first:first + size]))
        for first in range(0, len(cores), size))


def private_domains(
    nodes: Iterable[host_model.NumaNode],
) -> dict[str, tuple[cpuset.CpuSet, ...]]:
    """What caches have for domains that no two cores share, ascending.

    :returns: 'cores' if each core has one, 'cpus' if each CPU has
    """
    cores = [core for node in nodes for core in node.cores]
    return {
        'cores': tuple(sorted(map(cpuset.CpuSet, cores))),
        'cpus': tuple(cpuset.CpuSet([cpu]) for cpu in sorted(
            itertools.chain.from_iterable(cores)))}


class _HostFileReader(file_forms.DocumentReader):
    """Reads a document that the schema has found good."""

    def __init__(self, document: source.YamlDocument) -> None:
        super().__init__(document)
        self._value: dict[str, Any] = document.value
        cpu = self._value.get('cpu', {})
        self._threads: int = cpu.get('threads_per_core', 1)
        self._numbering: str = cpu.get('numbering', 'split')
        self._cores_per_l3: int | None = cpu.get('cores_per_l3')
        self._cpu_count = 0

    def host(self) -> host_model.HostDescription:
        nodes = [self._node(node, ('nodes', index))
                 for index, node in enumerate(self._value['nodes'])]
        found: host_model.HostDescription = hostfile_keys.HOST.read(
            self, self._value, (), where=self.document.locate(),
            nodes=tuple(sorted(nodes, key=lambda node: node.id)))
        private = private_domains(nodes)
        return dataclasses.replace(found, caches=tuple(
            dataclasses.replace(one, domains=private[one.domains])
            if isinstance(one.domains, str) else one
            for one in found.caches))

    def check(self, description: host_model.HostDescription) -> None:
        """Add what cannot be true of the host as a whole."""
        ids = [node['id'] for node in self._value['nodes']]
        # Nodes were sorted (a stable sort, which matters where ids repeat).
        indexes = sorted(range(len(ids)), key=ids.__getitem__)
        for problem in problems.inconsistencies(description):
            path = problem.path
            if path[0] == 'nodes' and len(path) > 1:
                index = indexes[int(path[1])]
                node = self._value['nodes'][index]
                if path[2] == 'l3_domains' and 'l3_domains' not in node:
                    # Made from the cores, whose own errors are told.
                    continue
                path = self._node_path(index, path[2:])
            self.fail(problem.message, path, problem.advice)

    def _node_path(self, index: int, rest: source.Path) -> source.Path:
        """Where a node's problem stands: CPUs have two ways to be given."""
        node = self._value['nodes'][index]
        for key, other in (('cpus', 'cores'), ('cores', 'cpus')):
            if rest[0] == key and key not in node:
                return 'nodes', index, other
        return 'nodes', index, *rest

    def _node(self, value: Mapping[str, Any],
              path: source.Path) -> host_model.NumaNode:
        cores = self._cores(value, path)
        found: host_model.NumaNode = hostfile_keys.NODE.read(
            self, value, path, cores=cores)
        return found if 'l3_domains' in value else dataclasses.replace(
            found, l3_domains=self._domains(cores, path))

    def _cores(
        self, value: Mapping[str, Any], path: source.Path,
    ) -> tuple[tuple[int, ...], ...]:
        if ('cpus' in value) == ('cores' in value):
            self.fail('a node has either cpus or cores', path,
                      "write cpus: '0-19,40-59', or cores: '0,40 1,41'")
            return ()
        if 'cores' in value:
            cores = (self._own_cpus(text, (*path, 'cores'))
                     for text in value['cores'].split())
            return tuple(sorted(tuple(core) for core in cores if core))
        cpus = self._own_cpus(value['cpus'], (*path, 'cpus'))
        if len(cpus) % self._threads:
            self.fail(
                f'{len(cpus)} CPUs do not make up cores of {self._threads} '
                'threads', (*path, 'cpus'),
                'use cores where CPUs are offline')
            return ()
        return split_cores(cpus, self._threads, self._numbering)

    def _domains(
        self, cores: Sequence[tuple[int, ...]], path: source.Path,
    ) -> tuple[cpuset.CpuSet, ...]:
        size = self._cores_per_l3
        if size is None:
            return ()
        if len(cores) % size:
            self.fail(
                f'its {len(cores)} cores cannot be shared out to L3 caches '
                f'of {size} cores', path, 'give the node its l3_domains')
        return even_domains(cores, size)

    def _own_cpus(self, text: str | int, path: source.Path) -> cpuset.CpuSet:
        """CPUs that are the host's; no more of them than there can be."""
        cpus = self.cpus(text, path)
        before = self._cpu_count
        self._cpu_count += len(cpus)
        if self._cpu_count <= _MAX_CPUS:
            return cpus
        if before <= _MAX_CPUS:
            self.fail(f'the host has more than {_MAX_CPUS} CPUs up to here',
                      path)
        return cpuset.CpuSet()
