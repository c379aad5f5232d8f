# SPDX-License-Identifier: Apache-2.0
"""README.txt: which file is for what, and in which order they go in."""

from collections.abc import Iterable
from collections.abc import Iterator
import textwrap

from nova_pinning.host.render import deploy
from nova_pinning.host.render import interrupts
from nova_pinning.host.render import kernel
from nova_pinning.host.render import options
from nova_pinning.host.render import partition
from nova_pinning.host.render import planned_host
from nova_pinning.host.render import runtime_settings

PATH = 'README.txt'

_FORMATS = {
    options.RenderFormat.FILES:
        'The files lie as they go below the root of a host.',
    options.RenderFormat.ANSIBLE:
        'The variables belong beside an Ansible inventory; the files for the '
        'hosts are among them.',
    options.RenderFormat.KOLLA:
        'What is below config/ belongs into the directory node_custom_config '
        'of Kolla Ansible, group_vars/ or host_vars/ beside its inventory; '
        f'what is below {deploy.HOST_FILES}/ goes below the root of the '
        'hosts, where Kolla Ansible does not come.',
    options.RenderFormat.OPENSTACK_ANSIBLE:
        'group_vars/ or host_vars/ belong into /etc/openstack_deploy; what '
        f'is below {deploy.HOST_FILES}/ goes below the root of the hosts.',
}


# How the files get to where they belong.
_COPY = {
    options.RenderFormat.FILES:
        'Copy the files, keeping their modes: scripts are executable.',
    options.RenderFormat.ANSIBLE:
        f'Put group_vars/ or host_vars/ beside the inventory, and run '
        f'ansible-playbook -i INVENTORY {deploy.PLAYBOOK}',
    options.RenderFormat.KOLLA:
        'Put config/, and group_vars/ or host_vars/, where they belong; copy '
        f'the files below {deploy.HOST_FILES}/ to the host, keeping their '
        'modes; run kolla-ansible reconfigure for the host.',
    options.RenderFormat.OPENSTACK_ANSIBLE:
        'Put group_vars/ or host_vars/ where they belong; copy the files '
        f'below {deploy.HOST_FILES}/ to the host, keeping their modes; run '
        'the playbook os-nova-install.yml for the host.',
}


def file(layout: planned_host.PlannedHost, chosen: options.RenderOptions,
         files: Iterable[options.RenderedFile]) -> options.RenderedFile:
    """What to read first."""
    paragraphs = [
        f'Files for hosts like {layout.name}, written by nova-pinning host '
        'render. ' + _FORMATS[chosen.format],
        *_cpus(layout),
        'In this order:',
        *(f'{number}. {step}'
          for number, step in enumerate(_steps(layout, chosen), 1)),
        *_choices(chosen),
        'The files, and how each takes effect where a host is not booted '
        'anew:']
    text = '\n\n'.join(textwrap.fill(
        paragraph, 78, break_long_words=False, break_on_hyphens=False,
        subsequent_indent='   ' if paragraph[:1].isdigit() else '')
        for paragraph in paragraphs)
    return options.RenderedFile(PATH,
                                text + '\n\n' + '\n'.join(_listed(files)),
                                'what to read first', 'by reading')


def _cpus(layout: planned_host.PlannedHost) -> Iterator[str]:
    parts = [
        f'{name} {cpus}' for name, cpus in (
            ('host', layout.host_cpus), ('poll', layout.poll_cpus),
            ('shared', layout.shared_cpus),
            ('dedicated', layout.dedicated_cpus)) if cpus]
    yield f'CPUs: {"; ".join(parts)}.'


def _steps(layout: planned_host.PlannedHost,
           chosen: options.RenderOptions) -> Iterator[str]:
    yield ('Empty the host: disable its nova-compute and migrate its guests '
           'away. Guests keep the CPUs they had.')
    yield _COPY[chosen.format]
    yield ('Settle who places interrupts (see below). For the unit: systemctl '
           f'disable irqbalance; systemctl enable {interrupts.UNIT}.')
    if layout.quiet_cpus:
        yield f'systemctl enable {runtime_settings.UNIT}'
    if chosen.isolation is options.Isolation.PARTITION:
        yield f'systemctl enable {partition.UNIT}'
    if kernel.needs_pages_unit(layout):
        yield f'systemctl enable {kernel.PAGES_UNIT}'
    yield ('update-grub, or hand kernel-command-line.txt to the boot loader; '
           'take what its comments name from the old command line.')
    yield 'Boot the host.'
    if layout.poll_cpus:
        yield ('Run nova-pinning-openvswitch once, and restart Open '
               'vSwitch.')
    yield 'nova-pinning host check PLAN on the host tells what is not right.'
    yield 'Enable nova-compute again.'


def _choices(chosen: options.RenderOptions) -> Iterator[str]:
    yield ('Interrupts: ' + interrupts.EITHER + ' The unit keeps the queues '
           'of the planned devices where the plan has them, and is the one '
           'for hosts that do not change; irqbalance, with its banned CPUs, '
           'spreads them by load over the CPUs for the host.')
    why = {
        options.Confinement.AFFINITY:
            'by CPUAffinity= of systemd. It works under both versions of '
            'cgroups, and threads that need other CPUs, as those of '
            'OVS-DPDK, can go there; but so can any other that asks. '
            '--confine cgroup writes AllowedCPUs= of the slices in its '
            'place, which binds all that is in them and needs cgroups v2; '
            '--confine both writes the two.',
        options.Confinement.CGROUP:
            'by AllowedCPUs= of the slices that they are in, which needs '
            'cgroups v2 and leaves no way out. Guests are in machine.slice, '
            'for which nothing is set.',
        options.Confinement.BOTH:
            'by CPUAffinity= of systemd, and by AllowedCPUs= of the slices '
            'that they are in (cgroups v2), which leaves no way out. Guests '
            'are in machine.slice, for which nothing is set.'}
    yield 'Host services are kept off the CPUs of guests ' + (
        why[chosen.confinement])
    yield ("tuned: its profile cpu-partitioning does much of the same. Use "
           'its variables and leave out the files for systemd and irqbalance, '
           f'isolation and {runtime_settings.UNIT}, or leave tuned alone.')


def _listed(files: Iterable[options.RenderedFile]) -> Iterator[str]:
    for rendered in files:
        mode = ' (executable)' if rendered.executable else ''
        yield f'{rendered.path}{mode}'
        for line in (rendered.summary,
                     f'takes effect: {rendered.takes_effect}'):
            yield textwrap.fill(line, 78, initial_indent='    ',
                                subsequent_indent='    ',
                                break_on_hyphens=False)
    yield ''
