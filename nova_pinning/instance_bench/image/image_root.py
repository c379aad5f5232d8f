# SPDX-License-Identifier: Apache-2.0
"""How the Debian in an image is put together: what mmdebstrap is told."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from importlib import resources
import pathlib
import re

from nova_pinning.instance_bench import bench_model

#: In every image. The kernel for clouds has virtio; runc is for containers in
#: guests; procps, coreutils and the like are what commands expect.
PACKAGES = (
    'busybox-static', 'iproute2', 'kmod', 'linux-image-cloud-amd64',
    'procps', 'qemu-guest-agent', 'runc')
#: Where our own files are inside.
HOME = 'usr/local/lib/nova-pinning-bench'
_EXECUTABLE = ('boot', 'agent', 'initrd-init', 'make-initrd')
_UNWANTED = ('/usr/share/man/*', '/usr/share/locale/*', '/usr/share/info/*',
             '/usr/share/doc/*')
# What a host sets of these it sets for good reason.
_ACQUIRE = re.compile(
    r'Acquire::(?:https?|ftp|Check-Valid-Until|Check-Date|Retries)\b.*;')


def packages(workloads: Iterable[bench_model.Workload]) -> tuple[str, ...]:
    """What has to be in an image so that workloads run."""
    names = set(PACKAGES)
    for workload in workloads:
        names |= {*workload.packages, *workload.programs.values()}
    return tuple(sorted(' '.join(names).split()))


def apt_options(dump: str) -> str:
    """What the host's own apt is told of how to get packages.

    :param dump: what ``apt-config dump`` prints
    """
    return ''.join(f'{line}\n' for line in dump.splitlines()
                   if _ACQUIRE.fullmatch(line.strip()))


def sources(files: Mapping[pathlib.Path, str], suite: str) -> list[str]:
    """The files of apt's sources that have a suite.

    :param files: their text by path
    """
    word = re.compile(rf'^(?!#).*(?<![\w-]){re.escape(suite)}(?![\w-])',
                      re.MULTILINE)
    return [str(path) for path in sorted(files) if word.search(files[path])]


def command(*, suite: str, sources: Sequence[str], target: pathlib.Path,
            packages: Sequence[str], apt_conf: pathlib.Path) -> list[str]:
    """The command line that makes a root file system.

    In a namespace for mounts of its own: what it mounts goes with it, however
    it ends.

    :param sources: files of apt's sources
    :param target: directory to make
    """
    return ['unshare', '--mount', 'mmdebstrap', '--mode=root',
            '--variant=minbase', '--format=directory',
            f'--aptopt={apt_conf}',
            '--aptopt=Apt::Install-Recommends "false"',
            '--dpkgopt=force-unsafe-io',
            *(f'--dpkgopt=path-exclude={path}' for path in _UNWANTED),
            f'--include={",".join(packages)}',
            suite, str(target), *sources]


def place_own(root: pathlib.Path) -> None:
    """Put our own files into a root."""
    home = root / HOME
    home.mkdir(parents=True, exist_ok=True)
    own = resources.files('nova_pinning.instance_bench.image') / 'guest'
    for name in _EXECUTABLE:
        _write(home / name, (own / name).read_text('utf-8'), 0o755)
    _write(root / 'etc/inittab', (own / 'inittab').read_text('utf-8'))
    _write(root / 'sbin/shutdown', (own / 'shutdown').read_text('utf-8'),
           0o755)
    init = root / 'sbin/init'
    init.unlink(missing_ok=True)
    init.symlink_to('/bin/busybox')


def _write(path: pathlib.Path, text: str, mode: int = 0o644) -> None:
    # A package may have a link there, such as shutdown -> /bin/systemctl,
    # which from outside of the root leads to the file of this host.
    path.unlink(missing_ok=True)
    path.write_text(text, 'utf-8')
    path.chmod(mode)
