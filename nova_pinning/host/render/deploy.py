# SPDX-License-Identifier: Apache-2.0
"""The same, as variables for those who run Ansible."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import json
from typing import Any

import yaml

from nova_pinning.host import provider_config
from nova_pinning.host.render import kernel
from nova_pinning.host.render import nova_conf
from nova_pinning.host.render import openvswitch
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host
from nova_pinning.host.render import provider
from nova_pinning.host.render import systemd

#: Under this the files lie that go on the hosts as they are.
HOST_FILES = 'host'

#: Copies nova_pinning_files to the hosts.
PLAYBOOK = 'nova-pinning.yml'

# What Jinja would take for its own.
_TEMPLATE_MARKS = ('{{', '{%', '{#')

#: Containers of Kolla Ansible that are to stay on the CPUs for the host, by
#: the variable of their dimensions.
KOLLA_CONTAINERS = (
    'neutron_l3_agent', 'neutron_openvswitch_agent', 'nova_compute',
    'openvswitch_db', 'openvswitch_vswitchd')


class _Template(str):
    """Text that Jinja is meant to read."""

    __slots__ = ()


class _PlaybookDumper(yaml.SafeDumper):

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text_node(dumper: _PlaybookDumper, text: str) -> yaml.ScalarNode:
    tag = 'tag:yaml.org,2002:str'
    if not isinstance(text, _Template) and any(
            mark in text for mark in _TEMPLATE_MARKS):
        tag = '!unsafe'
    # What begins with a digit may be a number to other readers of YAML.
    style = '|' if '\n' in text else "'" if text[:1].isdigit() else None
    return dumper.represent_scalar(tag, str(text), style)


_PlaybookDumper.add_representer(str, _text_node)
_PlaybookDumper.add_representer(_Template, _text_node)


def ansible(
        layout: planned_host.PlannedHost, options: options.RenderOptions,
        files: Iterable[options.RenderedFile]
) -> Iterator[options.RenderedFile]:
    """All values, and all files, as variables of one's own playbooks."""
    yield from _variables(
        layout, options, 'nova_compute', _own_variables(layout, options) | {
            'nova_pinning_files': [{
                'dest': f'/{file.path}',
                'mode': '0755' if file.executable else '0644',
                'content': file.text,
            } for file in files if file.path != kernel.TEXT_PATH]},
        'what the plan says, as variables of Ansible',
        'when a playbook uses them',
        f'nova_pinning_files are the files for the host; {PLAYBOOK} copies '
        'them there.')
    yield _playbook(layout, ':'.join(options.hosts) or 'nova_compute')


def _playbook(layout: planned_host.PlannedHost,
              hosts: str) -> options.RenderedFile:
    """Copies the files; what needs a reboot is left to people."""
    summary = 'a playbook that copies the files to the hosts'
    takes_effect = (f'after ansible-playbook -i INVENTORY {PLAYBOOK}; '
                    'nothing is restarted')
    tasks = [
        {'name': 'Make the directories',
         'ansible.builtin.file': {
             'path': _Template('{{ item.dest | dirname }}'),
             'state': 'directory'}},
        {'name': 'Copy the files',
         'ansible.builtin.copy': {
             'dest': _Template('{{ item.dest }}'),
             'mode': _Template('{{ item.mode }}'),
             'content': _Template('{{ item.content }}')}}]
    for task in tasks:
        task |= {
            'loop': _Template('{{ nova_pinning_files }}'),
            'loop_control': {'label': _Template('{{ item.dest }}')}}
    play = {'name': 'What a plan of host CPUs needs', 'hosts': hosts,
            'become': True, 'tasks': tasks}
    return options.RenderedFile(
        PLAYBOOK, options.head(layout.name, summary, takes_effect)
        + '---\n' + yaml.dump([play], Dumper=_PlaybookDumper, sort_keys=False),
        summary, takes_effect)


def _own_variables(layout: planned_host.PlannedHost,
                   options: options.RenderOptions) -> dict[str, Any]:
    nova = layout.host.nova
    return {
        'nova_pinning_plan': layout.name,
        'nova_pinning_purpose': str(layout.plan.purpose),
        'nova_pinning_host_cpus': str(layout.host_cpus),
        'nova_pinning_shared_cpus': str(layout.shared_cpus),
        'nova_pinning_dedicated_cpus': str(layout.dedicated_cpus),
        'nova_pinning_poll_cpus': str(layout.poll_cpus),
        'nova_pinning_irqbalance_banned_cpus': str(layout.banned_cpus),
        'nova_pinning_kernel_command_line': [
            str(flag) for flag in kernel.flags(layout, options)],
        'nova_pinning_huge_pages': [
            {
                'node': node,
                'size_kib': size,
                'pages': pages}
            for size in layout.page_sizes_kib
            for node, pages in sorted(layout.huge_pages(size).items())],
        'nova_pinning_reserved_huge_pages': [{
            'node': node,
            'size_kib': size,
            'pages': pages
        } for (node, size), pages in sorted(nova.reserved_huge_pages.items())],
        'nova_pinning_reserved_memory_mib': nova.reserved_memory_mib,
        'nova_pinning_cpu_allocation_ratio': nova.cpu_allocation_ratio,
        'nova_pinning_ram_allocation_ratio': nova.ram_allocation_ratio,
        **({} if nova.packs_cells is None else {
               'nova_pinning_packs_cells': nova.packs_cells}),
        'nova_pinning_pci_device_spec': [{
            'address': device.address} for device in layout.devices],
        'nova_pinning_pci_alias': nova_conf.aliases(layout, options),
        'nova_pinning_interrupts': [{
            'address': interrupt.address,
            'name': interrupt.name,
            'cpus': str(interrupt.cpus)
        } for interrupt in layout.plan.interrupts],
        'nova_pinning_services': list(systemd.services(options)),
        'nova_pinning_openvswitch_other_config': dict(
            openvswitch.settings(layout)),
        'nova_pinning_traits': _traits(layout)}


