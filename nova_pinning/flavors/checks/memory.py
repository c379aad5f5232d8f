# SPDX-License-Identifier: Apache-2.0
"""P2xx: memory, its pages and NUMA cells.

What nova does is in nova.virt.hardware (numa_get_constraints,
_numa_fit_instance_cell, _get_constraint_mappings_from_flavor) and in
nova.virt.libvirt.driver.LibvirtDriver (_get_guest_memory_backing_config).
"""

import re

from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning.document import quantities
from nova_pinning.flavors.checks import checked
from nova_pinning.host import words
from nova_pinning import model

#: Page sizes in KiB that Linux has on any architecture that nova runs on.
_PAGE_SIZES_KIB = frozenset((
    4, 16, 64, 1024, 2048, 16384, 32768, 524288, 1048576, 16777216))
_SMALLEST_HUGE_PAGE_KIB = 2048
#: What the smallest images that are in use for tests need.
_LEAST_MEMORY_MIB = 64

_PAGE_KEYS = ('hw:mem_page_size', 'hw_mem_page_size')
_CELL_KEY = re.compile(r'hw[:_]numa_(?:cpus|mem)\.(\d{1,9})')


def _page_size_kib(subject: checked.CheckedFlavor) -> int | None:
    """As nova stores it: see model.GuestCell."""
    return subject.cells[0].page_size_kib if subject.cells else None


@check_rule.rule(
    'P201', Severity.ERROR, 'memory is not a multiple of the page size',
    why='nova fills each NUMA cell of the guest with whole pages and finds '
        'no host if they do not come out even',
    advice='offer memory that is a multiple of the page size in every NUMA '
           'cell, or take smaller pages')
def page_multiple(subject: checked.CheckedFlavor) -> check_rule.Violations:
    size_kib = _page_size_kib(subject)
    severity = None
    what = ''
    if size_kib == model.PAGES_LARGE:
        size_kib = _SMALLEST_HUGE_PAGE_KIB
        severity = Severity.WARNING
        what = ', the smallest huge pages of x86'
    if size_kib is None or size_kib not in _PAGE_SIZES_KIB:
        return
    for number, cell in enumerate(subject.cells):
        if cell.memory_mib * 1024 % size_kib:
            which = (f'NUMA cell {number} has ' if len(subject.cells) > 1
                     else '')
            yield subject.violation(
                f'{which}{cell.memory_mib} MiB of memory, no multiple of '
                f'pages of {quantities.shown_page_size(size_kib)}{what}',
                (f'hw:numa_mem.{number}', *_PAGE_KEYS, 'ram'),
                severity=severity)
            return


@check_rule.rule(
    'P202', Severity.WARNING, 'several NUMA cells without a page size',
    why='each cell is bound to the memory of one host node, in small pages '
        'that nova neither counts against guests without a NUMA topology '
        'nor, on shared guests, against each other, so a node runs out and '
        'the kernel kills guests; and hosts that keep their memory in huge '
        'pages have little left',
    advice='set hw:mem_page_size to large, small or a size such as 1GB',
    in_catalogue='write page_size: large, small or a size such as 1GiB')
