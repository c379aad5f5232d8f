#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write what the validators of some novas know, for the unit tests.

Each argument is RELEASE=PYTHON, such as 2025.1=/opt/31/bin/python: a Python
with the nova of that release. Releases that are not named stay as they are.
"""

import json
import os
import pathlib
import subprocess
import sys

TABLE = (pathlib.Path(__file__).parents[1] /
         'nova_pinning/tests/unit/flavors/extra-specs.json')
#: Run with the nova of a release, which has nothing of this project.
READ = """
import json
import re
from nova.api.validation.extra_specs import validators
print(json.dumps({
    name: {key: value for key, value in validator.value.items()
           if key in ('enum', 'min', 'max', 'pattern')} | {
               'type': validator.value['type'].__name__}
    for name, validator in validators.VALIDATORS.items()
    # Standard traits and resource classes are those of other packages.
    if not name.startswith('pinning:') and not re.match(
        'trait{group}:[A-Z]|resources{group}:[A-Z]', name)}))
"""


def main() -> None:
    """Write the table: by extra spec, what each release takes for it."""
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    for argument in sys.argv[1:]:
        release, _equals, python = argument.partition('=')
        for values in table.values():
            values.pop(release, None)
        for name, value in known(python).items():
            table.setdefault(name, {})[release] = value
    TABLE.write_text('{\n' + ',\n'.join(
        f'{json.dumps(name)}: {json.dumps(values, sort_keys=True)}'
        for name, values in sorted(table.items()) if values) + '\n}\n')


def known(python: str) -> dict[str, dict[str, object]]:
    """What the validators of the nova of a Python know, by extra spec."""
    return json.loads(subprocess.run(
        [python, '-W', 'ignore', '-c', READ], check=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={
            **os.environ, 'OS_NOVA_DISABLE_EVENTLET_PATCHING': '1',
        }).stdout.splitlines()[-1])


if __name__ == '__main__':
    main()
