# SPDX-License-Identifier: Apache-2.0
"""H5xx: huge pages."""


from nova_pinning.checks import check_rule
from nova_pinning.document import quantities
from nova_pinning.host.check import commands
from nova_pinning.host.check import facts
from nova_pinning.host import words


def _totals(view: facts.CheckedHost) -> dict[tuple[int, int], int]:
    return {(node.id, size_kib): pages
            for node in view.facts.host.nodes
            for size_kib, pages in node.huge_pages.items()}


def _set_pages(node: int, size_kib: int, pages: int) -> str:
    return commands.write(
        f'/sys/devices/system/node/node{node}/hugepages/'
        f'hugepages-{size_kib}kB/nr_hugepages', pages)


def _compare(
    view: facts.CheckedHost, *, has_less: bool,
) -> check_rule.Violations:
    totals = _totals(view)
    for node in view.planned.nodes:
        for size_kib, planned in sorted(node.huge_pages.items()):
            there = totals.get((node.id, size_kib), 0)
            if there != planned and (there < planned) == has_less:
                size = quantities.shown_page_size(size_kib)
                yield check_rule.Violation(
                    subject=f'NUMA node {node.id}',
                    message=f'it has {words.count(there, "huge page")} of '
                            f'{size}, planned is {planned}',
                    evidence=(facts.HostEvidence(
                        node=node.id, name=f'pages of {size}'),),
                    remediation=(_set_pages(node.id, size_kib, planned),))


@check_rule.rule(
    'H501', check_rule.Severity.ERROR, 'fewer huge pages than planned',
    why='nova sells fewer guests than planned; memory of guests that are '
        'there already is not affected',
    advice='ask for them on the kernel command line and boot the host: later '
           'memory is too fragmented for most')
def too_few(view: facts.CheckedHost) -> check_rule.Violations:
    yield from _compare(view, has_less=True)


@check_rule.rule(
    'H502', check_rule.Severity.WARNING, 'more huge pages than planned',
    why='they are taken from the memory that was kept for the host and for '
        'guests without huge pages, which may run out',
    advice='set the planned number now, and on the kernel command line')
def too_many(view: facts.CheckedHost) -> check_rule.Violations:
    yield from _compare(view, has_less=False)


@check_rule.rule(
    'H503', check_rule.Severity.WARNING, 'huge pages that no guest uses',
    why='nova counts on them, but something else holds them: a process that '
        'nobody has planned for, or a file that was left on a hugetlbfs',
    advice='look for processes with HugetlbPages in /proc/PID/status and for '
           'files below the mount points of hugetlbfs, and tell nova of what '
           'is to stay by reserved_huge_pages')
def held_by_others(view: facts.CheckedHost) -> check_rule.Violations:
    # Nobody knows whose they are unless all guests' pages could be counted.
    if any(not guest.qemu.regions for guest in view.facts.guests):
        return
    of_guests: dict[tuple[int, int], int] = {}
    for guest in view.facts.guests:
        for region in guest.qemu.regions:
            for node, pages in region.pages.items():
                key = node, region.page_size_kib
                of_guests[key] = of_guests.get(key, 0) + pages
    totals = _totals(view)
    for (node, size_kib), free in sorted(view.facts.free_pages.items()):
        used = totals.get((node, size_kib), 0) - free
        expected = view.planned.nova.reserved_huge_pages.get(
            (node, size_kib), 0)
        if size_kib == view.plan.page_size_kib:
            expected = max(expected, view.plan.poll_pages.get(node, 0))
        others = used - of_guests.get((node, size_kib), 0)
        if others > expected:
            size = quantities.shown_page_size(size_kib)
            yield check_rule.Violation(
                subject=f'NUMA node {node}',
                message=f'{others} of its {words.count(used, "huge page")} '
                        f'of {size} in use are not those of guests, expected '
                        f'is {expected} at most',
                evidence=(facts.HostEvidence(
                    node=node, name=f'pages of {size}'),))