def no_page_size(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if len(subject.cells) > 1 and _page_size_kib(subject) is None:
        yield subject.violation(
            f'{len(subject.cells)} NUMA cells, but no hw:mem_page_size',
            ('hw:numa_nodes', 'hw_numa_nodes'))


@check_rule.rule(
    'P203', Severity.WARNING, 'page size makes a shared guest a NUMA guest',
    why='with a page size nova makes a NUMA topology of one cell: all vCPUs '
        'and all memory of the guest must come from one host node, though '
        'nothing in the flavor says so',
    advice='leave hw:mem_page_size out, or say hw:numa_nodes=1 if that is '
           'what is wanted',
    in_catalogue=(
        'leave page_size out, or say numa_nodes: 1 if that is what '
        'is wanted'))
def pages_without_numa(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if (not subject.is_pinned and _page_size_kib(subject) is not None and
            not subject.value('numa_nodes')):
        yield subject.about('mem_page_size',
                            'confines the guest to one host NUMA node')


@check_rule.rule(
    'P204', Severity.WARNING, 'NUMA cells that nova does not make',
    why='nova reads hw:numa_cpus and hw:numa_mem only if something else asks '
        'for a NUMA topology',
    advice='set hw:numa_nodes',
    in_catalogue='write numa_nodes')
def unread_cells(subject: checked.CheckedFlavor) -> check_rule.Violations:
    keys = _cell_keys(subject)
    if keys and subject.is_accepted and not subject.guest:
        yield subject.violation(
            f'{keys[0][0]} is not read, since hw:numa_nodes is not set',
            (keys[0][0],))


@check_rule.rule(
    'P205', Severity.WARNING, 'NUMA cell beyond the last',
    why='nova reads hw:numa_cpus.N and hw:numa_mem.N from 0 up to the first '
        'that is missing, and ignores the others',
    advice='number the cells from 0 without gaps')
def cell_beyond(subject: checked.CheckedFlavor) -> check_rule.Violations:
    count = len(subject.cells)
    for key, number in _cell_keys(subject):
        if count and number >= count:
            yield subject.violation(
                f'{key} is not read: the guest has {count} NUMA '
                f'{"cell" if count == 1 else "cells"}', (key,))
            return


def _cell_keys(subject: checked.CheckedFlavor) -> list[tuple[str, int]]:
    matches = (_CELL_KEY.fullmatch(key)
               for key in (*subject.specs, *subject.image))
    return [(match[0], int(match[1])) for match in matches if match]


@check_rule.rule(
    'P206', Severity.ERROR, 'page size that no host has',
    why='no kernel has pages of this size, so no host fits; a plain number '
        'is in KiB, and b stands for bits',
    advice='write a size with its unit, such as 2MB or 1GB')
def odd_page_size(subject: checked.CheckedFlavor) -> check_rule.Violations:
    size_kib = _page_size_kib(subject)
    if size_kib is not None and size_kib >= 0 and (
            size_kib not in _PAGE_SIZES_KIB):
        yield subject.about(
            'mem_page_size',
            f'asks for pages of {quantities.shown_page_size(size_kib)}')


@check_rule.rule(
    'P207', Severity.WARNING, 'realtime without huge pages',
    why='page faults and misses of the address translation cache take longer '
        'than a realtime task can wait',
    advice='set hw:mem_page_size=large, or 1GB',
    in_catalogue='write page_size: large, or 1GiB')
def realtime_pages(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.is_realtime and subject.is_pinned and (
            subject.is_accepted) and _page_size_kib(subject) in (
                None, 4, 16, 64, model.PAGES_SMALL):
        yield subject.violation('a realtime guest with small memory pages',
                                (*_PAGE_KEYS, 'hw:cpu_realtime'))


@check_rule.rule(
    'P208', Severity.NOTE, 'realtime without locked memory',
    why="nova's libvirt driver locks the memory of realtime guests whatever "
        'hw:locked_memory says; that goes unseen when memory is counted, or '
        'if realtime is taken away later',
    advice='set hw:locked_memory=yes, with a page size',
    in_catalogue='write locked_memory: true, with a page_size')
def realtime_locked(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if not subject.is_realtime or not subject.is_pinned:
        return
    locked = subject.value('locked_memory')
    if locked is None:
        yield subject.violation('hw:locked_memory is not set',
                                ('hw:cpu_realtime',))
    elif not checked.is_true(locked):
        yield subject.about('locked_memory', 'does nothing on a realtime '
                            'guest', Severity.WARNING)


@check_rule.rule(
    'P209', Severity.WARNING, 'memory encryption model without encryption',
    why='nova reads the model only if memory encryption is asked for',
    advice='set hw:mem_encryption=yes, or leave the model out')
def unread_encryption_model(
    subject: checked.CheckedFlavor,
) -> check_rule.Violations:
    if subject.value('mem_encryption_model') and not (
            checked.is_true(subject.value('mem_encryption'))):
        yield subject.about('mem_encryption_model', 'is not read')


@check_rule.rule(
    'P210', Severity.WARNING, 'hardly any memory',
    why='no guest system that people use starts with so little; perhaps the '
        'unit is missing, and numbers without one are MiB',
    advice='give the memory in MiB',
    in_catalogue='write memory with its unit, such as 8GiB')
def hardly_any_memory(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.flavor.memory_mib < _LEAST_MEMORY_MIB:
        yield subject.violation(f'{subject.flavor.memory_mib} MiB of memory',
                                ('ram',))


@check_rule.rule(
    'P211', Severity.WARNING, 'pinned guest without a page size',
    why='nova binds its memory to one host node, and without a page size '
        'does not look whether that node has so much left: other guests may '
        'have taken it, and the kernel kills guests when the node runs out',
    advice='set hw:mem_page_size to large, small or a size such as 1GB',
    in_catalogue='write page_size: large, small or a size such as 1GiB')
def pinned_without_page_size(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    # Of several cells P202 tells.
    if subject.is_pinned and len(subject.cells) == 1 and (
            _page_size_kib(subject) is None):
        yield subject.violation('one NUMA cell, but no hw:mem_page_size',
                                subject.policy_keys)


@check_rule.rule(
    'P212', Severity.WARNING, 'encrypted memory that is on any node',
    why='private memory of AMD SEV-SNP and Intel TDX guests comes from '
        'guest_memfd, for which there is no memory policy before Linux 6.19: '
        'the kernel takes it from any node, strict or not',
    advice='run Linux 6.19 or later on the hosts, with a QEMU that binds '
           'guest_memfd, or do not count on local memory')
def unbound_private_memory(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    encryption = subject.value('mem_encryption_model')
    if not subject.cells or encryption not in ('amd-sev-snp', 'intel-tdx') or (
            not checked.is_true(subject.value('mem_encryption'))):
        return
    old = [f'{host.title} ({host.description.system.kernel or "not known"})'
           for host in subject.candidates
           if (host.description.system.version or (0, 0)) < (6, 19)]
    if old or not subject.hosts:
        yield subject.violation(
            f'{subject.shown("mem_encryption_model")}: its nodes may have '
            'none of its memory' + (
                f', by the kernel of {words.listed(old, 2)}' if old else
                ' under kernels before Linux 6.19'),
            ('hw:mem_encryption_model', 'hw_mem_encryption_model'))
