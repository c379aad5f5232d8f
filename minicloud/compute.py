# SPDX-License-Identifier: Apache-2.0
"""What a nova-compute is told, and when it is ready."""

import json
import pathlib

from minicloud import api
from minicloud import errors
from minicloud import files
from minicloud import libvirt
from minicloud import nova
from minicloud import service
from minicloud import settings

# Of what nova and its libraries do as another process with privileges.
PRIVILEGES = ('nova_sys_admin', 'privsep_osbrick', 'vif_plug_linux_bridge',
              'vif_plug_ovs')

# In its log, when it has told Placement of its host and listens on RabbitMQ.
STARTED = 'Join ServiceGroup membership'


def directory(state: settings.State, name: str) -> pathlib.Path:
    """Return where the files of a host's services are."""
    return state.etc / name


def instances(state: settings.State) -> pathlib.Path:
    """Return where each host sees its own servers' disks.

    The path is the same on all hosts, since a live migration keeps it.
    """
    return state.cloud / 'instances'


class HostService(service.Service):
    """Something that runs for one compute host.

    :cvar prefix: str, the name is PREFIX-HOST
    """

    prefix: str

    def __init__(self, state: settings.State, settings: settings.Settings,
                 host: settings.HostSettings) -> None:
        super().__init__(state, settings)
        self.host = host
        self.name = f'{self.prefix}-{host.name}'
        self.address = settings.host_address(host.name)
        self.etc = directory(state, host.name)
        self.data = state.cloud / 'hosts' / host.name
        self.requires = self.required()

    @property
    def release(self) -> str:
        return self.host.release

    def required(self) -> tuple[str, ...]:
        """Return the names of the parts that have to be ready before."""
        return (f'host-{self.host.name}',)


def config(state: settings.State, settings: settings.Settings,
           host: settings.HostSettings, virt_type: str,
           data: pathlib.Path) -> dict[pathlib.Path, str]:
    """Return the files of a nova-compute: text by path.

    :param virt_type: 'kvm' or 'qemu'
    :param data: directory for what it keeps
    """
    options = sections(state, settings, host, virt_type, data)
    etc = directory(state, host.name)
    texts = {etc / 'nova-compute.conf': files.ini(options),
             etc / 'extra.conf': nova.extra(host.nova_conf)}
    if host.provider_config:
        path = pathlib.Path(host.provider_config)
        texts[provider_config(state, host.name) / 'provider.yaml'] = (
            path.read_text())
    return texts


def provider_config(state: settings.State, name: str) -> pathlib.Path:
    """Return the directory of a host's provider.yaml."""
    return directory(state, name) / 'provider_config'


def remove_providers(state: settings.State, name: str,
                     kept: set[pathlib.Path]) -> None:
    """Remove what an earlier ``up`` was given as a host's provider.yaml."""
    directory = provider_config(state, name)
    directory.mkdir(parents=True, exist_ok=True)
    for path in set(directory.iterdir()) - kept:
        path.unlink()


def command(state: settings.State, host: settings.HostSettings) -> list[str]:
    """Return the command line of a host's nova-compute."""
    return [state.bin('nova-compute', host.release),
            *config_files(state, host.name)]


def config_files(state: settings.State, name: str) -> list[str]:
    """Return the options that name the files, for a command line."""
    return [option for file in ('nova-compute.conf', 'extra.conf') for option
            in ('--config-file', str(directory(state, name) / file))]


def sections(state: settings.State, settings: settings.Settings,
             host: settings.HostSettings, virt_type: str,
             data: pathlib.Path) -> nova.Sections:
    """Return the nova.conf of a nova-compute."""
    address = settings.lan_address(host.name)
    sections = nova.common(state, settings)
    sections['DEFAULT'] |= {
        'host': host.name,
        'my_ip': address,
        'compute_driver': 'libvirt.LibvirtDriver',
        'state_path': data,
        'instances_path': instances(state),
        # The image's guest halts, so nobody would hear a polite word.
        'shutdown_timeout': 0,
        'resume_guests_state_on_host_boot': True,
        'vif_plugging_is_fatal': False,
        'vif_plugging_timeout': 0,
        'instance_usage_audit': False,
        'running_deleted_instance_poll_interval': 30,
        'running_deleted_instance_action': 'reap'}
    if host.topology:
        sections['pci']['device_spec'] = json.dumps({
            key: nova.PCI_ALIAS[key] for key in ('vendor_id', 'product_id')})
    sections['oslo_concurrency'] = {'lock_path': data / 'lock'}
    sections['compute'] = {
        'cpu_dedicated_set': host.dedicated or None,
        'cpu_shared_set': host.shared or None,
        'provider_config_location': provider_config(state, host.name)}
    sections['libvirt'] = {
        'virt_type': virt_type,
        # All hosts are this machine, so what it has they all have.
        'cpu_mode': 'none' if virt_type == 'qemu' else 'host-passthrough',
        'images_type': 'qcow2',
        'remote_filesystem_transport': 'ssh',
        # What nova would rather have instead cannot tell the port.
        'live_migration_uri': libvirt.connection_uri(settings, '%s'),
        'live_migration_inbound_addr': address,
        'wait_soft_reboot_seconds': 1,
        'inject_partition': -2}
    sections['vnc'] = {'enabled': False}
    sections['spice'] = {'enabled': False}
    for name in PRIVILEGES:
        # It is root: sudo need not be there.
        sections[name] = {'helper_command': ' '.join(
            [state.bin('privsep-helper', host.release),
             *config_files(state, host.name)])}
    return sections


def check(state: settings.State, settings: settings.Settings, name: str,
          log: pathlib.Path) -> str:
    """Look whether servers can be booted on a host.

    :param log: pathlib.Path, of its nova-compute
    :returns: why not, if it is not to be waited for; '' if they can
    :raises: NotReady
    """
    service.find_in_log(log, STARTED)
    # That the log tells. Then the scheduler has to find it.
    client = api.Api(state, settings)
    body = client.get(
        'nova', f'/os-hypervisors?hypervisor_hostname_pattern={name}')
    names = [hypervisor['hypervisor_hostname']
             for hypervisor in body['hypervisors']
             if hypervisor['state'] == 'up']
    if name in names:
        return ''
    body = client.get('nova', f'/os-services?binary=nova-compute&host={name}')
    if any(service['forced_down'] for service in body['services']):
        return (f'{name} is forced down, so no server is booted there. When '
                f'it is to be used again, run: openstack compute service set '
                f'--up {name} nova-compute')
    raise errors.NotReady(f'nova lists no hypervisor {name} that is up')
