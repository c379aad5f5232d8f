# SPDX-License-Identifier: Apache-2.0
"""Instances of one size on hosts of different sizes.

Figure 7 of "The Art of CPU-Pinning" (ICPP 2020) has this: what an instance
costs by the share of its host's CPUs that it has, and not by its size alone.
"""

from collections.abc import Sequence

from nova_pinning.instance_bench import published
from nova_pinning.instance_bench.report import run_tables
from nova_pinning.instance_bench.report import words
from nova_pinning.instance_bench import statistics
from nova_pinning.presentation import typed_table

_COLUMNS = [typed_table.Column(name, name, kind) for kind, names in (
    (typed_table.ColumnKind.TEXT, ('workload', 'platform', 'provisioning')),
    (typed_table.ColumnKind.COUNT, ('vCPUs', 'host CPUs', 'CHR', 'overhead')))
    for name in names]
_KINDS = ('overhead', 'ladder')


def table(
    summaries: Sequence[statistics.RunSummary]
) -> run_tables.ReportTable | None:
    """What several hosts measured alike, None if there is nothing.

    :param summaries: of any runs; those that have overheads count, of hosts
        that tell how many CPUs they have
    """
    found: dict[tuple[str, ...], dict[int, statistics.FigureRow]] = {}
    for summary in summaries:
        cpus = summary.host_cpus
        if summary.experiment.table not in _KINDS or not cpus:
            continue
        for group in run_tables.main_groups(summary):
            for row in group:
                if row.overhead is not None:
                    # A later file wins, as a later run of the same host.
                    found.setdefault(_likeness(summary, row), {})[cpus] = row
    alike = {name: by_cpus for name, by_cpus in found.items()
             if len(by_cpus) > 1}
    if not alike:
        return None
    source = published.sources()['ghatrehsamani-2020']
    return run_tables.ReportTable(
        _COLUMNS, tuple(
            (row.tenant.workload, name[0], str(row.tenant.provisioning),
             f'{row.tenant.size.vcpus:,}', f'{cpus:,}',
             words.number(row.tenant.size.vcpus / cpus, 2),
             words.ratio(row.overhead))
            for name, by_cpus in alike.items()
            for cpus, row in sorted(by_cpus.items())),
        title='One size on hosts of different sizes',
        note='Each against the baseline of the same size on its own host, '
             'with 95% confidence; above 1 is worse. CHR is the ratio of an '
             'instance’s CPUs to the host’s. The study that this repeats '
             'shows it as a picture, without figures: an instance that has '
             'less of its host costs more where it floats. Hosts differ in '
             f'more than their number of CPUs. Published: {source}.')


def _likeness(summary: statistics.RunSummary,
              row: statistics.FigureRow) -> tuple[str, ...]:
    """What is the same of rows that are compared: all but the host.

    Factors may say 'all' or 'half', which is not the same on two hosts.
    """
    tenant = row.tenant
    return (run_tables.platform(summary, tenant), tenant.workload,
            row.figure.name, row.figure.unit, str(tenant.provisioning),
            str(tenant.size), str(tenant.count), str(dict(tenant.parameters)))
