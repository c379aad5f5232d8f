# SPDX-License-Identifier: Apache-2.0
"""Makes an image: a directory that is there as a whole, or not at all."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import os
import pathlib
import platform
import shlex
import shutil
import signal
import subprocess

from nova_pinning import errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.image import image_root
from nova_pinning.instance_bench import image_manifest
from nova_pinning.instance_bench.workloads import programs
from nova_pinning.instance_bench import workspace

#: What is called here, with the Debian package that has it.
TOOLS = {
    'mmdebstrap': 'mmdebstrap', 'mke2fs': 'e2fsprogs',
    'qemu-img': 'qemu-utils', 'unshare': 'util-linux', 'apt-config': 'apt'}
_APT_SOURCES = pathlib.Path('/etc/apt')
# Where this host is no Debian.
_SUITE = 'bookworm'
# Of the disk, of which a file takes no more than what is in it.
_SIZE = '8g'
_MOST_SAID = 20
_END_SECONDS = 20.0
# mmdebstrap's word for a step that begins.
_STEP = 'I: '

#: Told of each step as it begins.
Tell = Callable[[str], None]


def _suite() -> str:
    """This host's own of Debian, which programs built here go with."""
    with contextlib.suppress(OSError):
        told = platform.freedesktop_os_release()
        if told['ID'] == 'debian':
            return told.get('VERSION_CODENAME') or _SUITE
    return _SUITE


def check(output: pathlib.Path) -> None:
    """See that the image can be made, as far as can be told before.

    :raises errors.InputError: what is missing, and how to get it
    """
    programs.require('making an image', TOOLS)
    if os.geteuid():
        raise errors.InputError(
            'only root can make a file system of other users\' files',
            advice='run it with sudo')
    if output.exists() and not (output.is_dir()
                                and not any(output.iterdir())):
        raise errors.InputError(
            'exists and is not an image', errors.Location(str(output)),
            'name a directory that does not exist')
    if not output.parent.is_dir():
        raise errors.InputError(
            'there is no such directory', errors.Location(str(output.parent)))


def build_image(workloads: Collection[bench_model.Workload],
                output: pathlib.Path, tell: Tell) -> image_manifest.Manifest:
    """Make an image.

    :param workloads: that it has to be able to run
    :param output: the directory it is to be, checked before
    :raises errors.InputError: if a step fails, with what it said
    """
    with workspace.temporary(parent=output.parent) as work:
        root, made = work / 'root', work / 'image'
        made.mkdir(mode=0o755)
        suite = _suite()
        _debian(suite, workloads, root, work, tell)
        tell('adding programs')
        manifest = _fill(suite, workloads, root)
        tell('making the initial file system')
        run(['chroot', str(root), f'/{image_root.HOME}/make-initrd'])
        for name in (image_manifest.KERNEL, image_manifest.INITRD):
            shutil.copyfile(root / 'boot' / name, made / name)
        tell('making the disk')
        _make_disk(root, made / image_manifest.DISK, work)
        (made / image_manifest.MANIFEST).write_text(
            image_manifest.as_text(manifest))
        made.rename(output)
    return manifest


def run(command: Sequence[str], tell: Tell | None = None,
        environment: Mapping[str, str] | None = None) -> None:
    """Run a command of the build, which ends with us.

    :param tell: told what mmdebstrap says that it does
    :raises errors.InputError: if it fails, with the last lines it said
    """
    said: list[str] = []
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors='replace',
        start_new_session=True, env={**os.environ, **(environment or {})})
    with process, _ended(process):
        assert process.stdout is not None
        for line in process.stdout:
            if tell and line.startswith(_STEP):
                tell(line.removeprefix(_STEP).strip().rstrip('.'))
            said = [*said, line.rstrip()][-_MOST_SAID:]
        status = process.wait()
    if status:
        raise errors.InputError(
            f'{shlex.join(command)[:200]} ended with status {status}; its '
            'last words are:\n' + '\n'.join(said))


@contextlib.contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """End a process with all its children if it is left before its end."""
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(subprocess.TimeoutExpired,
                                     ProcessLookupError):
                if process.poll() is None:
                    os.killpg(process.pid, number)
                    process.wait(_END_SECONDS)


def _debian(suite: str, workloads: Collection[bench_model.Workload],
            root: pathlib.Path, work: pathlib.Path, tell: Tell) -> None:
    """Unpack and configure the packages."""
    conf = work / 'apt.conf'
    dump = subprocess.run(['apt-config', 'dump'], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    conf.write_text(image_root.apt_options(dump.stdout))
    tell(f'getting Debian {suite}')
    # The initial file system is made here.
    run(image_root.command(
        suite=suite, sources=_sources(suite), target=root,
        packages=image_root.packages(workloads), apt_conf=conf),
        tell, {'INITRD': 'No', 'LC_ALL': 'C'})


def _sources(suite: str) -> list[str]:
    """Files that say where packages come from; none leaves it to mmdebstrap.
    """
    files = [_APT_SOURCES / 'sources.list',
             *_APT_SOURCES.glob('sources.list.d/*.list'),
             *_APT_SOURCES.glob('sources.list.d/*.sources')]
    return image_root.sources(
        {path: path.read_text(errors='replace') for path in files
         if path.is_file()}, suite)


def _fill(suite: str, workloads: Collection[bench_model.Workload],
          root: pathlib.Path) -> image_manifest.Manifest:
    """Put in what is ours."""
    home = root / image_root.HOME
    home.mkdir(parents=True, exist_ok=True)
    for workload in workloads:
        programs.build(workload, home)
    image_root.place_own(root)
    kernel, = (path.name for path in (root / 'lib/modules').iterdir())
    return image_manifest.Manifest(
        suite=suite, kernel=kernel,
        workloads=tuple(sorted(workload.name for workload in workloads)),
        packages=programs.versions(None, root))


def _make_disk(root: pathlib.Path, target: pathlib.Path,
               work: pathlib.Path) -> None:
    """Make a disk that is one file system, without mounting anything.

    :param root: the directory whose content it gets
    :param target: qcow2 file to write
    """
    raw = work / 'disk.raw'
    # Whatever the kernel would write later, beside a workload, is written
    # now.
    run(['mke2fs', '-q', '-t', 'ext4', '-L', image_manifest.LABEL, '-d',
         str(root), '-E', 'lazy_itable_init=0,lazy_journal_init=0', str(raw),
         _SIZE])
    run(['qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2', str(raw),
         str(target)])
    raw.unlink()
