# SPDX-License-Identifier: Apache-2.0
"""The first process of a compute host: PID 1 in namespaces of its own.

It gives the host its control groups, its name, and directories of its own
where libvirt looks for its files. Then it waits: for orphans, which it reaps,
and for the signal that ends the host.

It runs as ``python -m minicloud.hostinit PLAN`` under unshare(1), in new
mount, UTS and PID namespaces. PLAN is a file with a Plan as JSON.
"""

import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from minicloud import files
from nova_pinning.document import decoder
from nova_pinning.host import machine_files

# Where nothing of the machine's own is to be seen, but a few programs insist
# on directories that are there.
RUN = pathlib.Path('/run')
RUN_DIRECTORIES = ('libvirt', 'lock', 'sshd')

# Written when all is set up.
READY = RUN / 'minicloud'

# Options of a mounted hierarchy of version 1 that are not controllers.
FLAGS = ('rw', 'ro', 'xattr', 'noprefix', 'clone_children', 'none',
         'cpuset_v2_mode', 'favordynmods', 'nofavordynmods')

# Those of version 2 that libvirt makes use of.
CONTROLLERS = ('cpu', 'cpuset', 'io', 'memory', 'pids')

# In version 2 processes have to be in a group that has none below it.
LEAF = 'init'

HUGE_PAGES = pathlib.Path('/sys/kernel/mm/hugepages')

SIGNALS = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}

# For guests to write their disks out.
GRACE_SECONDS = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What makes a host.

    :ivar name: str, its host name
    :ivar control_group: str, name of the group below each hierarchy's; no
        other host of this machine may have it
    :ivar groups_file: str, path of the file that is to tell which groups
        were made, a directory on each line
    :ivar binds: tuple of pairs of str, a path of the machine's and the path
        over which the host sees it
    :ivar hidden: tuple of str, directories, if they are there, that are to be
        empty
    """

    name: str
    control_group: str
    groups_file: str
    binds: tuple[tuple[str, str], ...]
    hidden: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Hierarchy:
    """A mounted hierarchy of control groups, see cgroups(7).

    :ivar mount_point: pathlib.Path
    :ivar root: str, the group that is to be seen there
    :ivar version: int, 1 or 2
    :ivar controllers: tuple of str, those of version 1, such as 'cpuset', or
        'name=systemd'; empty for version 2
    """

    mount_point: pathlib.Path
    root: str
    version: int
    controllers: tuple[str, ...] = ()

    def parent(self, groups: dict[str, str]) -> pathlib.Path:
        """Return the directory of the group to put others below.

        That is our own, whose limits hold for the host then. In version 2 a
        group that holds processes cannot have others with limits below it,
        so it is the top.

        :param groups: those of this process, by controllers
        """
        if self.version == 2:
            return self.mount_point
        own = groups.get(','.join(self.controllers), '/')
        below = os.path.relpath(own, self.root)
        return (self.mount_point if below.startswith('..')
                else self.mount_point / below)

    def mount_command(self) -> list[str]:
        if self.version == 2:
            options = ['-t', 'cgroup2', 'cgroup2']
        else:
            options = ['-t', 'cgroup', '-o', ','.join(self.controllers),
                       'cgroup']
        return ['mount', *options, str(self.mount_point)]


def hierarchies(mountinfo: str) -> list[Hierarchy]:
    """Return what is mounted, from the text of /proc/self/mountinfo."""
    mounted = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(' - ')
        root, mount_point = before.split()[3:5]
        kind, _, options = after.split()[:3]
        path = pathlib.Path(mount_point)
        if kind == 'cgroup2':
            mounted.append(Hierarchy(path, root, 2))
        elif kind == 'cgroup':
            controllers = tuple(
                option for option in options.split(',')
                if option not in FLAGS
                and not option.startswith('release_agent='))
            mounted.append(Hierarchy(path, root, 1, controllers))
    return mounted


def make_group(hierarchy: Hierarchy, directory: pathlib.Path) -> None:
    """Make a control group for a host.

    :raises: OSError
    """
    if hierarchy.version == 2:
        enable_controllers(directory.parent)
        (directory / LEAF).mkdir(parents=True, exist_ok=True)
        return
    directory.mkdir(exist_ok=True)
    for name in ('cpuset.cpus', 'cpuset.mems'):
        # They begin empty, and such a group takes no process.
        if (directory / name).exists():
            (directory / name).write_text(
                (directory.parent / name).read_text())


def enable_controllers(directory: pathlib.Path) -> None:
    """Have the controllers in the groups below one of version 2."""
    present = (directory / 'cgroup.controllers').read_text().split()
    for controller in present:
        if controller in CONTROLLERS:
            try:
                (directory / 'cgroup.subtree_control').write_text(
                    f'+{controller}')
            except OSError:
                # Such as a group that holds processes; libvirt does without.
                pass


def join_groups(plan: Plan) -> None:
    """Put this process into control groups that are the host's.

    :raises: OSError
    """
    text = pathlib.Path('/proc/self/mountinfo').read_text()
    groups = machine_files.control_groups(
        pathlib.Path('/proc/self/cgroup').read_text())
    directories = {
        hierarchy.parent(groups) / plan.control_group: hierarchy
        for hierarchy in hierarchies(text)}
    # Before any is made: whoever removes them has to know.
    files.write(pathlib.Path(plan.groups_file), ''.join(
        f'{directory / LEAF if hierarchy.version == 2 else directory}\n'
        for directory, hierarchy in directories.items()))
    for directory, hierarchy in directories.items():
        make_group(hierarchy, directory)
        join(directory)


def join(group: pathlib.Path) -> None:
    """Put this process into a control group.

    :raises: OSError
    """
    (group / 'cgroup.procs').write_text('0')


def hide_groups() -> None:
    """Show the host's own control groups where the machine's have been.

    The namespace of control groups has to be a new one, which was made by
    this process after join_groups().

    :raises: OSError
    """
    text = pathlib.Path('/proc/self/mountinfo').read_text()
    for hierarchy in hierarchies(text):
        run(['umount', str(hierarchy.mount_point)])
        run(hierarchy.mount_command())
        if hierarchy.version == 2:
            join(hierarchy.mount_point / LEAF)
            enable_controllers(hierarchy.mount_point)


def mount_all(plan: Plan) -> None:
    """Mount what the host has of its own."""
    run(['mount', '-t', 'tmpfs', '-o', 'mode=755', 'minicloud', str(RUN)])
    for name in RUN_DIRECTORIES:
        (RUN / name).mkdir(mode=0o755)
    for source, target in plan.binds:
        run(['mount', '--bind', source, target])
    for path in plan.hidden:
        if os.path.isdir(path):
            run(['mount', '-t', 'tmpfs', '-o', 'mode=700', 'minicloud', path])
    for size_kib in huge_page_sizes():
        directory = huge_page_mount(size_kib)
        directory.mkdir(parents=True)
        run(['mount', '-t', 'hugetlbfs', '-o', f'pagesize={size_kib}K',
             'hugetlbfs', str(directory)])


def huge_page_sizes() -> list[int]:
    """Return the sizes of huge pages that the kernel knows, in KiB."""
    return sorted(int(path.name.removeprefix('hugepages-')[:-len('kB')])
                  for path in HUGE_PAGES.glob('hugepages-*kB'))


def huge_page_mount(size_kib: int) -> pathlib.Path:
    """Return where a host's pages of a size are mounted."""
    return RUN / 'hugepages' / str(size_kib)


