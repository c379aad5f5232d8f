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

"""What the audit of a cloud found."""

import dataclasses
import enum

from nova_pinning.flavors import finding

Severity = finding.Severity


class Kind(enum.StrEnum):
    """What a finding is about."""

    SERVER = 'server'
    FLAVOR = 'flavor'
    HOST = 'host'
    AGGREGATE = 'aggregate'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that keeps shared and dedicated from being kept apart.

    :param code: the rule's stable code, such as 'S101'
    :param id: the server's, flavor's or aggregate's, the UUID of a host's
        resource provider
    :param name: of the server, flavor, aggregate or compute service
    :param host: the compute service where it shows, '' for the whole cloud
    :param message: what is wrong, a sentence without a full stop
    :param why: what it breaks
    :param advice: what mends it
    :param mends: the commands that do, one after the other; empty where no
        API can
    """

    code: str
    severity: Severity
    kind: Kind
    id: str
    name: str
    host: str = ''
    message: str
    why: str
    advice: str
    mends: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """What it goes by, from one look at a cloud to the next."""
        return (self.code, self.id, self.host)
