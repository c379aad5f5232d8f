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

"""What a check found."""

import dataclasses

from nova_pinning import errors
from nova_pinning.model import severity

#: An error is refused by nova, or never finds a host. A warning works, but not
#: as its author will expect.
Severity = severity.Severity


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found in one flavor.

    :param code: the rule's stable code, such as 'P103'
    :param flavor: the flavor's name
    :param where: where it stands
    :param message: what is wrong, a sentence without a full stop
    :param why: what it leads to
    :param advice: what to write instead
    """

    code: str
    severity: Severity
    flavor: str
    where: errors.Location
    message: str
    why: str = ''
    advice: str = ''
