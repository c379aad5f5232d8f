# SPDX-License-Identifier: Apache-2.0


"""Host files, written."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import json
import re
from typing import Any

from nova_pinning import cpuset
from nova_pinning.host import host_model
from nova_pinning.host import hostfile
from nova_pinning.host import hostfile_keys

# What YAML takes as text wherever it stands, also as other programs read it.
_PLAIN = re.compile(
    r'(?!(?:true|false|null|yes|no|on|off|y|n)$)'
    r'[a-z][a-z0-9_./-]*(?: [a-z0-9_./-]+)*'
    r'|[0-9]+[kmg]ib', re.IGNORECASE | re.ASCII)


# What ends a line in YAML, which is how JSON is read too.
_ESCAPES = {code: f'\\u{code:04x}' for code in (0x85, 0x2028, 0x2029)}
# Columns of a line, where a value can be broken.
_WIDTH = 79


def dump(description: host_model.HostDescription) -> str:
    """A host as a file that :func:`nova_pinning.host.host_loader.load` reads.

    What is as it would be by default is left out.

    :returns: YAML
    """
    return ''.join(
        f'{line}\n' for key, value in host_document(description).items()
        for line in _top(key, value))


def dump_json(description: host_model.HostDescription) -> str:
    """The same document as JSON, which is read as well."""
    text = json.dumps(host_document(description), indent=2, default=str,
                      ensure_ascii=False)
    return f'{text.translate(_ESCAPES)}\n'


def host_document(description: host_model.HostDescription) -> dict[str, Any]:
    """A host as a mapping, in the order in which a file has it.

    Values are plain, but CPUs are a CpuSet, to be written as text.
    """
    numbering = _numbering(description.nodes)
    written = hostfile_keys.HOST.write(description)
    cpu = written.pop('cpu', {})
    if numbering and numbering[0] > 1:
        cpu['threads_per_core'], cpu['numbering'] = numbering
    nodes = [_node(node, numbering is not None) for node in description.nodes]
    cores_per_l3 = _cores_per_l3(description.nodes)
    if cores_per_l3:
        cpu['cores_per_l3'] = cores_per_l3
        for node in nodes:
            node.pop('l3_domains', None)
    for caches, one in zip(written.get('caches', ()), description.caches):
        for word, domains in hostfile.private_domains(
                description.nodes).items():
            if one.domains == domains:
                caches['domains'] = word
                break
    document = {'version': 1, 'name': description.name}
    if description.description:
        document['description'] = description.description
    return document | ({'cpu': cpu} if cpu else {}) | {
        'nodes': nodes} | written


def _numbering(nodes: Sequence[host_model.NumaNode]) -> tuple[int, str] | None:
    """Threads in each core and their numbering; None if cores differ."""
    sizes = {len(core) for node in nodes for core in node.cores}
    if len(sizes) != 1:
        return None
    threads = sizes.pop()
    for order in ('split', 'adjacent'):
        if all(node.cores == hostfile.split_cores(node.cpus, threads, order)
               for node in nodes):
            return threads, order
    return None


def _cores_per_l3(nodes: Sequence[host_model.NumaNode]) -> int | None:
    """Cores that share each L3 cache; None if that does not say it all."""
    sizes = {len(domain & cpuset.CpuSet(core[0] for core in node.cores))
             for node in nodes for domain in node.l3_domains}
    if len(sizes) != 1:
        return None
    size = sizes.pop()
    if size and all(
            node.l3_domains == hostfile.even_domains(node.cores, size)
            for node in nodes):
        return size
    return None


def _node(node: host_model.NumaNode, short: bool) -> dict[str, Any]:
    cpus = {'cpus': node.cpus} if short else {'cores': ' '.join(
        ','.join(map(str, core)) for core in node.cores)}
    return {'id': node.id, 'socket': node.socket} | cpus | (
        hostfile_keys.NODE.write(node))


def _top(key: str, value: Any) -> Iterator[str]:
    """A key of the document, with what is below it on lines of its own."""
    if isinstance(value, dict):
        yield f'{key}:'
        yield from _mapping(value, '  ')
    elif isinstance(value, list):
        yield f'{key}:'
        for item in value:
            yield from _item(item, '  ', is_short=key != 'nodes')
    else:
        yield f'{key}: {_flow(value)}'


def _mapping(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, below in value.items():
        head = f'{indent}{_key(key)}:'
        if _fits(head, below) or not isinstance(below, (dict, list)):
            yield f'{head} {_flow(below)}'
        elif isinstance(below, dict):
            yield head
            yield from _mapping(below, f'{indent}  ')
        elif any(isinstance(item, dict) for item in below):
            yield head
            for item in below:
                yield from _item(item, f'{indent}  ', is_short=True)
        else:
            yield from _wrapped(f'{head} [', map(_flow, below), ']')


def _item(value: Any, indent: str, is_short: bool) -> Iterator[str]:
    """An item of a list.

    :param is_short: keep it on one line, or on as few as it takes; not if a
        value alone is longer than a line
    """
    head = f'{indent}-'
    if not isinstance(value, dict):
        yield f'{head} {_flow(value)}'
    elif is_short and all(_fits(f'{indent}   {key}:', below)
                          for key, below in value.items()):
        yield from _wrapped(f'{head} {{', _pairs(value), '}')
    else:
        first, *others = _mapping(value, f'{indent}  ')
        yield f'{head} {first.lstrip()}'
        yield from others


def _fits(head: str, value: Any) -> bool:
    return len(head) + 1 + len(_flow(value)) <= _WIDTH


def _wrapped(head: str, items: Iterable[str], tail: str) -> Iterator[str]:
    """Items between brackets, on as many lines as they take."""
    line, gap = head, ''
    for item in items:
        if gap and len(line) + len(gap) + len(item) + 1 > _WIDTH:
            yield f'{line},'
            line, gap = ' ' * len(head), ''
        line, gap = f'{line}{gap}{item}', ', '
    yield f'{line}{tail}'


def _pairs(value: Mapping[str, Any]) -> Iterator[str]:
    return (f'{_key(key)}: {_flow(below)}' for key, below in value.items())


def _key(key: str | int) -> str:
    return _text(key) if isinstance(key, str) else str(key)


def _flow(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return f'{{{", ".join(_pairs(value))}}}'
    if isinstance(value, list):
        return f'[{", ".join(map(_flow, value))}]'
    if isinstance(value, cpuset.CpuSet):
        return f"'{value}'"
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    letters = (letter if letter.isprintable() and letter not in '"\\' else
               f'\\U{ord(letter):08X}' for letter in text)
    return f'"{"".join(letters)}"'
