# SPDX-License-Identifier: Apache-2.0
"""Compute hosts that are this machine, seen through namespaces.

Each has its own host name, file systems, processes and control groups, with
a libvirtd, an sshd and its own nova-compute. The network is the
machine's; a host is known by a loopback address.

Nothing of the machine's own libvirt is seen or touched in there, and when the
first process of a host goes, all of them go, QEMUs too.
"""

import hashlib
import json
import pathlib
import time

from minicloud import compute
from minicloud import errors
from minicloud import hostinit
from minicloud import process
from minicloud import ssh
from nova_pinning.document import encoder

PROJECT = pathlib.Path(__file__).resolve().parent.parent

# The machine's directories that a host has its own of.
LIBVIRT_ETC = pathlib.Path('/etc/libvirt')
LIBVIRT_DATA = pathlib.Path('/var/lib/libvirt')
LIBVIRT_LOG = pathlib.Path('/var/log/libvirt')
LIBVIRT_CACHE = pathlib.Path('/var/cache/libvirt')

HOSTS_FILE = pathlib.Path('/etc/hosts')
SHADOW_FILE = pathlib.Path('/etc/shadow')
SSH_CONFIG = pathlib.Path('/etc/ssh/ssh_config')
SSH_USER_DIRECTORY = '/root/.ssh'

# A group goes when its last process has been reaped.
REMOVE_SECONDS = 5.0


class HostNamespace(compute.ComputeHost):
    """The host itself: its first process, in its namespaces."""

    def required(self) -> tuple[str, ...]:
        # A guest that has huge pages is gone before they are given back.
        return ('ssh-keys', 'huge-pages')

    @property
    def groups_file(self) -> pathlib.Path:
        """Names the directories of the host's control groups."""
        return self.state.run / f'{self.name}.groups'

    @property
    def plan_file(self) -> pathlib.Path:
        return self.etc / 'plan.json'

    def plan(self) -> hostinit.Plan:
        state, etc, data = self.state, self.etc, self.data
        whose = hashlib.sha256(str(state.root).encode()).hexdigest()[:8]
        binds = {
            LIBVIRT_ETC: etc / 'libvirt',
            LIBVIRT_DATA: data / 'libvirt',
            LIBVIRT_LOG: state.log / f'qemu-{self.host.name}',
            # What QEMU can do takes seconds to find out.
            LIBVIRT_CACHE: state.cache / 'libvirt' / self.host.name,
            HOSTS_FILE: etc / 'hosts',
            SHADOW_FILE: etc / 'shadow',
            SSH_CONFIG: ssh.client_config(state),
            compute.instances(state): data / 'instances'}
        return hostinit.Plan(
            self.host.name, f'minicloud-{whose}-{self.host.name}',
            str(self.groups_file),
            tuple((str(source), str(target))
                  for target, source in binds.items()),
            # What is in there would outweigh what the hosts are told.
            (SSH_USER_DIRECTORY,))

    def config(self) -> dict[pathlib.Path, str]:
        return {
            **super().config(),
            self.plan_file: json.dumps(encoder.encode(self.plan())),
            # Without PAM, sshd does not let a locked user in.
            self.etc / 'shadow': 'root:*:19000:0:99999:7:::\n'}

    def prepare(self) -> None:
        if self.state.root.is_relative_to(hostinit.RUN):
            raise errors.MiniCloudError(
                f'the hosts could not see {self.state.root}, since each has '
                f'a {hostinit.RUN} of its own',
                'Give another directory with --state')
        compute.instances(self.state).mkdir(exist_ok=True)
        for source, _ in self.plan().binds:
            # Those that are files have been written.
            if not pathlib.Path(source).exists():
                pathlib.Path(source).mkdir(parents=True)
        self.remove_groups()

    def command(self) -> list[str]:
        return ['unshare', '--mount', '--uts', '--pid', '--fork',
                '--kill-child', '--mount-proc', str(self.python()), '-m',
                'minicloud.hostinit', str(self.plan_file)]

    def python(self) -> pathlib.Path:
        """Return the Python that all releases' environments were made with.

        Guests would end if the host were started anew with another release.
        """
        return pathlib.Path(self.state.bin('python', self.release)).resolve()

    def environment(self) -> dict[str, str]:
        return {'PYTHONPATH': str(PROJECT), 'PATH': compute.PATH,
                'PYTHONDONTWRITEBYTECODE': '1'}

    def enter(self, command: list[str]) -> list[str]:
        try:
            init_pid = self.init_pid()
        except errors.NotReady as e:
            raise errors.MiniCloudError(
                str(e), 'Run: tools/minicloud up') from e
        # Who enters namespaces keeps the control groups it came with, and may
        # not be allowed to change them in there.
        join = ('while read -r group; do echo 0 > "$group/cgroup.procs"; done '
                '< "$0"; exec "$@"')
        return ['sh', '-c', join, str(self.groups_file), 'nsenter',
                '--target', str(init_pid), '--all', '--', *command]

    def serve(self, command: list[str]) -> list[str]:
        # The recorded process is nsenter, which waits for the one inside. It
        # ignores the signal that ends the whole group, so that it is there
        # until the other has ended; if it is killed, so is the other.
        return ['env', '--ignore-signal=TERM', *self.enter(
            ['setpriv', '--pdeathsig', 'KILL', 'env', '--default-signal=TERM',
             *command])]

    def check(self) -> None:
        ready = f'/proc/{self.init_pid()}/root{hostinit.READY}'
        if not pathlib.Path(ready).exists():
            raise errors.NotReady(f'{ready} is not there yet')

    def init_pid(self) -> int:
        """Return the host's first process, as a pid of the machine's.

        :raises: NotReady if there is none
        """
        record = process.read(self.record)
        if record is None or not record.alive():
            raise errors.NotReady(f'{self.host.name} is not up')
        children = pathlib.Path(
            f'/proc/{record.pid}/task/{record.pid}/children')
        try:
            return int(children.read_text().split()[0])
        except (OSError, IndexError) as e:
            raise errors.NotReady(f'{self.host.name} is not up') from e

    def down(self) -> None:
        super().down()
        self.remove_groups()

    def remove_groups(self) -> None:
        """Remove the control groups, those that libvirt has made included."""
        limit = time.monotonic() + REMOVE_SECONDS
        try:
            lines = self.groups_file.read_text().splitlines()
        except FileNotFoundError:
            return
        name = self.plan().control_group
        for line in lines:
            path = pathlib.Path(line)
            top = path.parent if path.name == hostinit.LEAF else path
            if top.name != name:
                continue
            while not _remove_group(top) and time.monotonic() < limit:
                time.sleep(0.05)
        self.groups_file.unlink()


def _remove_group(top: pathlib.Path) -> bool:
    """Remove a control group with those below.

    :returns: whether it is gone
    """
    below = sorted(top.glob('**/'), reverse=True)
    try:
        for directory in below:
            directory.rmdir()
    except OSError:
        return not top.exists()
    return True
