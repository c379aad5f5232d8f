# SPDX-License-Identifier: Apache-2.0
"""Machines, and users of them, that are not this one, as far as can be had.

tools/run_machines.py runs tests there.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import runpy
import shlex
import stat
import subprocess
import sys
import threading
import unittest

from nova_pinning.tests.unit.host.discover import machine_dumps

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOBODY = '--reuid=65534 --regid=65534 --clear-groups'
#: Root of most containers, who cannot mount anything.
CONTAINED = '--bounding-set=-sys_admin'


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """Where tests run.

    :param mounts: paths, and what lies over each
    :param user: options of setpriv, where they are run by somebody else
    """

    title: str
    environment: dict[str, str]
    umask: str = '022'
    mounts: dict[str, str] = dataclasses.field(default_factory=dict)
    user: str = ''

    def before(self):
        """Words before a command that bring it there."""
        lines = [f'umask {self.umask}']
        if self.user:
            lines += ['mount -t tmpfs tmpfs /mnt']
            for number, path in enumerate(closed()):
                work = f'/mnt/{number}'
                # What lies over it is open, it itself stays as it is.
                lines += [
                    f'mkdir {work} {work}/upper {work}/work',
                    'mount -t overlay overlay -o '
                    f'lowerdir={path},upperdir={work}/upper,'
                    f'workdir={work}/work {path}',
                    f'chmod a+rx {path}']
        lines += [shlex.join(['mount', '--rbind', source, target])
                  for target, source in self.mounts.items()]
        user = f'setpriv {self.user}' if self.user else ''
        return [*([] if os.geteuid() else ['unshare', '--mount']), 'sh', '-ec',
                '\n'.join([*lines, f'exec {user} "$@"']), 'sh']


def closed():
    """Directories on the way to the tests that another user may not enter."""
    found = {}
    for path in (str(ROOT), sys.prefix, sys.base_prefix):
        for above in (*reversed(pathlib.Path(path).parents), path):
            if not os.stat(above).st_mode & stat.S_IXOTH:
                found[str(above)] = None
    return list(found)


def hidden():
    """Programs of Debian packages that the tests can do without."""
    names = re.findall(r'^(\S+) \[platform:dpkg test\]$', (
        ROOT / 'bindep.txt').read_text(), re.MULTILINE)
    with contextlib.suppress(FileNotFoundError):
        listed = subprocess.run(['dpkg-query', '--listfiles', *names],
                                capture_output=True, text=True).stdout
        return sorted({os.path.realpath(line) for line in listed.splitlines()
                       if re.search('/s?bin/', line) and os.path.isfile(line)})
    return []


def dump_mounts(root):
    """What a dump has, by where it belongs.

    Processes, their groups and what is mounted are still those of this
    machine.
    """
    groups = '/sys/fs/cgroup'
    (root / groups[1:]).mkdir(parents=True, exist_ok=True)
    mounts = {f'{root}{groups}': groups, '/sys': f'{root}/sys'}
    for path in (root / 'proc').iterdir():
        target = f'/proc/{path.name}'
        if path.is_file() and os.path.isfile(target) and not (
                os.path.islink(target)):
            mounts[target] = str(path)
    return mounts


def whole(scratch):
    """The two Settings in which all tests run."""
    programs = [] if os.geteuid() else hidden()
    far = Setting('far from home', {
        'TZ': '<+1245>-12:45', 'LANG': 'tr_TR.UTF-8', 'COLUMNS': '40',
        'HOME': '/nonexistent',
        'PYTHON': f'{sys.executable} -m {__name__} {scratch}'},
        '077', dict.fromkeys(programs[::2], os.devnull),
        '' if os.geteuid() else NOBODY)
    bare = Setting('bare', {
        'TZ': '<-0930>9:30', 'LANG': 'C', 'COLUMNS': '250', 'HOME': '/proc'},
        '000', dict.fromkeys(programs, os.devnull),
        '' if os.geteuid() else CONTAINED)
    print(f'Of the programs of optional packages {len(far.mounts)} are hidden '
          f'{far.title}, {len(bare.mounts)} where it is {bare.title}.')
    return far, bare


def dumps():
    """A Setting for each dump of a machine."""
    if os.geteuid():
        print('No other machines: only root can have a mount namespace.')
        return
    archives = sorted(machine_dumps.directory().glob('*.tar.bz2'))
    if not archives:
        print(f'No other machines: there is no dump in '
              f'{machine_dumps.directory()}; NOVA_PINNING_DATA says where '
              'they are.')
    for archive in archives:
        name = archive.name.removesuffix('.tar.bz2')
        root = machine_dumps.unpacked(archive) / machine_dumps.NAMES[name]
        yield Setting(name, {}, mounts=dump_mounts(root))


@contextlib.contextmanager
def busy(count):
    """Have so many processes that never rest.

    They leave tests some 40% of a CPU, or these would take hours.
    """
    with contextlib.ExitStack() as stack:
        for _number in range(count):
            process = stack.enter_context(subprocess.Popen(
                ['setpriv', '--pdeathsig=KILL', 'nice', '-n', '5', 'sh', '-c',
                 'while :; do :; done']))
            stack.callback(process.kill)
        yield


def watch(directory, module, *arguments):
    """Run a module, and note whose tests look at the machine.

    :param directory: where a file gets the names of their modules
    """
    seen = set()
    main = threading.main_thread().ident

    def note(event, values):
        if event != 'subprocess.Popen' and not (
                event in ('open', 'os.listdir', 'os.scandir')
                and str(values[0]).startswith(('/sys', '/proc'))):
            return
        frame = sys._current_frames().get(main)
        while frame is not None:
            case = frame.f_locals.get('self')
            if isinstance(case, unittest.TestCase):
                name = type(case).__module__
                if name not in seen:
                    seen.add(name)
                    print(name, file=file, flush=True)
                return
            frame = frame.f_back

    with open(f'{directory}/{os.getpid()}', 'w') as file:
        sys.addaudithook(note)
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name='__main__', alter_sys=True)


if __name__ == '__main__':
    # As run_tests calls it: DIRECTORY -m MODULE ...
    watch(sys.argv[1], *sys.argv[3:])
