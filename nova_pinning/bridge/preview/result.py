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

"""What a preview tells: plain values, nothing of nova."""

from collections.abc import Mapping
import dataclasses

from nova_pinning.drawing import plan
from nova_pinning import model


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """One group of resources that must come from one provider.

    :param suffix: the group's name, '' for the unnamed one
    :param resources: amounts by resource class
    :param required: traits, sorted
    :param forbidden: traits, sorted
    """

    suffix: str
    resources: Mapping[str, int]
    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """What nova-scheduler asks Placement for allocation candidates.

    :param root_required: traits that the host itself must have, sorted
    :param root_forbidden: traits that it must not have, sorted
    :param querystring: as it stands in the URL
    """

    groups: tuple[Group, ...]
    root_required: tuple[str, ...]
    root_forbidden: tuple[str, ...]
    querystring: str

    @property
    def resources(self) -> Mapping[str, int]:
        """Amounts by resource class, of all groups together."""
        total: dict[str, int] = {}
        for group in self.groups:
            for name, amount in group.resources.items():
                total[name] = total.get(name, 0) + amount
        return total

    @property
    def required(self) -> tuple[str, ...]:
        """All traits that are required, sorted."""
        return tuple(sorted({*self.root_required, *(
            trait for group in self.groups for trait in group.required)}))

    @property
    def forbidden(self) -> tuple[str, ...]:
        """All traits that are forbidden, sorted."""
        return tuple(sorted({*self.root_forbidden, *(
            trait for group in self.groups for trait in group.forbidden)}))


@dataclasses.dataclass(frozen=True, slots=True)
class Preview:
    """What nova would make of a flavor on a host.

    :param query: the first thing that nova-scheduler asks Placement
    :param fallback: what it asks besides for dedicated guests, VCPU in place
        of PCPU, for hosts that are not set up for PCPU; None for others
    :param outcome: how the guest's NUMA cells and devices fit; None if it
        floats and asks for no devices, so that nothing but Placement has a
        say
    :param placement_refusal: why Placement would not offer the host, None if
        it would
    :param xml: the guest's libvirt XML; None if it does not fit
    :param placement: the same as far as it can be drawn
    :param remarks: what else is worth knowing, sentences without a full stop
    """

    query: Query
    fallback: Query | None
    outcome: model.Fit | model.Refusal | None
    placement_refusal: model.Refusal | None
    xml: str | None
    placement: plan.Placement | None
    remarks: tuple[str, ...] = ()

    @property
    def refusal(self) -> model.Refusal | None:
        """Why the guest does not go on the host, None if it does."""
        if isinstance(self.outcome, model.Refusal):
            return self.outcome
        return self.placement_refusal
