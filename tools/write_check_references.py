#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what of the documentation follows from the code.

That is what lists rules, defects, levers and metrics, and the form of
snapshots.
"""

import json
import pathlib

from nova_pinning.checks import reference
from nova_pinning.document import typed_document
from nova_pinning.flavors.checks import flavor_check_run
from nova_pinning.fleet import document
from nova_pinning.fleet import problems
from nova_pinning.fleet import snapshot
from nova_pinning.host.check import host_check_run
from nova_pinning.host import levers
from nova_pinning.scheduler import metrics_writer
from nova_pinning.segregation.audit import audit_run
from nova_pinning.upgrade import register
from nova_pinning.upgrade import register_page

DIRECTORY = pathlib.Path(__file__).parents[1] / 'doc/source/reference'
#: All rules, by the name of the file.
REGISTRIES = {
    'flavor-checks.inc': flavor_check_run.RULES,
    'fleet-checks.inc': problems.RULES,
    'host-checks.inc': host_check_run.RULES,
    'segregation-checks.inc': audit_run.RULES,
}
#: What is generated besides.
DEFECTS = 'nova-defects.inc'
MOVES = DIRECTORY.parent / 'admin' / 'moving-defects.inc'
METRICS = DIRECTORY.parent / 'admin' / 'scheduler-metrics.inc'
LEVERS = 'host-levers.inc'
SNAPSHOT = f'fleet-{document.VERSION}.json'


def snapshot_schema() -> str:
    """The JSON Schema of fleet snapshots."""
    return json.dumps({
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': f'nova-pinning fleet snapshot, version {document.VERSION}',
        **typed_document.schema(snapshot.Fleet, document.VERSION),
    }, indent=1) + '\n'


def scheduler_metrics() -> str:
    """A table of what nova-scheduler counts."""
    lines = [
        '.. list-table::', '   :header-rows: 1', '   :widths: 45 10 15 30', '']
    rows = [('Metric', 'Type', 'Labels', 'What it tells')]
    rows += [(f'``{metrics_writer.PREFIX}{name}``', metric.kind,
              ', '.join(f'``{label}``' for label in metric.labels),
              metric.help_text)
             for name, metric in metrics_writer.METRICS.items()]
    for first, *others in rows:
        lines.append(f'   * - {first}')
        lines += [f'     - {text}'.rstrip() for text in others]
    return '\n'.join(lines) + '\n'


def main() -> None:
    """Write them all."""
    for name, rules in REGISTRIES.items():
        (DIRECTORY / name).write_text(reference.page(rules))
    (DIRECTORY / SNAPSHOT).write_text(snapshot_schema())
    (DIRECTORY / LEVERS).write_text(levers.page())
    (DIRECTORY / DEFECTS).write_text(register_page.page(register.shipped()))
    MOVES.write_text(register_page.moves_table(register.shipped()))
    METRICS.write_text(scheduler_metrics())


if __name__ == '__main__':
    main()
