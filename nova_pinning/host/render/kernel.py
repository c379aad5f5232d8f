# SPDX-License-Identifier: Apache-2.0
"""The kernel's command line, and huge pages that it cannot set aside."""

from collections.abc import Iterator
import dataclasses

from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.host import plan_model
from nova_pinning.host.render import manifest
from nova_pinning.host.render import options
from nova_pinning.host.render import planned_host

GRUB_PATH = f'etc/default/grub.d/{manifest.NAME}.cfg'
TEXT_PATH = 'kernel-command-line.txt'
PAGES_PATH = f'etc/tmpfiles.d/{manifest.NAME}.conf'

#: The first kernel that knows isolcpus=managed_irq; those before it drop all
#: of isolcpus= for a word that they do not know.
_MANAGED_SINCE = 5, 6


@dataclasses.dataclass(frozen=True, slots=True)
class KernelFlag:
    """A word of the kernel's command line.

    :param why: what it does and why it is there
    """

    name: str
    value: str
    why: str

    def __str__(self) -> str:
        return f'{self.name}={self.value}'


def flags(layout: planned_host.PlannedHost,
          options: options.RenderOptions) -> tuple[KernelFlag, ...]:
    """What the plan adds to the command line, in this order.

    :raises errors.InputError: if CPUs are to be isolated and there are none
    """
    return tuple((*_page_flags(layout), *_device_flags(layout),
                  *_isolation_flags(layout, options)))


def needs_pages_file(layout: planned_host.PlannedHost) -> bool:
    """Whether huge pages are to be set aside after the kernel has booted."""
    return any(_boot_pages(layout, size) is None
               for size in layout.page_sizes_kib)


def _boot_pages(layout: planned_host.PlannedHost, size_kib: int) -> str | None:
    """The value of hugepages=, None if no value does it."""
    pages = layout.huge_pages(size_kib)
    if len(set(pages.values())) == 1:
        # The kernel spreads them over the nodes with memory evenly.
        return str(sum(pages.values()))
    if (layout.kernel is None
            or layout.kernel < plan_model.PAGES_BY_NODE_SINCE):
        return None
    return ','.join(f'{node}:{count}' for node, count in sorted(pages.items())
                    if count)


def _page_flags(layout: planned_host.PlannedHost) -> Iterator[KernelFlag]:
    if layout.plan.page_size_kib:
        yield KernelFlag(
            'default_hugepagesz', _size(layout.plan.page_size_kib),
            'The size of the pages that programs get which do not name one, '
            'and of what is mounted at /dev/hugepages.')
    for size in layout.page_sizes_kib:
        pages = _boot_pages(layout, size)
        if pages is None:
            continue
        yield KernelFlag('hugepagesz', _size(size),
                         'The size of the pages that the next flag counts.')
        yield KernelFlag(
            'hugepages', pages,
            f'{_share(layout, size)}. They are set aside while booting, when '
            'memory is not in pieces yet; guests cannot get what the host '
            'has taken. A host with less memory than the planned one may not '
            'boot with them.')


def _share(layout: planned_host.PlannedHost, size_kib: int) -> str:
    pages = layout.huge_pages(size_kib)
    listed = ', '.join(f'{count} on node {node}'
                       for node, count in sorted(pages.items()))
    return f'{sum(pages.values())} pages: {listed}'


def _size(kib: int) -> str:
    return quantities.page_size_text(kib).removesuffix('iB')


def _device_flags(layout: planned_host.PlannedHost) -> Iterator[KernelFlag]:
    """The IOMMU, where guests or OVS-DPDK get devices as a whole."""
    if not layout.poll_cpus and not any(
            device.alias or device.mdev_type
            for device in layout.host.pci_devices):
        return
    cpu = layout.host.cpu_model
    if cpu.arch != 'x86_64':
        yield KernelFlag('iommu.passthrough', '1',
                         "The host's own devices do without the IOMMU's "
                         'translation; those of guests have it.')
        return
    # AMD's needs no switch: it is on unless it is switched off.
    if (layout.host.system.virtualization != 'svm'
            and 'amd' not in cpu.vendor.lower()):
        yield KernelFlag(
            'intel_iommu', 'on',
            'Switches the IOMMU on, without which no device can be '
            'passed through. It means nothing to other than Intel '
            'CPUs.')
    yield KernelFlag(
        'iommu', 'pt',
        "The host's own devices do without the IOMMU's translation, "
        'which costs them speed; those of guests have it.')


