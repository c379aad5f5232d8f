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

"""All rules over all flavors."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from nova_pinning.flavors.checks import classes
from nova_pinning.flavors.checks import cpus
from nova_pinning.flavors.checks import devices
from nova_pinning.flavors.checks import hosts as host_rules
from nova_pinning.flavors.checks import memory
from nova_pinning.flavors.checks import nova_rules
from nova_pinning.flavors.checks import quotas
from nova_pinning.flavors.checks import rule
from nova_pinning.flavors.checks import target
from nova_pinning.flavors import finding
from nova_pinning.flavors import model
from nova_pinning.host import model as host_model

#: All rules, by code.
RULES: Mapping[str, rule.Rule] = {
    one.code: one for one in (
        *nova_rules.RULES, *cpus.RULES, *memory.RULES, *devices.RULES,
        *quotas.RULES, *classes.RULES, *host_rules.RULES)}


def check(
    flavors: Iterable[model.Flavor],
    hosts: Iterable[host_model.HostDescription] = (),
    image_properties: Mapping[str, str] | None = None,
    pci_aliases: Collection[str] | None = None,
) -> list[finding.Finding]:
    """Look for mistakes in flavors, wherever they come from.

    Imports nova, which takes seconds, and changes options and loggers of
    nova meanwhile: call it from one thread at a time.

    :param hosts: to check against, taken to be empty
    :param image_properties: of the image that guests boot from, as Glance
        has them
    :param pci_aliases: the PCI aliases that nova knows; None if it knows all
        that the flavors ask for
    :returns: what was found, flavor by flavor, what nova refuses first
    :raises errors.InputErrors: for image properties that nova does not know
    """
    # It takes seconds.
    from nova_pinning.bridge import flavors as nova_side

    flavors = tuple(flavors)
    targets = target.targets(hosts)
    found: list[finding.Finding] = []
    with nova_side.judging(flavors, image_properties, pci_aliases) as judge:
        for flavor in flavors:
            judgement = judge(flavor)
            subject = rule.Subject(
                flavor, image_properties or {}, judgement.guest,
                judgement.is_accepted, targets)
            found += [code.finding(subject, problem)
                      for code, problem in judgement.problems]
            found += findings(subject)
    return found


def findings(subject: rule.Subject) -> Iterator[finding.Finding]:
    """What the rules that are not nova's find in one flavor."""
    for one in RULES.values():
        if one.find:
            for problem in one.find(subject):
                yield one.finding(subject, problem)