def run(command: list[str]) -> None:
    """Run a command; if it fails this is the end of the host."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f'failed with status {done.returncode}: {" ".join(command)}')


def wait_for_end() -> None:
    """Reap orphans until a signal says that this is the end."""
    while True:
        number = signal.sigwait(SIGNALS)
        reap()
        if number != signal.SIGCHLD:
            return


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


def end_all() -> None:
    """End all processes of the host.

    The kernel kills those that do not end in time: PID 1 takes the whole
    namespace with it.
    """
    limit = time.monotonic() + GRACE_SECONDS
    try:
        # All that can be seen but for this one.
        os.kill(-1, signal.SIGTERM)
        while time.monotonic() < limit:
            reap()
            os.kill(-1, 0)
            time.sleep(0.05)
    except ProcessLookupError:
        # Nobody is left.
        pass


def set_up(plan: Plan) -> None:
    """Turn fresh namespaces into the host.

    :raises: OSError
    """
    socket.sethostname(plan.name)
    hide_groups()
    mount_all(plan)
    READY.touch()


def main(arguments: list[str]) -> None:
    path = arguments[-1]
    plan: Plan = decoder.decode(
        Plan, json.loads(pathlib.Path(path).read_text()))
    try:
        if arguments[:-1] != ['--inside']:
            join_groups(plan)
            # Such a namespace has the group that its maker is in as its root.
            os.execvp('unshare', [
                'unshare', '--cgroup', sys.executable, '-m', __spec__.name,
                '--inside', path])
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        set_up(plan)
    except OSError as e:
        sys.exit(f'cannot set up {plan.name}: {e}')
    wait_for_end()
    end_all()


if __name__ == '__main__':
    main(sys.argv[1:])
