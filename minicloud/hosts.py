# SPDX-License-Identifier: Apache-2.0
"""What runs on compute hosts of either kind: libvirtd, sshd, nova-compute."""

import json
import pathlib

from minicloud import accelerator
from minicloud import api
from minicloud import compute
from minicloud import errors
from minicloud import files
from minicloud import libvirt
from minicloud import messaging
from minicloud import namespace
from minicloud import nova
from minicloud import service
from minicloud import settings
from minicloud import ssh
from minicloud import virtual

# Of what nova and its libraries do as another process with privileges.
PRIVILEGES = ('nova_sys_admin', 'privsep_osbrick', 'vif_plug_linux_bridge',
              'vif_plug_ovs')


def of(state: settings.State, settings: settings.Settings,
       host: settings.HostSettings) -> compute.ComputeHost:
    """Return a host: namespaces of this machine, or a QEMU."""
    kind = (virtual.VirtualMachine if host.topology
            else namespace.HostNamespace)
    return kind(state, settings, host)


def parts(state: settings.State, settings: settings.Settings,
          host: settings.HostSettings) -> list[service.Part]:
    """Return the parts that a compute host is made of.

    SshKeys and VirtType are the same for all hosts, so are their names.
    """
    own = virtual.Tunnel if host.topology else Sshd
    return [ssh.SshKeys(state, settings),
            accelerator.VirtType(state, settings),
            of(state, settings, host),
            *(kind(state, settings, host)
              for kind in (own, Libvirtd, NovaCompute))]


class Inside(compute.HostService):
    """A process on a compute host."""

    def inner_command(self) -> list[str]:
        raise NotImplementedError

    def command(self) -> list[str]:
        return of(self.state, self.settings, self.host).serve(
            self.inner_command())

    def environment(self) -> dict[str, str]:
        return {'PATH': compute.PATH, 'HOME': '/root'}


class Libvirtd(Inside):
    """A libvirtd, with the machine's QEMU."""

    prefix = 'libvirtd'
    deadline_seconds = 120.0

    def inner_command(self) -> list[str]:
        return ['libvirtd', '--listen']

    def check(self) -> None:
        libvirt.check(self.settings, self.host.name, self.address)


class Sshd(Inside):
    """An sshd, which lets root in with the cloud's key.

    A virtual host starts its own.
    """

    prefix = 'sshd'

    def inner_command(self) -> list[str]:
        return [ssh.SSHD, '-D', '-e', '-f', str(self.etc / 'sshd_config')]

    def check(self) -> None:
        messaging.connect(self.settings.port('ssh'), self.address).close()


class NovaCompute(Inside):
    """A nova-compute, on its host's libvirtd."""

    prefix = 'nova-compute'
    # It closes what it does in less; some of its threads never end.
    grace_seconds = 2.0

    def __init__(self, state: settings.State, settings: settings.Settings,
                 host: settings.HostSettings) -> None:
        super().__init__(state, settings, host)
        self.providers = self.etc / 'provider_config'
        if host.topology:
            # Emulated, on a machine that has other things to do.
            self.deadline_seconds = 900.0

    def required(self) -> tuple[str, ...]:
        way_in = 'tunnel' if self.host.topology else 'sshd'
        own = [f'{kind}-{self.host.name}'
               for kind in ('host', 'libvirtd', way_in)]
        return (*own, 'virt-type', 'nova', 'nova-conductor', 'nova-scheduler',
                'placement', 'glance', 'neutron')

    def config(self) -> dict[pathlib.Path, str]:
        texts = {self.etc / 'nova-compute.conf': files.ini(self.sections()),
                 self.etc / 'extra.conf': nova.extra(self.host.nova_conf)}
        if self.host.provider_config:
            texts[self.providers / 'provider.yaml'] = pathlib.Path(
                self.host.provider_config).read_text()
        return texts

    def prepare(self) -> None:
        for directory in (self.data / 'nova', self.providers):
            directory.mkdir(parents=True, exist_ok=True)
        # What an earlier ``up`` was given.
        for path in set(self.providers.iterdir()) - set(self.config()):
            path.unlink()

    def config_files(self) -> list[str]:
        """Return the options that name the files, for a command line."""
        return nova.config_files(self.etc, 'nova-compute.conf')

    def inner_command(self) -> list[str]:
        programs = self.state.venv(self.release) / 'bin'
        return ['env', f'PATH={programs}:{compute.PATH}',
                self.state.bin('nova-compute', self.release),
                *self.config_files()]

    def sections(self) -> files.Sections:
        """Return its nova.conf."""
        host = self.host
        virt_type = ('qemu' if host.topology
                     else accelerator.virt_type(self.state))
        # It is root: sudo need not be there.
        helper: dict[str, object] = {'helper_command': ' '.join([
            self.state.bin('privsep-helper', self.release),
            *self.config_files()])}
        return files.merged(
            nova.common(self.state, self.settings),
            files.options(
                'nova-compute.conf', host=host.name,
                address=self.settings.lan_address(host.name),
                data=self.data / 'nova', providers=self.providers,
                instances=compute.instances(self.state), virt_type=virt_type,
                # All hosts are this machine, so what it has they all have.
                cpu_mode='none' if virt_type == 'qemu' else 'host-passthrough',
                migration_uri=libvirt.connection_uri(self.settings, '%s')),
            {'compute': {'cpu_dedicated_set': host.dedicated or None,
                         'cpu_shared_set': host.shared or None},
             'pci': {'device_spec': json.dumps({
                 key: nova.PCI_ALIAS[key] for key in (
                     'vendor_id', 'product_id')}) if host.topology else None},
             **dict.fromkeys(PRIVILEGES, helper)})

    def check(self) -> None:
        """Look whether servers can be booted on the host.

        If that is not to be waited for, the remark tells why.

        :raises: NotReady
        """
        # In its log, when it has told Placement of its host and listens on
        # RabbitMQ.
        service.find_in_log(self.log, nova.STARTED)
        # That the log tells. Then the scheduler has to find it.
        name = self.host.name
        client = api.Api(self.state, self.settings)
        body = client.get(
            'nova', f'/os-hypervisors?hypervisor_hostname_pattern={name}')
        self.remark = ''
        if any(hypervisor['hypervisor_hostname'] == name
               and hypervisor['state'] == 'up'
               for hypervisor in body['hypervisors']):
            return
        body = client.get(
            'nova', f'/os-services?binary=nova-compute&host={name}')
        if not any(service['forced_down'] for service in body['services']):
            raise errors.NotReady(f'nova lists no hypervisor {name} that is '
                                  f'up')
        self.remark = (
            f'{name} is forced down, so no server is booted there. When it '
            f'is to be used again, run: openstack compute service set --up '
            f'{name} nova-compute')
