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

"""What a preview tells."""

import dataclasses

from nova_pinning.bridge import queries
from nova_pinning.drawing import plan
from nova_pinning import model


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

    query: queries.Query
    fallback: queries.Query | None
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
