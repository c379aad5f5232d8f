# SPDX-License-Identifier: Apache-2.0
"""Whether tests may have namespaces and containers.

Root of a container often may not. It is asked without this project's own
code, whose faults are not to be taken for the machine's.
"""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile


@functools.cache
def missing(*kinds: str) -> str:
    """Why there can be no namespaces, '' if there can.

    :param kinds: options of unshare(1)
    """
    try:
        done = subprocess.run(['unshare', *kinds, 'true'], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
    except FileNotFoundError:
        return 'unshare is not installed (Debian: util-linux)'
    return done.stderr.strip()


@functools.cache
def no_container() -> str:
    """Why runc can start none with limits, '' if it can."""
    if shutil.which('runc') is None:
        return 'runc is not installed (Debian: runc)'
    with tempfile.TemporaryDirectory() as name:
        bundle = pathlib.Path(name)
        subprocess.run(['runc', 'spec', '--bundle', name], check=True)
        spec = json.loads((bundle / 'config.json').read_text())
        root = bundle / 'rootfs'
        root.mkdir()
        for path in filter(os.path.lexists, (
                '/bin', '/lib', '/lib64', '/usr')):
            if os.path.islink(path):
                (root / path[1:]).symlink_to(os.readlink(path))
            else:
                (root / path[1:]).mkdir()
                spec['mounts'].append({
                    'destination': path, 'source': path, 'type': 'none',
                    'options': ['bind', 'ro']})
        # A thousand open files may be more than this process may have.
        spec['process'] |= {
            'terminal': False, 'args': ['true'], 'rlimits': []}
        spec['linux']['resources'] |= {
            'cpu': {'cpus': str(min(os.sched_getaffinity(0))), 'shares': 512},
            'memory': {'limit': 128 << 20}}
        (bundle / 'config.json').write_text(json.dumps(spec))
        done = subprocess.run(
            ['runc', '--root', f'{name}/state', 'run', '--bundle', name,
             f'nova-pinning-{bundle.name}'],
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ''