def _isolation_flags(layout: planned_host.PlannedHost,
                     chosen: options.RenderOptions) -> Iterator[KernelFlag]:
    yield KernelFlag(
        'irqaffinity', str(layout.host_cpus),
        'The CPUs for interrupts that nobody has placed, new ones among '
        'them: those of the host.')
    if chosen.confinement is options.Confinement.TUNED or chosen.isolation in (
            options.Isolation.NONE, options.Isolation.PARTITION):
        return
    cpus = layout.quiet_cpus
    if not cpus:
        raise errors.InputError(
            f'--isolation {chosen.isolation} has nothing to isolate: the '
            'plan has no dedicated CPUs and none that poll',
            layout.host.where, 'leave it out')
    boot = (' CPU 0 is among them: many kernels leave the CPU that booted '
            'out, since one has to keep time.' if 0 in cpus else '')
    yield KernelFlag(
        'nohz_full', str(cpus),
        'No timer tick on these CPUs while just one thread wants to run. '
        'Every entry to the kernel becomes slower there, so guests with much '
        'I/O may lose more than they win: measure.' + boot)
    yield KernelFlag(
        'rcu_nocbs', str(cpus),
        "RCU's deferred work of these CPUs is done by threads that can run "
        'elsewhere. nohz_full implies it; kernels built without nohz_full '
        'know it by itself.')
    if chosen.isolation is options.Isolation.FULL:
        managed = (layout.kernel or _MANAGED_SINCE) >= _MANAGED_SINCE
        yield KernelFlag(
            'isolcpus', f'{"managed_irq," if managed else ""}domain,{cpus}',
            ('managed_irq: interrupts that the kernel places by itself (NVMe '
             'queues) keep off these CPUs as far as they can. '
             if managed else '') + 'domain: the '
            'scheduler does not balance load over these CPUs. A thread that '
            'may run on several of them stays on the first, so nothing but '
            'pinned threads belongs there: emulator threads of guests that '
            'have no shared CPUs, and floating guests, pile up on one CPU.')


def files(layout: planned_host.PlannedHost,
          chosen: options.RenderOptions) -> Iterator[manifest.RenderedFile]:
    """The command line, and pages that it cannot set aside."""
    command_line = flags(layout, chosen)
    notes = tuple(_notes(layout, command_line, chosen))
    variable = 'GRUB_CMDLINE_LINUX_DEFAULT'
    # Debian's and Ubuntu's update-grub reads it as a script.
    yield manifest.explained(layout.name, manifest.RenderedFile(
        GRUB_PATH, ''.join(
            f'\n{manifest.comment(flag.why)}{variable}="${variable} {flag}"\n'
            for flag in command_line),
        "additions to the kernel's command line, for GRUB",
        'after update-grub and a reboot',
        before_boot=f'update-grub, or hand {TEXT_PATH} to the boot loader; '
        'take what its comments name from the old command line.'), *notes)
    yield manifest.explained(
        layout.name, manifest.RenderedFile(
            TEXT_PATH, ' '.join(map(str, command_line)) + '\n',
            "additions to the kernel's command line, on one line",
            'after a reboot, once the boot loader has them',
            part=manifest.ManifestPart.BOOT_LOADER),
        'Where grubby writes the configuration of the boot loader:',
        'grubby --update-kernel=ALL '
        f"--args=\"$(grep -v '^#' {TEXT_PATH})\"",
        *(f'{flag}: {flag.why}' for flag in command_line), *notes)
    if needs_pages_file(layout):
        yield _pages(layout)


def _notes(
    layout: planned_host.PlannedHost, command_line: tuple[KernelFlag, ...],
    chosen: options.RenderOptions,
) -> Iterator[str]:
    stale = contradictions(layout, command_line, chosen)
    if stale:
        yield ('The kernel that runs has these, which contradict the plan or '
               f'come twice with it; take them away: {" ".join(stale)}')
    if needs_pages_file(layout):
        yield (f'/{PAGES_PATH} sets the other huge pages aside: their number '
               'differs between nodes, and kernels before 5.16 cannot be '
               'told that here.')


def contradictions(
    layout: planned_host.PlannedHost, command_line: tuple[KernelFlag, ...],
    chosen: options.RenderOptions,
) -> tuple[str, ...]:
    """What is on the command line that was found, and must go."""
    rendered = {str(flag) for flag in command_line}
    names = {flag.name for flag in command_line} | {
        'default_hugepagesz', 'hugepagesz', 'hugepages', 'irqaffinity'}
    if chosen.confinement is not options.Confinement.TUNED:
        # Those of tuned, which changes them by itself.
        names |= {'isolcpus', 'nohz_full', 'rcu_nocbs'}
    return tuple(dict.fromkeys(
        word for word in layout.host.system.command_line.split()
        if word.partition('=')[0] in names and word not in rendered))


def _pages(layout: planned_host.PlannedHost) -> manifest.RenderedFile:
    """What has systemd-tmpfiles set huge pages aside, node by node."""
    return manifest.explained(layout.name, manifest.RenderedFile(
        PAGES_PATH, ''.join(
            f'w /sys/devices/system/node/node{node}/hugepages/'
            f'hugepages-{size}kB/nr_hugepages - - - - {count}\n'
            for size in layout.page_sizes_kib
            if _boot_pages(layout, size) is None
            for node, count in sorted(layout.huge_pages(size).items())),
        'huge pages by NUMA node, for pages that boot cannot spread so',
        f'early in each boot, or after systemd-tmpfiles --create /{PAGES_PATH}'
    ), 'Where memory is short or in pieces the kernel sets fewer aside: '
        'nova-pinning host check tells.')