def _traits(layout: planned_host.PlannedHost) -> Sequence[str]:
    made = provider.make(layout)
    return sorted(made.entry.traits if made else layout.host.traits)


def kolla(
        layout: planned_host.PlannedHost, chosen: options.RenderOptions,
        files: Iterable[options.RenderedFile]
) -> Iterator[options.RenderedFile]:
    """What Kolla Ansible merges into its containers' configuration.

    It reads node_custom_config (roles/nova-cell/tasks/config.yml), and
    dimensions of containers and the provider's configuration from the
    inventory (roles/nova-cell/defaults/main.yml).
    """
    summary = 'what nova may use of the CPUs, the memory and the devices'
    takes_effect = 'with kolla-ansible reconfigure'
    where = ([f'config/nova/{host}/nova.conf' for host in chosen.hosts]
             or ['config/nova/nova-compute.conf'])
    for path in where:
        yield options.RenderedFile(
            path, options.head(
                layout.name, summary, takes_effect,
                'It belongs into the directory that node_custom_config '
                'names, from where Kolla Ansible merges it into the '
                'nova.conf of nova_compute.')
            + nova_conf.text(layout, chosen), summary, takes_effect)
    variables: dict[str, Any] = {
        f'{container}_dimensions': _dimensions(layout, container)
        for container in KOLLA_CONTAINERS}
    made = provider.make(layout)
    if made is not None:
        variables['nova_cell_compute_provider_config'] = yaml.safe_load(
            provider_config.text(made, layout.name))
    yield from _variables(
        layout, chosen, 'compute', variables,
        'CPUs of containers, and the traits of the hosts', takes_effect,
        'The variables are those of the roles neutron, nova-cell and '
        'openvswitch. nova_libvirt has none here: guests run below it, and '
        'need all CPUs.')
    yield from _on_host(
        file for file in files
        if file.path not in (nova_conf.PATH, provider.PATH)
        and not any(f'/{unit}.d/' in file.path for unit in systemd.SERVICES))


def _dimensions(layout: planned_host.PlannedHost, container: str) -> _Template:
    # A cgroup binds polling threads as well.
    cpus = layout.host_cpus
    if container == 'openvswitch_vswitchd':
        cpus |= layout.poll_cpus
    return _Template('{{ default_container_dimensions | '
                     f"combine({{'cpuset_cpus': '{cpus}'}}) }}}}")


def openstack_ansible(
    layout: planned_host.PlannedHost, options: options.RenderOptions,
    files: Iterable[options.RenderedFile],
) -> Iterator[options.RenderedFile]:
    """What the role os_nova of OpenStack-Ansible takes.

    See its defaults/main.yml and templates/nova.conf.j2.
    """
    nova = layout.host.nova
    overrides: dict[str, dict[str, Any]] = {}
    for setting in nova_conf.settings(layout, options):
        if setting.name == 'reserved_huge_pages':
            # Several values of one option: the keys of a mapping.
            overrides.setdefault(setting.group, {})[setting.name] = {
                value: None for value in setting.values}
        elif setting.group == 'compute':
            overrides.setdefault(setting.group, {})[setting.name] = (
                setting.values[0])
    variables: dict[str, Any] = {
        'nova_nova_conf_overrides': overrides,
        'nova_reserved_host_memory_mb': nova.reserved_memory_mib,
        'nova_ram_allocation_ratio': nova.ram_allocation_ratio}
    if layout.shared_cpus:
        variables['nova_cpu_allocation_ratio'] = nova.cpu_allocation_ratio
    if layout.devices:
        variables['nova_device_spec'] = [
            {'address': device.address} for device in layout.devices]
        variables['nova_pci_alias'] = [
            json.dumps(alias).replace('$', '$$')
            for alias in nova_conf.aliases(layout, options)]
    yield from _variables(
        layout, options, 'nova_compute', variables,
        'variables of the role os_nova',
        'with openstack-ansible os-nova-install.yml',
        'It belongs below /etc/openstack_deploy. A variable that is set '
        'somewhere else too is not merged with this one: what '
        'nova_nova_conf_overrides and nova_pci_alias have there belongs in '
        'here. nova-api needs nova_pci_alias as well.')
    yield from _on_host(file for file in files if file.path != nova_conf.PATH)


def _on_host(
        files: Iterable[options.RenderedFile]
) -> Iterator[options.RenderedFile]:
    for file in files:
        yield dataclasses.replace(file, path=f'{HOST_FILES}/{file.path}')


def _variables(
    layout: planned_host.PlannedHost,
    chosen: options.RenderOptions,
    group: str,
    variables: Mapping[str, Any],
    summary: str,
    takes_effect: str,
    note: str,
) -> Iterator[options.RenderedFile]:
    """A file of variables, of a group or of each host."""
    text = options.head(layout.name, summary, takes_effect,
                        note) + '---\n' + yaml.dump(dict(variables),
                                                    Dumper=_PlaybookDumper,
                                                    sort_keys=False,
                                                    width=10**6)
    where = ([f'host_vars/{host}' for host in chosen.hosts]
             or [f'group_vars/{group}'])
    for directory in where:
        yield options.RenderedFile(f'{directory}/nova_pinning.yml', text,
                                   summary, takes_effect)
