# SPDX-License-Identifier: Apache-2.0
"""What a container is, as the OCI runtime specification has it.

https://github.com/opencontainers/runtime-spec/blob/main/config.md
"""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

# What containers are usually given, and what real-time workloads need.
_CAPABILITIES = [f'CAP_{name}' for name in (
    'CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'IPC_LOCK', 'KILL',
    'NET_BIND_SERVICE', 'SETGID', 'SETPCAP', 'SETUID', 'SYS_CHROOT',
    'SYS_NICE')]


def bundle(*, hostname: str, root: str, arguments: Sequence[str],
           variables: Mapping[str, str], binds: Mapping[str, str],
           writable: Collection[str], cgroup: str,
           resources: Mapping[str, Any]) -> dict[str, Any]:
    """config.json of a bundle.

    Its root cannot be written to, and it has the network of what runs it.

    :param arguments: of its first process, and the variables it has
    :param binds: directories that are mounted in it, by their path inside
    :param writable: those of them that can be written to
    :param cgroup: path of its control group
    :param resources: ``linux.resources``, but for devices
    """
    return {
        'ociVersion': '1.0.2',
        'process': {
            'args': list(arguments),
            'cwd': '/',
            'env': [f'{name}={value}' for name, value in variables.items()],
            'user': {'uid': 0, 'gid': 0},
            'capabilities': dict.fromkeys(
                ('bounding', 'effective', 'permitted'), _CAPABILITIES)},
        'root': {'path': root, 'readonly': True},
        'hostname': hostname,
        'mounts': [
            _mount('/proc', 'proc', 'nosuid', 'nodev', 'noexec'),
            _mount('/dev', 'tmpfs', 'nosuid', 'mode=755', 'size=64k'),
            _mount('/dev/pts', 'devpts', 'nosuid', 'noexec', 'newinstance',
                   'ptmxmode=0666', 'mode=0620'),
            _mount('/dev/shm', 'tmpfs', 'nosuid', 'nodev', 'mode=1777'),
            # Where the network is not its own there cannot be a new one.
            _mount('/sys', 'none', 'bind', 'ro', source='/sys'),
            _mount('/sys/fs/cgroup', 'cgroup', 'nosuid', 'nodev', 'noexec',
                   'ro'),
            _mount('/run', 'tmpfs', 'nosuid', 'nodev', 'mode=755'),
            _mount('/tmp', 'tmpfs', 'nosuid', 'nodev', 'mode=1777'),
            *(_mount(target, 'none', 'bind',
                     *(() if target in writable else ('ro',)), source=source)
              for target, source in binds.items())],
        'linux': {
            'cgroupsPath': cgroup,
            'namespaces': [{'type': name}
                           for name in ('pid', 'ipc', 'uts', 'mount')],
            'resources': {**resources, 'devices': [
                {'allow': False, 'access': 'rwm'}]}}}


def _mount(target: str, kind: str, *options: str,
           source: str = '') -> dict[str, Any]:
    return {'destination': target, 'type': kind, 'source': source or kind,
            'options': list(options)}
