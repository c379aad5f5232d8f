#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the parts of the documentation that list rules, defects and levers."""

import pathlib

from nova_pinning.checks import reference
from nova_pinning.flavors.checks import flavor_check_run
from nova_pinning.fleet import problems
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


def main() -> None:
    """Write them all."""
    for name, rules in REGISTRIES.items():
        (DIRECTORY / name).write_text(reference.page(rules))
    (DIRECTORY / LEVERS).write_text(levers.page())
    (DIRECTORY / DEFECTS).write_text(register_page.page(register.shipped()))
    MOVES.write_text(register_page.moves_table(register.shipped()))


if __name__ == '__main__':
    main()
