# SPDX-License-Identifier: Apache-2.0


"""Host files, written."""

from collections.abc import Sequence
import json
from typing import Any

import yaml

from nova_pinning import cpuset
from nova_pinning.document import yaml_text
from nova_pinning.host import host_model
from nova_pinning.host import hostfile
from nova_pinning.host import hostfile_keys

# What ends a line in YAML, which is how JSON is read too.
_ESCAPES = {code: f'\\u{code:04x}' for code in (0x85, 0x2028, 0x2029)}
# Columns of a line, after which one is broken as soon as it can be.
_WIDTH = 60


class _HostDumper(yaml_text.TextDumper):
    """Puts what is short on one line."""

    def represent(self, data: Any) -> None:
        document = self.represent_data(data)
        document.flow_style = False
        for key, section in document.value:
            _arrange(section, 0 if key.value == 'nodes' else 1)
        self.serialize(document)


_HostDumper.add_representer(
    cpuset.CpuSet, lambda dumper, cpus: dumper.represent_str(str(cpus)))


def _arrange(node: Any, depth: int, is_item: bool = False) -> int:
    """Put what is short, and lists of what is not taken apart, on one line.

    :param depth: how far below a section it stands, counted from 1; what is
        above 2 has lines of its own
    :param is_item: of a list: it is short if each of its values is
    :returns: about how many characters it takes on one line
    """
    if isinstance(node, yaml.ScalarNode):
        return len(node.value) + 4
    is_list = isinstance(node, yaml.SequenceNode)
    parts = node.value if is_list else [value for _key, value in node.value]
    lengths = [_arrange(part, depth + 1, is_list) for part in parts]
    length = sum(lengths) + (0 if is_list else sum(
        len(key.value) for key, _value in node.value))
    node.flow_style = depth > 1 and (
        length < _WIDTH
        or is_list and not any(isinstance(part, yaml.MappingNode)
                               for part in parts)
        or is_item and max(lengths) < _WIDTH)
    return length


def dump(description: host_model.HostDescription) -> str:
    """A host as a file that :func:`nova_pinning.host.host_loader.load` reads.

    What is as it would be by default is left out.

    :returns: YAML
    """
    text: str = yaml.dump(
        host_document(description), Dumper=_HostDumper, sort_keys=False,
        width=_WIDTH, allow_unicode=True)
    return text


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
