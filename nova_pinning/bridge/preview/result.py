# SPDX-License-Identifier: Apache-2.0
"""What a preview tells."""

import dataclasses

from nova_pinning.admission import outcome
from nova_pinning.bridge.offline import placement_queries
from nova_pinning.host import guest_affinity
from nova_pinning.host import host_offer
from nova_pinning import model


@dataclasses.dataclass(frozen=True, slots=True)
class Preview:
    """What nova would make of a flavor on a host.

    :param query: the first thing that nova-scheduler asks Placement
    :param fallback: what it asks besides for dedicated guests, VCPU in place
        of PCPU, for hosts that are not set up for PCPU; None for others
    :param fit: how the guest's NUMA cells and devices fit; None if it
        floats and asks for no devices, so that nothing but Placement has a
        say
    :param placement_refusal: why Placement would not offer the host, None if
        it would, or may
    :param doubts: what of the host is not known, so that it may not be
        offered though nothing refuses the guest
    :param xml: the guest's libvirt XML; None if it does not fit
    :param placement: the same as far as it can be drawn
    :param remarks: what else is worth knowing, sentences without a full stop
    """

    query: placement_queries.SchedulerQuery
    fallback: placement_queries.SchedulerQuery | None
    fit: model.Fit | model.Refusal | None
    placement_refusal: model.Refusal | None
    doubts: tuple[outcome.Doubt, ...]
    xml: str | None
    placement: guest_affinity.GuestAffinity | None
    remarks: tuple[str, ...] = ()

    @property
    def undecided(self) -> str:
        """Why it is not certain that the guest goes there, '' if it is."""
        return '; '.join(doubt.text for doubt in self.doubts
                         if doubt.about not in host_offer.UNTOLD)

    @property
    def refusal(self) -> model.Refusal | None:
        """Why the guest does not go on the host; None if it does, or may."""
        if isinstance(self.fit, model.Refusal):
            return self.fit
        return self.placement_refusal
