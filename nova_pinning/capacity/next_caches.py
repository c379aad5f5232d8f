# SPDX-License-Identifier: Apache-2.0
"""On how many L3 caches the next guest of a flavor would lie on hosts."""

from collections.abc import Hashable
from collections.abc import Sequence

from nova_pinning.admission import guest_request
from nova_pinning.admission import judge
from nova_pinning.admission import l3_layout
from nova_pinning.admission import outcome
from nova_pinning.capacity import count
from nova_pinning.capacity import like_hosts

_ONE = l3_layout.GuestCaches(1, 1)


class NextCaches:
    """Finds the caches of the next guest, once for hosts in one state.

    :param requests: one guest of each flavor
    :param admission: says where they go
    """

    def __init__(self, requests: Sequence[guest_request.GuestRequest],
                 admission: judge.AdmissionJudge) -> None:
        self._requests = requests
        self._judge = admission
        self._layouts = l3_layout.L3Layouts(admission.rules.aggregates)
        self._known: dict[Hashable, l3_layout.GuestCaches | None] = {}

    def on_host(
        self, host: like_hosts.CountedHost, counts: Sequence[count.HostCount],
    ) -> tuple[l3_layout.GuestCaches | None, ...]:
        """Those of each flavor.

        None for one of which none fits for certain, that is not pinned, or
        whose caches are not known.

        :param counts: of each flavor on the host
        """
        layout = self._layouts.of_host(host.occupancy.host)
        if layout is None:
            return (None,) * len(counts)
        # Of one kind are hosts on which the same cores are free.
        state = id(layout), host.kind, host.site, *host.left
        return tuple([
            self._of_flavor(layout, state, host, request)
            if counted.certain and request.topology is not None else None
            for request, counted in zip(self._requests, counts)])

    def _of_flavor(
        self, layout: l3_layout.L3Layout, state: tuple[Hashable, ...],
        host: like_hosts.CountedHost, request: guest_request.GuestRequest,
    ) -> l3_layout.GuestCaches | None:
        assert request.topology is not None
        if layout.is_one_a_cell and len(request.topology.cells) == 1:
            return _ONE if request.topology.is_pinned else None
        key = id(request), state
        if key not in self._known:
            found = self._judge.answer(request, host.occupancy)
            self._known[key] = layout.caches(
                request.topology, found.use.fit
            ) if isinstance(found, outcome.Admitted) else None
        return self._known[key]
