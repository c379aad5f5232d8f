#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what of the documentation follows from the code.

That is what lists rules, defects and levers, and the form of snapshots.
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
LEVERS = 'host-levers.inc'
SNAPSHOT = f'fleet-{document.VERSION}.json'


def snapshot_schema() -> str:
    """The JSON Schema of fleet snapshots."""
    return json.dumps({
        '$schema': 'https://json-schema.org/draft/2020-12/schema',
        'title': f'nova-pinning fleet snapshot, version {document.VERSION}',
        **typed_document.schema(snapshot.Fleet, document.VERSION),
    }, indent=1) + '\n'


def main() -> None:
    """Write them all."""
    for name, rules in REGISTRIES.items():
        (DIRECTORY / name).write_text(reference.page(rules))
    (DIRECTORY / SNAPSHOT).write_text(snapshot_schema())
    (DIRECTORY / LEVERS).write_text(levers.page())
    (DIRECTORY / DEFECTS).write_text(register_page.page(register.shipped()))
    MOVES.write_text(register_page.moves_table(register.shipped()))


if __name__ == '__main__':
    main()
