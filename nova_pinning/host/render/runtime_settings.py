# SPDX-License-Identifier: Apache-2.0
"""What the kernel can be told of CPUs only while it runs."""

from collections.abc import Iterator

from nova_pinning.host import levers
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host

UNIT = 'nova-pinning-kernel.service'
SCRIPT = 'usr/local/sbin/nova-pinning-kernel'


def files(layout: planned_host.PlannedHost) -> Iterator[options.RenderedFile]:
    """A unit that keeps the kernel off CPUs, unless there is no need."""
    if not layout.quiet_cpus:
        return
    summary = "the kernel's own work: kept off the CPUs of guests"
    takes_effect = f'after systemctl enable --now {UNIT}'
    yield from options.script_with_unit(
        options.RenderedFile(SCRIPT, _script(layout, summary, takes_effect),
                             summary, takes_effect, executable=True),
        UNIT, options.head(layout.name, summary, takes_effect),
        'Description=Work of the kernel away from the CPUs of guests\n'
        'Wants=network-online.target\n'
        'After=network-online.target')


def _script(layout: planned_host.PlannedHost, summary: str,
            takes_effect: str) -> str:
    quiet = ' '.join(map(str, layout.quiet_cpus))
    lines = [
        f"host_cpus='{layout.host_cpus}'\n",
        f"host_mask='{layout.host_cpus.kernel_mask}'\n",
        _SCRIPT_HEAD,
        '\n# Work that is put off, such as writing to disks.\n',
        'tell "$sys/devices/virtual/workqueue/cpumask" "$host_mask"\n',
        '\n# A vCPU that was idle for a moment finds its CPU at full clock.\n',
        f'for cpu in {quiet}; do\n',
        '    tell "$sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_governor" '
        'performance\n',
        'done\n']
    if layout.dedicated_cpus:
        lines += [
            '\n# Memory stays on the node where it was put, and nobody '
            'merges it.\n',
            'tell "$proc/sys/kernel/numa_balancing" 0\n',
            'tell "$sys/kernel/mm/ksm/run" 2\n']
    for name, value in layout.plan.levers.items():
        lever = levers.LEVERS[name]
        # '/sys/...' or '/proc/...', below what the script has for it.
        path = f'${lever.path[1:]}'
        text = options.comment(
            f'{lever.why[0].upper()}{lever.why[1:]}.',
            f'Costs: {lever.costs}. Not where {lever.not_where}. See the '
            f"kernel's {lever.source}.")
        lines.append(f'\n{text}')
        if '{cpu}' in path:
            path = path.replace('{cpu}', '$cpu')
            lines += [f'for cpu in {quiet}; do\n',
                      f'    tell "{path}" {value}\n', 'done\n']
        else:
            lines.append(f'tell "{path}" {value}\n')
    return ''.join((
        '#!/bin/sh\n',
        options.head(
            layout.name, summary, takes_effect,
            'Threads of the kernel that begin later, as those of a file '
            'system that is mounted then, are moved by systemctl restart '
            f'{UNIT}. What the kernel has bound to a CPU stays there.',
            'tuned does all of this too: leave this out where it runs with '
            'its profile cpu-partitioning.'),
        *lines, _SCRIPT_END))


_SCRIPT_HEAD = r"""set -u
sys=${NOVA_PINNING_SYS:-/sys}
proc=${NOVA_PINNING_PROC:-/proc}
status=0

# File, what to write to it. Not every kernel has each of them.
tell() {
    [ -e "$1" ] || return 0
    if ! { echo "$2" >"$1"; } 2>/dev/null; then
        echo "$2 cannot be written to $1" >&2
        status=1
    fi
}
"""

_SCRIPT_END = r"""
# Threads of the kernel: kthreadd, which is process 2, and its children. Those
# of guests and of interrupts are placed by libvirt and with the interrupts.
moved=0
for entry in "$proc"/[0-9]*; do
    { read -r stat <"$entry/stat"; } 2>/dev/null || continue
    pid=${entry##*/}
    case $pid:${stat##*) } in
    2:* | *:?' 2 '*) ;;
    *) continue ;;
    esac
    case $stat in
    *'(irq/'* | *'(vhost-'* | *'(kvm-'*) continue ;;
    esac
    if taskset -pc "$host_cpus" "$pid" >/dev/null 2>&1; then
        moved=$((moved + 1))
    fi
done
echo "$moved threads of the kernel placed"
exit "$status"
"""
