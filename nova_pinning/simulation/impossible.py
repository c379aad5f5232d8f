# SPDX-License-Identifier: Apache-2.0
"""Guests that no host of a fleet could hold, even if it was empty.

No scheduler can place them, and no moves can make room for them, so they say
nothing about either: counted as refusals, they would hide what does.
"""

import dataclasses

from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import judge
from nova_pinning.admission import outcome
from nova_pinning.fleet import snapshot


class EmptyFleet:
    """The hosts of a fleet, without any guests."""

    def __init__(self, fleet: snapshot.Fleet) -> None:
        # Many are alike but for their names.
        alike = dict.fromkeys(
            dataclasses.replace(host, name='', aggregates=())
            for host in fleet.hosts)
        self._hosts = [host_occupancy.of_host(host) for host in alike]
        self._judge = judge.AdmissionJudge()
        # The request is kept alive, since its address is the key to this.
        self._known: dict[int, tuple[guest_request.GuestRequest, bool]] = {}

    def could_hold(self, request: guest_request.GuestRequest) -> bool:
        """Whether some host has room for a guest of this kind when empty.

        Whatever a configuration says of hosts without a class or of
        nova-compute's claims has no say, nor in which order nova takes
        cells, so that it is the same for all configurations.
        """
        known = self._known.get(id(request))
        if known is None:
            known = self._known[id(request)] = request, any(
                isinstance(self._judge.answer(request, host), outcome.Admitted)
                for host in self._hosts)
        return known[1]
