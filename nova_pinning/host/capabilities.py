# SPDX-License-Identifier: Apache-2.0


"""Hosts from what ``virsh capabilities`` prints.

The format is described at https://libvirt.org/formatcaps.html. Elements that
do not matter here are passed over.
"""

from collections.abc import Iterator
import dataclasses
import os
import pathlib
from xml.parsers import expat

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import problems

_MAX_DEPTH = 64
_UNITS = {'b': 1, 'bytes': 1, 'KB': 1000, 'k': 1024, 'KiB': 1024,
          'MB': 1000 ** 2, 'M': 1024 ** 2, 'MiB': 1024 ** 2,
          'GB': 1000 ** 3, 'G': 1024 ** 3, 'GiB': 1024 ** 3,
          'TB': 1000 ** 4, 'T': 1024 ** 4, 'TiB': 1024 ** 4}
_CACHE_KINDS = {'both': hardware.CacheKind.UNIFIED,
                'data': hardware.CacheKind.DATA,
                'code': hardware.CacheKind.INSTRUCTION}
_CACHE_LEVELS = range(1, 10)


@dataclasses.dataclass(slots=True)
class _Element:
    """An XML element with the line it stands on."""

    name: str
    attributes: dict[str, str]
    line: int
    text: str = ''
    children: list['_Element'] = dataclasses.field(default_factory=list)

    def all(self, *names: str) -> Iterator['_Element']:
        """The elements that a path of names leads to."""
        if not names:
            yield self
            return
        for child in self.children:
            if child.name == names[0]:
                yield from child.all(*names[1:])

    def text_of(self, *names: str) -> str:
        return next((element.text.strip() for element in self.all(*names)), '')


def read(text: str,
         path: str | os.PathLike[str]) -> host_model.HostDescription:
    """The host that libvirt's capabilities describe.

    What nova.conf says is not in them, so its settings are all unset, and
    neither is the host's name, which is taken from the file's.

    :param text: the XML
    :param path: what it was read from
    :raises errors.InputError: if it is not such XML, or cannot be true
    """
    return _CapabilitiesReader(os.fspath(path)).host(text)


