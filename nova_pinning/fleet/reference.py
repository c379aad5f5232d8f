#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The part of the documentation that says what is found odd about fleets."""

from nova_pinning.flavors.checks import reference
from nova_pinning.fleet import problems

GROUPS = {
    'F1': 'Hosts',
    'F2': 'Where guests are',
    'F3': 'CPUs',
    'F4': 'Memory',
    'F5': 'Devices',
}
_NOTE = """\
.. Generated from the rules in nova_pinning/fleet/problems.py: this is the
   output of python -m nova_pinning.fleet.reference
"""


def part() -> str:
    """A section for each rule, as reStructuredText."""
    return _NOTE + '\n'.join(reference.sections(
        problems.RULES.values(), GROUPS, 'What to do')) + '\n'


if __name__ == '__main__':
    print(part(), end='')
