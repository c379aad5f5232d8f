# SPDX-License-Identifier: Apache-2.0
"""Which container a process is in, from files alone.

Control groups of containers are named after their ids, in one of two ways:
'docker-ID.scope' where systemd makes them, 'docker/ID' elsewhere. What
a container is called stands in files of its engine.
"""

from collections.abc import Iterator
import functools
import json
import re
from typing import Any

from nova_pinning.host.check import facts
from nova_pinning.host import machine_files

# The monitor of a container (libpod-conmon-ID.scope) is not in it.
_ID = re.compile(r'/(?:([a-z-]+)[-/])?([0-9a-f]{64})(?:\.scope)?(?=/|$)',
                 re.MULTILINE)
_ENGINES = {'docker': 'docker', 'libpod': 'podman',
            'cri-containerd': 'containerd', 'crio': 'cri-o'}
# What engines allow; with its pod's for those of Kubernetes.
_NAME = re.compile(r'[A-Za-z0-9][\w.-]*(?:/[\w.-]+)?', re.ASCII)
_SHORT = 12

_DOCKER = '/var/lib/docker/containers/{}/config.v2.json'
_CONTAINERD = ('/run/containerd/io.containerd.runtime.v2.task/k8s.io/{}/'
               'config.json')
_STORAGE = '/var/lib/containers/storage/overlay-containers/{}containers.json'


def container(
    tree: machine_files.Tree, cgroups: str,
) -> facts.Container | None:
    """The container that a process is in; of nested ones the outermost.

    :param cgroups: what /proc/PID/cgroup holds
    :returns: None if it is in none
    """
    match = _ID.search(cgroups)
    if match is None or (match[1] or '').endswith('conmon'):
        return None
    return facts.Container(
        match[2], _ENGINES.get(match[1] or '', ''),
        _name(tree, match[2]) or match[2][:_SHORT])


@functools.lru_cache(maxsize=1024)
def _name(tree: machine_files.Tree, container_id: str) -> str:
    """What an engine calls a container, '' if no file tells."""
    for name in _names(tree, container_id):
        if isinstance(name, str) and _NAME.fullmatch(name):
            return name
    return ''


def _names(tree: machine_files.Tree, container_id: str) -> Iterator[Any]:
    docker = _json(tree, _DOCKER.format(container_id))
    if isinstance(docker, dict):
        yield str(docker.get('Name', '')).lstrip('/')
    # Podman and CRI-O, those of one boot in a file of their own.
    for kind in ('', 'volatile-'):
        stored = _json(tree, _STORAGE.format(kind))
        for one in stored if isinstance(stored, list) else ():
            if isinstance(one, dict) and one.get('id') == container_id:
                yield from one.get('names') or ()
    task = _json(tree, _CONTAINERD.format(container_id))
    notes = task.get('annotations') if isinstance(task, dict) else None
    if isinstance(notes, dict):
        yield '/'.join(
            str(notes.get(f'io.kubernetes.cri.{key}', ''))
            for key in ('sandbox-name', 'container-name'))


def _json(tree: machine_files.Tree, path: str) -> Any:
    text = tree.text(path)
    # A check is as good without the name.
    tree.unread.pop(path, None)
    try:
        return json.loads(text or 'null')
    except ValueError:
        return None
