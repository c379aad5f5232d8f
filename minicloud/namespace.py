# SPDX-License-Identifier: Apache-2.0
"""Compute hosts that are this machine, seen through namespaces.

Each has its own host name, file systems, processes and control groups, with
a libvirtd, an sshd and its own nova-compute. The network is the
machine's; a host is known by a loopback address.

Nothing of the machine's own libvirt is seen or touched in there, and when the
first process of a host goes, all of them go, QEMUs too.
"""

import dataclasses
import hashlib
import json
import pathlib
import time
import typing

from minicloud import accelerator
from minicloud import compute
from minicloud import errors
from minicloud import hostinit
from minicloud import libvirt
from minicloud import messaging
from minicloud import process
from minicloud import service
from minicloud import settings
from minicloud import ssh

PROJECT = pathlib.Path(__file__).resolve().parent.parent

# The services run the machine's programs and the virtual environment's,
# whatever the user's own PATH is.
PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

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


def parts(state: settings.State, cloud_settings: settings.Settings,
          host: settings.HostSettings) -> list[service.Part]:
    """Return what a compute host is made of.

    SshKeys and VirtType are the same for all hosts, so are their names.
    """
    return [ssh.SshKeys(state, cloud_settings),
            accelerator.VirtType(state, cloud_settings),
            *(kind(state, cloud_settings, host) for kind in (
                HostNamespace, Libvirtd, Sshd, NovaCompute))]


def enter(state: settings.State, cloud_settings: settings.Settings,
          host: settings.HostSettings, command: list[str]) -> list[str]:
    """Return a command line that runs a command on a compute host.

    :raises: MiniCloudError if the host is not up
    """
    namespace = HostNamespace(state, cloud_settings, host)
    try:
        init_pid = namespace.init_pid()
    except errors.NotReady as e:
        raise errors.MiniCloudError(str(e), 'Run: tools/minicloud up') from e
    # Who enters namespaces keeps the control groups it came with, and may
    # not be allowed to change them in there.
    join = ('while read -r group; do echo 0 > "$group/cgroup.procs"; done '
            '< "$0"; exec "$@"')
    return ['sh', '-c', join, str(namespace.groups_file),
            'nsenter', '--target', str(init_pid), '--all', '--',
            *command]


class HostNamespace(compute.HostService):
    """The host itself: its first process, in its namespaces."""

    prefix = 'host'

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
            self.plan_file: json.dumps(dataclasses.asdict(self.plan())),
            self.etc / 'hosts': hosts_text(
                self.settings, self.settings.host_address),
            # Without PAM, sshd does not let a locked user in.
            self.etc / 'shadow': 'root:*:19000:0:99999:7:::\n',
            # They are not to see the machine's own, which may be wrong.
            self.etc / 'libvirt' / 'libvirt.conf': ''}

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
        return {'PYTHONPATH': str(PROJECT), 'PATH': PATH,
                'PYTHONDONTWRITEBYTECODE': '1'}

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


def hosts_text(cloud_settings: settings.Settings,
               address: typing.Callable[[str], str]) -> str:
    """Return an /etc/hosts with all compute hosts.

    :param address: where a host is, by its name
    """
    return ''.join([
        f'{settings.CONTROLLER_ADDRESS} localhost\n',
        *(f'{address(host.name)} {host.name}\n'
          for host in cloud_settings.hosts)])


class _Inside(compute.HostService):
    """A process on a compute host."""

    def inner_command(self) -> list[str]:
        raise NotImplementedError

    def command(self) -> list[str]:
        # The recorded process is nsenter, which waits for the one inside. It
        # ignores the signal that ends the whole group, so that it is there
        # until the other has ended; if it is killed, so is the other.
        return ['env', '--ignore-signal=TERM', *enter(
            self.state, self.settings, self.host,
            ['setpriv', '--pdeathsig', 'KILL', 'env', '--default-signal=TERM',
             *self.inner_command()])]

    def environment(self) -> dict[str, str]:
        return {'PATH': PATH, 'HOME': '/root'}


class Libvirtd(_Inside):
    """A libvirtd, with the machine's QEMU."""

    prefix = 'libvirtd'

    def config(self) -> dict[pathlib.Path, str]:
        etc = self.etc / 'libvirt'
        mounts = [str(hostinit.huge_page_mount(size_kib))
                  for size_kib in hostinit.huge_page_sizes()]
        return {
            etc / 'libvirtd.conf': libvirt.libvirtd_conf(
                self.state, self.settings, self.host.name, self.address),
            etc / 'qemu.conf': libvirt.qemu_conf(
                self.settings, self.host.name, self.address, mounts)}

    def inner_command(self) -> list[str]:
        return ['libvirtd', '--listen']

    def check(self) -> None:
        libvirt.check(self.settings, self.host.name, self.address)


class Sshd(_Inside):
    """An sshd, which lets root in with the cloud's key."""

    prefix = 'sshd'

    def config(self) -> dict[pathlib.Path, str]:
        return {self.etc / 'sshd_config': ssh.server_config_text(
            self.state, self.settings, self.host.name, self.address)}

    def inner_command(self) -> list[str]:
        return [ssh.SSHD, '-D', '-e', '-f', str(self.etc / 'sshd_config')]

    def check(self) -> None:
        messaging.connect(self.settings.port('ssh'), self.address).close()


class NovaCompute(_Inside):
    """A nova-compute, on its host's libvirtd."""

    prefix = 'nova-compute'
    # It closes what it does in less; some of its threads never end.
    grace_seconds = 2.0

    def required(self) -> tuple[str, ...]:
        return (f'host-{self.host.name}', f'libvirtd-{self.host.name}',
                f'sshd-{self.host.name}', 'virt-type', 'nova',
                'nova-conductor', 'nova-scheduler', 'placement', 'glance',
                'neutron')

    def config(self) -> dict[pathlib.Path, str]:
        return compute.config(
            self.state, self.settings, self.host,
            accelerator.virt_type(self.state), self.data / 'nova')

    def prepare(self) -> None:
        (self.data / 'nova').mkdir(parents=True, exist_ok=True)
        compute.remove_providers(
            self.state, self.host.name, set(self.config()))

    def environment(self) -> dict[str, str]:
        programs = self.state.venv(self.release) / 'bin'
        return {**super().environment(), 'PATH': f'{programs}:{PATH}'}

    def inner_command(self) -> list[str]:
        return compute.command(self.state, self.host)

    def check(self) -> None:
        self.remark = compute.check(
            self.state, self.settings, self.host.name, self.log)
