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

"""What all rules find on a host."""

from collections.abc import Mapping

from nova_pinning.host.check import finding
from nova_pinning.host.check import foreign
from nova_pinning.host.check import rule
from nova_pinning.host.check.rules import guests
from nova_pinning.host.check.rules import hardware
from nova_pinning.host.check.rules import interrupts
from nova_pinning.host.check.rules import memory
from nova_pinning.host.check.rules import services
from nova_pinning.host.check.rules import settings
from nova_pinning.host.check.rules import vcpus

#: All rules, by code.
RULES: Mapping[str, rule.Rule] = {
    one.code: one for one in (
        *settings.RULES, *hardware.RULES, *services.RULES, *interrupts.RULES,
        *memory.RULES, *vcpus.RULES, *guests.RULES,
        *foreign.RULES)}


def findings(view: rule.View) -> tuple[finding.Finding, ...]:
    """All that is not as it was planned, by code.

    On another machine than the planned one that is all there is to say.
    """
    rules = ((hardware.other_kind,) if view.is_other_machine
             else RULES.values())
    return tuple(
        one.finding(problem) for one in rules if one.find
        for problem in one.find(view))
