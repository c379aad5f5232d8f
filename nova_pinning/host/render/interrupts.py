# SPDX-License-Identifier: Apache-2.0
"""Interrupts on the CPUs for the host, placed by a unit of ours."""

from collections.abc import Iterator

from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host
from nova_pinning import spelling

UNIT = 'nova-pinning-interrupts.service'
SCRIPT = 'usr/local/sbin/nova-pinning-interrupts'

#: What is to be known of irqbalance.
EITHER = (
    f'Either irqbalance or {UNIT}, not both: irqbalance moves interrupts '
    'about among the CPUs that it is left with, and away from where the unit '
    'has put them.')


def files(layout: planned_host.PlannedHost) -> Iterator[options.RenderedFile]:
    """A unit that places interrupts, and its script."""
    summary = 'interrupts: where each goes'
    takes_effect = ('after systemctl disable --now irqbalance and systemctl '
                    f'enable --now {UNIT}; with systemctl restart {UNIT} '
                    'after queues were changed')
    yield from options.script_with_unit(
        options.RenderedFile(SCRIPT, _script(layout, summary, takes_effect),
                             summary, takes_effect, executable=True),
        UNIT, options.head(layout.name, summary, takes_effect, EITHER),
        'Description=Interrupts away from the CPUs of guests\n'
        'Wants=network-online.target\n'
        'After=network-online.target irqbalance.service\n'
        'Conflicts=irqbalance.service')


def _script(layout: planned_host.PlannedHost, summary: str,
            takes_effect: str) -> str:
    devices = [
        f'spread {interrupt.address} {" ".join(map(str, interrupt.cpus))}'
        f'  # {spelling.printable(interrupt.name)}\n'
        for interrupt in layout.plan.interrupts if interrupt.cpus]
    return ''.join((
        '#!/bin/sh\n',
        options.head(
            layout.name, summary, takes_effect,
            'Numbers of interrupts change when the host boots, so devices '
            'go by their PCI address. The queues of a device take turns on '
            'its CPUs; every other interrupt may go to any CPU for the '
            'host. What the kernel places by itself (queues of NVMe disks, '
            'timers) cannot be moved: isolcpus=managed_irq keeps it off.'),
        'set -u\n',
        f"host_cpus='{layout.host_cpus}'\n",
        f"host_mask='{layout.host_cpus.kernel_mask}'\n",
        _SCRIPT_HEAD, *devices, _SCRIPT_END))


_SCRIPT_HEAD = r"""
sys=${NOVA_PINNING_SYS:-/sys}
proc=${NOVA_PINNING_PROC:-/proc}
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

# The interrupts of the device with this PCI address.
interrupts() {
    device=$sys/bus/pci/devices/$1
    if [ -d "$device/msi_irqs" ]; then
        for path in "$device"/msi_irqs/*; do
            echo "${path##*/}"
        done | sort -n
    elif [ -r "$device/irq" ]; then
        cat "$device/irq"
    fi
}

# PCI address, CPUs one by one.
spread() {
    address=$1
    shift
    if [ ! -e "$sys/bus/pci/devices/$address" ]; then
        echo "there is no device $address" >&2
        return
    fi
    for irq in $(interrupts "$address"); do
        place "$irq" "$1"
        done="$done$irq "
        next=$1
        shift
        set -- "$@" "$next"
    done
}

if ! echo "$host_mask" >"$proc/irq/default_smp_affinity"; then
    echo 'interrupts cannot be placed: this needs root' >&2
    exit 1
fi

"""

_SCRIPT_END = r"""
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
"""
