# SPDX-License-Identifier: Apache-2.0
"""The manifest as those take it who deploy with Ansible.

What their tool has variables for is among these, and a playbook copies the
rest to the hosts.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import json
from typing import Any

import yaml

from nova_pinning import cpuset
from nova_pinning.host import provider_config
from nova_pinning.host.render import kernel
from nova_pinning.host.render import manifest
from nova_pinning.host.render import nova_conf
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host
from nova_pinning.host.render import provider

#: Copies nova_pinning_files to the hosts.
PLAYBOOK = 'nova-pinning.yml'

# What Jinja would take for its own.
_TEMPLATE_MARKS = ('{{', '{%', '{#')

# What Kolla Ansible gives to default_container_dimensions, which would not
# end if it named itself.
_KOLLA_DEFAULT_DIMENSIONS = (
    "(default_container_dimensions_docker if kolla_container_engine == "
    "'docker' else default_container_dimensions_podman)")


class _Template(str):
    """Text that Jinja is meant to read."""

    __slots__ = ()


class _PlaybookDumper(yaml.SafeDumper):

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False,
                        indentless: bool = False) -> None:
        # Lists are indented below their key, as ansible-lint has it.
        super().increase_indent(flow, False)


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


@dataclasses.dataclass(frozen=True, slots=True)
class DeploymentForm:
    """How a tool that runs Ansible is told.

    :param variables: of its own
    :param takes_over: what it puts into its place by itself
    :param takes_effect: how its variables do
    :param note: what is to be known of them
    :param install: what README.txt says is to be done with the files
    """

    variables: Callable[
        [planned_host.PlannedHost, options.RenderOptions], dict[str, Any]]
    takes_over: frozenset[manifest.ManifestPart]
    takes_effect: str
    note: str
    install: str


def files(
    layout: planned_host.PlannedHost, chosen: options.RenderOptions,
    plain: Sequence[manifest.RenderedFile],
) -> Iterator[manifest.RenderedFile]:
    """The same for those who deploy in another form.

    :param plain: the files as they go on a host
    """
    form = FORMS[chosen.format]
    if chosen.format is options.RenderFormat.KOLLA:
        yield from _kolla_conf(layout, chosen)
    variables = form.variables(layout, chosen) | {'nova_pinning_files': [
        {'dest': f'/{file.path}',
         'mode': '0755' if file.executable else '0644',
         'content': file.text}
        for file in plain if file.part not in form.takes_over
        and file.part is not manifest.ManifestPart.BOOT_LOADER]}
    text = yaml.dump(variables, Dumper=_PlaybookDumper, sort_keys=False,
                     width=10**6)
    for directory in ([f'host_vars/{host}' for host in chosen.hosts]
                      or [f'group_vars/{chosen.group}']):
        yield manifest.explained(
            layout.name, manifest.RenderedFile(
                f'{directory}/nova_pinning.yml',
                f'# yamllint disable rule:line-length\n---\n{text}',
                'what the plan says, as variables of Ansible',
                form.takes_effect),
            f'nova_pinning_files are files for the host; {PLAYBOOK} copies '
            'them there.', form.note)
    yield _playbook(layout, ':'.join(chosen.hosts) or chosen.group)
    yield from (file for file in plain
                if file.part is manifest.ManifestPart.BOOT_LOADER)


def _playbook(layout: planned_host.PlannedHost,
              hosts: str) -> manifest.RenderedFile:
    """Copies the files; what needs a reboot is left to people."""
    tasks = [
        {'name': 'Make the directories',
         'ansible.builtin.file': {
             'path': _Template('{{ item.dest | dirname }}'),
             'state': 'directory',
             # Those that are there keep theirs.
             'mode': _Template('{{ omit }}')}},
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
    return manifest.explained(layout.name, manifest.RenderedFile(
        PLAYBOOK, '---\n' + yaml.dump([play], Dumper=_PlaybookDumper,
                                      sort_keys=False),
        'a playbook that copies the files to the hosts',
        f'after ansible-playbook -i INVENTORY {PLAYBOOK}; nothing is '
        'restarted'))


def _command_line(layout: planned_host.PlannedHost,
                  chosen: options.RenderOptions) -> dict[str, Any]:
    return {'nova_pinning_kernel_command_line': [
        str(flag) for flag in kernel.flags(layout, chosen)]}


def _kolla_conf(
    layout: planned_host.PlannedHost, chosen: options.RenderOptions,
) -> Iterator[manifest.RenderedFile]:
    """What Kolla Ansible merges into the nova.conf of nova-compute.

    See roles/nova-cell/tasks/config.yml. It reads such files by service and
    by host, and not by group, but as templates.
    """
    conf = dataclasses.replace(
        nova_conf.unexplained(layout, chosen),
        takes_effect='with kolla-ansible reconfigure')
    why = ('It belongs into the directory that node_custom_config names, '
           'from where Kolla Ansible merges it into the nova.conf of '
           'nova_compute.')
    for host in chosen.hosts:
        yield manifest.explained(layout.name, dataclasses.replace(
            conf, path=f'config/nova/{host}/nova.conf'), why)
    if not chosen.hosts:
        yield manifest.explained(
            layout.name, dataclasses.replace(
                conf, path='config/nova/nova-compute.conf',
                text=f"{{% if '{chosen.group}' in group_names %}}\n"
                     f'{conf.text}{{% endif %}}\n'),
            why, f'It is for the group {chosen.group} alone. Where there is '
            'such a file already, add this one at its end.')


def _kolla(layout: planned_host.PlannedHost,
           chosen: options.RenderOptions) -> dict[str, Any]:
    """Dimensions of containers, and the provider's configuration.

    See group_vars/all and roles/nova-cell/defaults/main.yml. All containers
    are held by the default; guests run below nova_libvirt.
    """
    variables: dict[str, Any] = {
        'default_container_dimensions': _dimensions(
            _KOLLA_DEFAULT_DIMENSIONS, layout.host_cpus),
        'nova_libvirt_dimensions': _Template(
            f'{{{{ {_KOLLA_DEFAULT_DIMENSIONS} | '
            'combine(nova_libvirt_default_dimensions, recursive=True) }}')}
    if layout.poll_cpus:
        # A cgroup binds polling threads as well.
        variables |= {
            f'{container}_dimensions': _dimensions(
                'default_container_dimensions',
                layout.host_cpus | layout.poll_cpus)
            for container in ('openvswitch_vswitchd', 'ovsdpdk_vswitchd')}
    made = provider.make(layout)
    if made is not None:
        variables['nova_cell_compute_provider_config'] = yaml.safe_load(
            provider_config.text(made, layout.name))
    return variables


def _dimensions(default: str, cpus: cpuset.CpuSet) -> _Template:
    return _Template(f"{{{{ {default} | "
                     f"combine({{'cpuset_cpus': '{cpus}'}}) }}}}")


def _openstack_ansible(layout: planned_host.PlannedHost,
                       chosen: options.RenderOptions) -> dict[str, Any]:
    """What the role os_nova takes.

    See its defaults/main.yml and templates/nova.conf.j2.
    """
    nova = layout.host.nova
    overrides: dict[str, dict[str, Any]] = {}
    for setting in nova_conf.settings(layout, chosen):
        if setting.name == 'reserved_huge_pages':
            # Several values of one option: the keys of a mapping.
            overrides.setdefault(setting.group, {})[setting.name] = {
                value: None for value in setting.values}
        elif setting.group not in ('DEFAULT', 'pci') or (
                setting.name == 'report_in_placement'):
            overrides.setdefault(setting.group, {})[setting.name] = (
                setting.values[0])
    variables: dict[str, Any] = {
        'nova_nova_conf_overrides': overrides,
        'nova_reserved_host_memory_mb': nova.reserved_memory_mib,
        'nova_ram_allocation_ratio': nova.ram_allocation_ratio}
    if layout.shared_cpus:
        variables['nova_cpu_allocation_ratio'] = nova.cpu_allocation_ratio
    if layout.devices:
        variables['nova_device_spec'] = nova_conf.device_specs(layout)
        variables['nova_pci_alias'] = [
            json.dumps(alias).replace('$', '$$')
            for alias in nova_conf.aliases(layout)]
    return variables


#: The forms for Ansible.
FORMS: Mapping[options.RenderFormat, DeploymentForm] = {
    options.RenderFormat.ANSIBLE: DeploymentForm(
        _command_line, frozenset(),
        f'after ansible-playbook -i INVENTORY {PLAYBOOK}',
        'nova_pinning_kernel_command_line is for what writes the '
        'configuration of the boot loader. What else the plan says is in the '
        'plan, which is YAML and can be read as variables.',
        'Put group_vars/ or host_vars/ beside the inventory, and run '
        f'ansible-playbook -i INVENTORY {PLAYBOOK}'),
    options.RenderFormat.KOLLA: DeploymentForm(
        _kolla, frozenset((
            manifest.ManifestPart.NOVA_CONF, manifest.ManifestPart.TRAITS)),
        'with kolla-ansible reconfigure',
        'The others are of Kolla Ansible. default_container_dimensions holds '
        'all containers of the host on the CPUs for it, but for those whose '
        'own dimensions are set elsewhere; guests run below nova_libvirt, '
        'which keeps all CPUs. What globals.yml says of a variable outweighs '
        'this. A container is made anew when its dimensions change.',
        'Put what is below config/ into the directory node_custom_config of '
        'Kolla Ansible, and group_vars/ or host_vars/ beside its inventory; '
        f'run ansible-playbook -i INVENTORY {PLAYBOOK}, and kolla-ansible '
        'reconfigure for the host.'),
    options.RenderFormat.OPENSTACK_ANSIBLE: DeploymentForm(
        _openstack_ansible, frozenset((
            manifest.ManifestPart.NOVA_CONF,)),
        'with openstack-ansible os-nova-install.yml',
        'The others are those of the role os_nova. A variable that is set '
        'somewhere else too is not merged with this one: what '
        'nova_nova_conf_overrides and nova_pci_alias have there belongs in '
        'here. nova-api needs nova_pci_alias as well.',
        'Put group_vars/ or host_vars/ into /etc/openstack_deploy; run '
        f'openstack-ansible {PLAYBOOK}, and os-nova-install.yml for the '
        'host.')}