class _CapabilitiesReader:

    def __init__(self, source: str) -> None:
        self._source = source

    def host(self, text: str) -> host_model.HostDescription:
        root = self._parse(text)
        if root.name != 'capabilities':
            raise self._error(
                root, f'<{root.name}> is not what virsh capabilities prints',
                'give a host file, or the output of "virsh capabilities"')
        cells = list(root.all('host', 'topology', 'cells', 'cell'))
        if not cells:
            raise self._error(root, 'there are no NUMA cells in it')
        banks = [
            self._cpus(bank, 'cpus')
            for bank in root.all('host', 'cache', 'bank')
            if bank.attributes.get('level') == '3']
        ids = [self._number(cell, 'id') for cell in cells]
        nodes = [self._node(cell, banks, ids) for cell in cells]
        cpu_model = _cpu_model(root)
        assumed = ''
        small_page_kib = min((self._number(page, 'size') for cell in cells
                              for page in cell.all('pages')), default=0)
        if not small_page_kib:
            small_page_kib, assumed = hardware.small_page_kib(
                cpu_model.arch, ())
        description = host_model.HostDescription(
            name=pathlib.PurePath(self._source).stem or 'host',
            nodes=tuple(sorted(nodes, key=lambda node: node.id)),
            description=assumed,
            cpu_model=cpu_model,
            offline_cpus=cpuset.union(
                self._cpus(cpu, 'id') for cell in cells
                for cpu in cell.all('cpus', 'cpu')
                if 'siblings' not in cpu.attributes),
            dies=self._dies(cells),
            caches=self._caches(root),
            system=hardware.System(
                has_iommu=_has_iommu(root),
                page_size_kib=small_page_kib),
            where=errors.Location(self._source))
        wrong = tuple(
            errors.InputError(
                problem.message,
                errors.Location(self._source, root.line), problem.advice)
            for problem in problems.inconsistencies(description))
        if wrong:
            raise errors.InputErrors(wrong)
        return description

    def _parse(self, text: str) -> _Element:
        parser = expat.ParserCreate()
        top = _Element('', {}, 0)
        stack = [top]

        def start(name: str, attributes: dict[str, str]) -> None:
            element = _Element(name, attributes, parser.CurrentLineNumber)
            stack[-1].children.append(element)
            stack.append(element)
            if len(stack) > _MAX_DEPTH:
                raise self._error(
                    element, f'is nested more than {_MAX_DEPTH} levels deep')

        def characters(data: str) -> None:
            stack[-1].text += data

        def doctype(*_arguments: object) -> None:
            # Entities are declared there, and can be made to fill the memory.
            raise errors.InputError(
                'has a DOCTYPE, which libvirt never writes',
                errors.Location(self._source, parser.CurrentLineNumber))

        parser.buffer_text = True
        parser.StartElementHandler = start
        parser.EndElementHandler = lambda name: stack.pop()
        parser.CharacterDataHandler = characters
        parser.StartDoctypeDeclHandler = doctype
        try:
            parser.Parse(text, True)
        except expat.ExpatError as error:
            raise errors.InputError(
                f'is not XML: {expat.ErrorString(error.code)}',
                errors.Location(self._source, error.lineno, error.offset + 1),
            ) from None
        return top.children[0]

    def _node(
        self, cell: _Element, banks: list[cpuset.CpuSet], ids: list[int],
    ) -> host_model.NumaNode:
        # An offline CPU has an id, but no place in the topology.
        cpus = [cpu for cpu in cell.all('cpus', 'cpu')
                if 'siblings' in cpu.attributes]
        online = cpuset.union(self._cpus(cpu, 'id') for cpu in cpus)
        cores = {self._cpus(cpu, 'siblings') & online for cpu in cpus}
        sockets = [self._number(cpu, 'socket_id') for cpu in cpus]
        distances = {
            self._number(sibling, 'id'): self._number(sibling, 'value')
            for sibling in cell.all('distances', 'sibling')}
        pages = {self._number(page, 'size'): self._text_number(page)
                 for page in cell.all('pages')}
        return host_model.NumaNode(
            id=self._number(cell, 'id'),
            socket=min(sockets, default=0),
            cores=tuple(sorted(tuple(core) for core in cores if core)),
            memory_mib=self._memory_mib(cell),
            # The smallest are the system's own.
            huge_pages={size: count for size, count in pages.items()
                        if size != min(pages)},
            l3_domains=tuple(sorted(
                bank for bank in banks if not bank.isdisjoint(online))),
            distances=tuple(distances.get(other, 0) for other in sorted(ids))
            if distances else ())

    def _dies(self, cells: list[_Element]) -> tuple[hardware.Die, ...]:
        """The dies, if a socket has several."""
        dies: dict[tuple[int, int], cpuset.CpuSet] = {}
        for cell in cells:
            for cpu in cell.all('cpus', 'cpu'):
                if not {'siblings', 'die_id'} <= cpu.attributes.keys():
                    continue
                die = (self._number(cpu, 'socket_id'),
                       self._number(cpu, 'die_id'))
                dies[die] = (dies.get(die, cpuset.CpuSet())
                             | self._cpus(cpu, 'id'))
        sockets = [socket for socket, _die in dies]
        if len(sockets) == len(set(sockets)):
            return ()
        return tuple(hardware.Die(socket, die, cpus)
                     for (socket, die), cpus in sorted(dies.items()))

    def _caches(self, root: _Element) -> tuple[hardware.Caches, ...]:
        """The caches, as far as libvirt knows them: those of level 3."""
        domains: dict[tuple[int, hardware.CacheKind, int],
                      list[cpuset.CpuSet]] = {}
        for bank in root.all('host', 'cache', 'bank'):
            kind = _CACHE_KINDS.get(bank.attributes.get('type', ''))
            level = self._number(bank, 'level')
            if kind is None or level not in _CACHE_LEVELS:
                continue
            size_kib = self._unit(bank) * self._number(bank, 'size') // 1024
            domains.setdefault((level, kind, size_kib), []).append(
                self._cpus(bank, 'cpus'))
        return tuple(hardware.Caches(*alike, tuple(sorted(domains)))
                     for alike, domains in sorted(domains.items()))

    def _unit(self, element: _Element) -> int:
        """The bytes of what the element's number counts."""
        unit = element.attributes.get('unit', 'KiB')
        if unit not in _UNITS:
            raise self._error(
                element, f'{unit!r} is a unit that is not known')
        return _UNITS[unit]

    def _memory_mib(self, cell: _Element) -> int:
        for memory in cell.all('memory'):
            unit_bytes = self._unit(memory)
            return self._text_number(memory) * unit_bytes // 1024 ** 2
        return 0  # libvirt leaves it out then

    def _cpus(self, element: _Element, name: str) -> cpuset.CpuSet:
        try:
            return cpuset.CpuSet.parse(element.attributes.get(name, ''))
        except ValueError as error:
            raise self._error(element, str(error)) from None

    def _number(self, element: _Element, name: str) -> int:
        if name not in element.attributes:
            raise self._error(element, f'<{element.name}> has no {name}')
        return self._read_number(element, element.attributes[name])

    def _text_number(self, element: _Element) -> int:
        return self._read_number(element, element.text.strip())

    def _read_number(self, element: _Element, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise self._error(
                element, f'{text!r} in <{element.name}> is not a number')
        return int(text)

    def _error(self, element: _Element, message: str,
               advice: str = '') -> errors.InputError:
        where = errors.Location(self._source, element.line)
        return errors.InputError(message, where, advice)


def _cpu_model(root: _Element) -> host_model.CpuModel:
    features = {
        feature.attributes['name']
        for feature in root.all('host', 'cpu', 'feature')
        if 'name' in feature.attributes}
    return host_model.CpuModel(
        arch=root.text_of('host', 'cpu', 'arch') or 'x86_64',
        model=root.text_of('host', 'cpu', 'model'),
        vendor=root.text_of('host', 'cpu', 'vendor'),
        features=tuple(sorted(features)))


def _has_iommu(root: _Element) -> bool | None:
    for iommu in root.all('host', 'iommu'):
        return iommu.attributes.get('support') == 'yes'
    return None
