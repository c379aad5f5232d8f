#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What irqbalance is told."""

from nova_pinning.host.render import interrupts
from nova_pinning.host.render import layout as layouts
from nova_pinning.host.render import options

PATH = 'etc/default/irqbalance'


def file(layout: layouts.Layout) -> options.File:
    """What irqbalance reads as its environment."""
    summary = 'the CPUs that irqbalance leaves alone'
    takes_effect = 'when irqbalance is restarted'
    why = [
        interrupts.EITHER,
        'Once a list is given, irqbalance no longer looks up which CPUs are '
        'isolated or without tick. So all CPUs are in it but those for the '
        'host.',
        'It belongs to /etc/sysconfig/irqbalance on Red Hat and its kin, and '
        'takes the place of what is there.']
    system = layout.host.system
    taken = ((system.isolated_cpus | system.nohz_full_cpus)
             & layout.host_cpus)
    if taken:
        why.append(f'CPUs {taken} are isolated or without tick on the '
                   'kernel that runs, but for the host by the plan: they '
                   'are not banned. Take them from isolcpus= and nohz_full=.')
    cpus = layout.banned_cpus
    lines = [f'IRQBALANCE_BANNED_CPULIST={cpus}\n' if cpus else
             '# All CPUs are for the host.\n']
    if cpus:
        lines.append(options.comment(
            'For irqbalance before 1.8, which knows no list, in its place '
            '(later ones prefer it and complain):'))
        lines.append(
            f'#IRQBALANCE_BANNED_CPUS={cpus.kernel_mask}\n')
    return options.File(
        PATH, options.head(
            layout.name, summary, takes_effect, *why) + ''.join(lines),
        summary, takes_effect)
