# SPDX-License-Identifier: Apache-2.0
"""The unit that keeps interrupts and the kernel's work off guests' CPUs.

It sees to all that the kernel can be told only while it runs.
"""

from collections.abc import Iterator

from nova_pinning.host import levers
from nova_pinning.host.render import manifest
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host
from nova_pinning.host.render import tuned
from nova_pinning import spelling

UNIT = 'nova-pinning-host.service'
SCRIPT = 'usr/local/sbin/nova-pinning-host'


def files(layout: planned_host.PlannedHost,
          chosen: options.RenderOptions) -> Iterator[manifest.RenderedFile]:
    """The unit and its script."""
    summary = "interrupts and the kernel's own work: where each goes"
    takes_effect = (
        'after systemctl disable --now irqbalance and systemctl enable --now '
        f'{UNIT}; with systemctl restart {UNIT} for queues and threads of the '
        'kernel that came later')
    yield manifest.explained(layout.name, manifest.RenderedFile(
        SCRIPT, ''.join((
            _HEAD, f"host_cpus='{layout.host_cpus}'\n",
            f"host_mask='{layout.host_cpus.kernel_mask}'\n",
            _interrupts(layout),
            _kernel(layout, tuned.covers_kernel(layout, chosen))
            if layout.quiet_cpus else '', '\nexit "$status"\n')),
        summary, takes_effect, executable=True))
    yield manifest.explained(layout.name, manifest.RenderedFile(
        f'etc/systemd/system/{UNIT}', f"""\
[Unit]
Description=Interrupts and work of the kernel away from the CPUs of guests
Wants=network-online.target
After=network-online.target tuned.service irqbalance.service
Conflicts=irqbalance.service
RequiresMountsFor=/{SCRIPT}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/{SCRIPT}

[Install]
WantedBy=multi-user.target
""", summary, takes_effect,
        before_boot=f'systemctl disable irqbalance; systemctl enable {UNIT}'),
        'irqbalance is stopped: it would move interrupts about among the '
        'CPUs that it is left with, and away from where this puts them.')


def _interrupts(layout: planned_host.PlannedHost) -> str:
    devices = ''.join(
        f'    spread {interrupt.address} '
        f'{" ".join(map(str, interrupt.cpus))}'
        f'  # {spelling.printable(interrupt.name)}\n'
        for interrupt in layout.plan.interrupts if interrupt.cpus)
    return '\n' + manifest.comment(
        'Numbers of interrupts change when the host boots, so devices go by '
        'their PCI address. The queues of a device take turns on its CPUs; '
        'every other interrupt may go to any CPU for the host. What the '
        'kernel places by itself (queues of NVMe disks, timers) cannot be '
        'moved: isolcpus=managed_irq keeps it off.',
    ) + _INTERRUPTS.replace('@devices\n', devices)


def _kernel(layout: planned_host.PlannedHost, by_tuned: bool) -> str:
    """What the kernel is told.

    :param by_tuned: whether tuned sees to work, clock, balancing and threads
    """
    quiet = ' '.join(map(str, layout.quiet_cpus))
    lines = [] if by_tuned else [
        '\n# Work that is put off, such as writing to disks.\n',
        'tell "$sys/devices/virtual/workqueue/cpumask" "$host_mask"\n',
        '\n# A vCPU that was idle for a moment finds its CPU at full clock.\n',
        f'for cpu in {quiet}; do\n',
        '    tell "$sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_governor" '
        'performance\n',
        'done\n']
    if layout.dedicated_cpus:
        if not by_tuned:
            lines += ['\n# Memory stays on the node where it was put.\n',
                      'tell "$proc/sys/kernel/numa_balancing" 0\n']
        lines += ['\n# Nobody merges pages.\n',
                  'tell "$sys/kernel/mm/ksm/run" 2\n']
    for name, value in layout.plan.levers.items():
        lever = levers.LEVERS[name]
        # '/sys/...' or '/proc/...', below what the script has for it.
        path = f'${lever.path[1:]}'
        text = manifest.comment(
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
    return ''.join((*lines, *(() if by_tuned else (_THREADS,))))


_HEAD = r"""set -u
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

_INTERRUPTS = r"""
moved=0
fixed=''
done=' '

# Interrupt, CPUs.
place() {
    file=$proc/irq/$1/smp_affinity_list
    # It may be gone again.
    [ -e "$file" ] || return 0
    if { echo "$2" >"$file"; } 2>/dev/null; then
        moved=$((moved + 1))
    else
        fixed="$fixed $1"
    fi
}

# PCI address, CPUs one by one.
spread() {
    device=$sys/bus/pci/devices/$1
    if [ ! -e "$device" ]; then
        echo "there is no device $1" >&2
        return
    fi
    shift
    for irq in $({ ls "$device/msi_irqs" || cat "$device/irq"; } 2>/dev/null |
            sort -n); do
        place "$irq" "$1"
        done="$done$irq "
        next=$1
        shift
        set -- "$@" "$next"
    done
}

if { echo "$host_mask" >"$proc/irq/default_smp_affinity"; } 2>/dev/null; then
@devices
    for path in "$proc"/irq/[0-9]*; do
        irq=${path##*/}
        case $done in
        *" $irq "*) ;;
        *) place "$irq" "$host_cpus" ;;
        esac
    done
    echo "$moved interrupts placed"
    if [ -n "$fixed" ]; then
        echo "placed by the kernel itself, or CPUs are offline:$fixed"
    fi
else
    echo 'interrupts cannot be placed: this needs root' >&2
    status=1
fi
"""

_THREADS = r"""
# Threads of the kernel: kthreadd, which is process 2, and its children. Those
# of guests and of interrupts are placed by libvirt and with the interrupts.
# What the kernel has bound to a CPU stays there.
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
"""
