# SPDX-License-Identifier: Apache-2.0
"""Whether a guest may be on a host, by all that nova asks in turn.

Placement is asked for candidates, the filters for each host, and the last of
them for the claim. Nova stops at the first that says no, and so does
:meth:`AdmissionJudge.answer`; :meth:`AdmissionJudge.verdicts` asks them all.
"""

import collections
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses

from nova_pinning.admission import devices
from nova_pinning.admission import filters
from nova_pinning.admission import gaps
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import providers
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning.admission import shortages
from nova_pinning import fit
from nova_pinning import model
from nova_pinning.placement import inventory

_PCI_FILTER = 'PciPassthroughFilter'
#: The fit of a guest without NUMA topology.
FLOATING = model.Fit(())

_CLAIMS_OTHERS = {
    False: 'on moves nova claims other devices than Placement',
    True: 'on live moves nova claims cells away from devices that Placement'}
_NO_RULES = scheduler_rules.SchedulerRules()
_NO_WISHES = guest_request.GuestWishes()
# What a guest asks for that has no query: nothing.
_NO_QUERY = guest_request.CandidatesQuery(groups=())


@dataclasses.dataclass(frozen=True, slots=True)
class LayerVerdicts:
    """What each layer of nova says of a guest on a host.

    :param refusals: of all layers, in nova's order; () if the guest fits
    :param doubts: what is not known
    :param fit: what the last filter and the claim say, without the others
    :param providers: of the candidate that counts: that of each request
        group with a name
    """

    refusals: tuple[outcome.AdmissionRefusal, ...]
    doubts: tuple[outcome.Doubt, ...]
    fit: model.Fit | model.Refusal
    providers: Mapping[str, int]


class AdmissionJudge:
    """Says of any guest whether it may be on a host.

    :param rules: what nova-scheduler is set to
    :param bounds: for the fit; without ``ask_nova`` the prediction of the
        claim is left out, as the filter does without check_nova_claim
    :param assumes: of doubts of these kinds the operator takes it that all
        is well; they are left out
    """

    def __init__(
        self,
        rules: scheduler_rules.SchedulerRules = _NO_RULES,
        bounds: fit.ClaimBounds = fit.ClaimBounds(),
        assumes: frozenset[outcome.DoubtKind] = frozenset(),
    ) -> None:
        self.rules = rules
        self.bounds = bounds
        self.assumes = assumes
        # It is asked of each of thousands of placements.
        self._counts_guests = rules.counts_guests

    def gate(
        self, request: guest_request.GuestRequest,
        host: offered_host.OfferedHost,
        wishes: guest_request.GuestWishes = _NO_WISHES,
    ) -> filters.FilterVerdict:
        """What keeps all guests like this one off a host, or may."""
        found = filters.gate(request, wishes, host, self.rules)
        return found._replace(doubts=self.remaining((
            *request.doubts, *found.doubts, *_of_hardware(host, request))))

    def remaining(
        self, doubts: Iterable[outcome.Doubt],
    ) -> tuple[outcome.Doubt, ...]:
        """The doubts that nobody has taken away."""
        return tuple([doubt for doubt in doubts
                      if doubt.kind not in self.assumes])

    def standing(
        self, request: guest_request.GuestRequest,
        occupancy: host_occupancy.HostOccupancy,
        wishes: guest_request.GuestWishes = _NO_WISHES,
    ) -> filters.FilterVerdict:
        """The same with what filters say because of the guests there."""
        return self.gate(request, occupancy.host, wishes).and_of(
            self.by_guests(request, occupancy, wishes))

    def by_guests(
        self, request: guest_request.GuestRequest,
        occupancy: host_occupancy.HostOccupancy,
        wishes: guest_request.GuestWishes = _NO_WISHES,
    ) -> filters.FilterVerdict:
        """What filters say of a host because of the guests there only."""
        found = filters.by_guests(request, wishes, occupancy, self.rules)
        return found._replace(doubts=self.remaining(found.doubts))

    def guests_left(self, request: guest_request.GuestRequest,
                    occupancy: host_occupancy.HostOccupancy) -> int | None:
        """How many more guests filters let be on a host, None for any."""
        most = (filters.most_guests(request, occupancy.host, self.rules)
                if self._counts_guests else None)
        return None if most is None else max(0, most - len(occupancy.guests))

    def filled(
        self, request: guest_request.GuestRequest,
        occupancy: host_occupancy.HostOccupancy, is_hopeful: bool = False,
    ) -> host_occupancy.HostOccupancy:
        """A host with as many such guests more as it takes, one by one.

        :param is_hopeful: whether it has those that it may take, too
        """
        while not isinstance(
                found := self.answer(request, occupancy), outcome.NotAdmitted
        ) and (is_hopeful or isinstance(found, outcome.Admitted)):
            occupancy = occupancy.adding(
                resident(request, occupancy, found.use))
        return occupancy

    def answer(
        self, request: guest_request.GuestRequest,
        occupancy: host_occupancy.HostOccupancy,
        wishes: guest_request.GuestWishes = _NO_WISHES,
    ) -> outcome.Outcome:
        """Whether the guest may be on the host, and what it uses there.

        Of several candidates that Placement gives the first counts with
        which the guest fits; nova takes one of them.
        """
        gate = self.standing(request, occupancy, wishes)
        if gate.refusals:
            return outcome.NotAdmitted(gate.refusals)
        candidate, place = self._place(request, occupancy)
        if candidate is None:
            return outcome.NotAdmitted(_shortages(request, occupancy))
        if isinstance(place, model.Refusal):
            return outcome.NotAdmitted((_of_fit(place),))
        return outcome.outcome(
            use_of(request, occupancy, place, candidate),
            (*gate.doubts, *self.remaining(candidate.doubts)))

    def verdicts(
        self, request: guest_request.GuestRequest,
        occupancy: host_occupancy.HostOccupancy,
        wishes: guest_request.GuestWishes = _NO_WISHES,
    ) -> LayerVerdicts:
        """What each layer says, whether or not one before it says no."""
        gate = self.standing(request, occupancy, wishes)
        candidate, place = self._place(request, occupancy)
        short = (_shortages(request, occupancy) if candidate is None
                 else ())
        of_fit = () if isinstance(place, model.Fit) else (_of_fit(place),)
        return LayerVerdicts(
            (*short, *gate.refusals, *of_fit),
            tuple(dict.fromkeys((*gate.doubts, *self.remaining(
                candidate.doubts if candidate else ())))),
            place, chosen(candidate))

    def room(
        self, request: guest_request.GuestRequest,
        occupancy: host_occupancy.HostOccupancy,
    ) -> model.Fit | model.Refusal:
        """What Placement, the claim and filters that look at guests say.

        What is not known refuses.
        """
        found = self._by_those_there(request, occupancy)
        if found.refusals:
            return model.Refusal(model.Reason.FILTER, detail='; '.join(
                refusal.text for refusal in found.refusals))
        candidate, place = self._place(request, occupancy)
        if candidate is None:
            return model.Refusal(model.Reason.ALLOCATION, detail='; '.join(
                short.text for short in _shortages(request, occupancy)))
        unknown = (*found.doubts, *self.remaining((
            *request.doubts, *_of_hardware(occupancy.host, request),
            *candidate.doubts)))
        if isinstance(place, model.Refusal) or not unknown:
            return place
        return model.Refusal(model.Reason.UNDECIDED, detail='; '.join(
            doubt.text for doubt in unknown))

    def _by_those_there(
        self, request: guest_request.GuestRequest,
        occupancy: host_occupancy.HostOccupancy,
    ) -> filters.FilterVerdict:
        if not occupancy.guests or not self._counts_guests:
            return filters.FilterVerdict()
        return self.by_guests(request, occupancy)

    def _place(
        self, request: guest_request.GuestRequest,
        occupancy: host_occupancy.HostOccupancy,
    ) -> tuple[providers.Candidate | None, model.Fit | model.Refusal]:
        """The candidate that counts, and what the fit makes of it.

        That is the first with which the guest fits and of which all is known,
        or else the first with which it fits, or the first. If there is none,
        it is what the fit says without.
        """
        if request.claims:
            return self._moved_place(request, occupancy)
        counts: tuple[providers.Candidate | None,
                      model.Fit | model.Refusal] | None = None
        for candidate in candidates(request, occupancy):
            place = self.fit_on(request, occupancy, candidate)
            if isinstance(place, model.Fit):
                if not self.remaining(candidate.doubts):
                    return candidate, place
                if counts is None or isinstance(counts[1], model.Refusal):
                    counts = candidate, place
            elif counts is None:
                counts = candidate, place
        return counts or (None, self.fit_on(request, occupancy))

    def _moved_place(
        self, request: guest_request.GuestRequest,
        occupancy: host_occupancy.HostOccupancy,
    ) -> tuple[providers.Candidate | None, model.Fit | model.Refusal]:
        """The same for a guest with devices that comes from another host.

        See nova.compute.resource_tracker.ResourceTracker._move_claim: it
        claims anew what the flavor asks for, without the policy of flavor or
        image, and does not mind what Placement chose. Only the cells of this
        count if the guest comes live: it gets what Placement chose, or nothing
        (nova.compute.manager.ComputeManager._flavor_based_pci_claim).
        """
        others = _CLAIMS_OTHERS[request.is_live]
        claimed: model.Fit | model.Refusal | None = None
        right: list[providers.Candidate] = []
        wrong: list[providers.Candidate] = []
        for candidate in candidates(request, occupancy):
            if isinstance(self.fit_on(request, occupancy, candidate),
                          model.Refusal) and not _lets_pass(
                              request, occupancy, candidate):
                continue
            claimed = claimed or self.fit_on(dataclasses.replace(
                request, devices=request.claims, claims=()), occupancy)
            if isinstance(claimed, model.Refusal):
                return candidate, claimed
            (wrong if _taken(request, occupancy, claimed, candidate) is None
             else right).append(candidate)
        if claimed is None:
            return self._place(
                dataclasses.replace(request, claims=()), occupancy)
        if not right:
            return wrong[0], model.Refusal(
                model.Reason.PCI, detail=f'{others} allocates')
        doubts = (outcome.Doubt(
            outcome.DoubtKind.DEVICES, f'{others} may allocate'),)
        return right[0]._replace(doubts=(
            *right[0].doubts, *doubts * bool(wrong))), claimed

    def fit_on(
        self, request: guest_request.GuestRequest,
        occupancy: host_occupancy.HostOccupancy,
        candidate: providers.Candidate | None = None,
    ) -> model.Fit | model.Refusal:
        """Where PinnedTopologyFilter puts a guest, as far as can be told.

        :param candidate: whose PCI devices count; None where Placement gives
            none
        """
        decision = self.decide(request, occupancy, candidate)
        if isinstance(decision, fit.Decision):
            return decision.fit
        return FLOATING if decision is None else decision

    def decide(
        self, request: guest_request.GuestRequest,
        occupancy: host_occupancy.HostOccupancy,
        candidate: providers.Candidate | None = None,
    ) -> fit.Decision | model.Refusal | None:
        """The same with what else came of it; None where the guest floats."""
        host = occupancy.host
        known = gaps.without_devices(host, request)
        if known is not request and gaps.device_limit(
                occupancy, request) == 0:
            return model.Refusal(model.Reason.PCI)
        if known.topology is None or host.is_opaque:
            if known.devices and devices.take(
                    host.pci_pools, occupancy.device_uses, known.devices, (),
                    host.cells, chosen(candidate)) is None:
                return model.Refusal(model.Reason.PCI)
            return None
        check = None
        if known.devices or host.pci_pools:
            check = devices.check(
                host.pci_pools, occupancy.device_uses, known.devices,
                host.cells, chosen(candidate))
        found = fit.decide(
            occupancy.engine, known.topology, pack=self.rules.packs_cells,
            pci=check, bounds=self.bounds)
        if (len(known.devices) > 1 and check is not None
                and _PCI_FILTER in (self.rules.enabled_filters or ())
                # Where nothing else would take the guest, that tells more.
                and not (isinstance(found, model.Refusal)
                         and is_certain_no(found))
                and not check.nova_supports(())):
            return model.Refusal(model.Reason.PCI, detail=(
                f'{_PCI_FILTER}, which minds no NUMA cells, takes for one '
                'alias the devices that another needs'))
        return found


def is_certain_no(found: model.Fit | model.Refusal) -> bool:
    """Whether a guest has no room, whatever comes of what is not known."""
    return (isinstance(found, model.Refusal)
            and found.reason is not model.Reason.UNDECIDED
            and not fit.is_cut_off(found))


def candidates(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy,
) -> Iterator[providers.Candidate]:
    """Those of Placement for any query that nova may take.

    Where they differ in nothing that a fit looks at, the first of a query.
    """
    for query in request.queries or (_NO_QUERY,):
        try:
            for candidate in providers.takeable(
                    occupancy.host, occupancy.used, query):
                yield candidate
                if not request.minds_candidates:
                    break
        except providers.UnfinishedSearch as error:
            yield providers.Candidate(doubts=(error.doubt,))


def _shortages(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy,
) -> tuple[outcome.AdmissionRefusal, ...]:
    return shortages.shortages(
        occupancy.host, occupancy.used, request.queries)


def _of_hardware(
    host: offered_host.OfferedHost, request: guest_request.GuestRequest,
) -> Iterator[outcome.Doubt]:
    """What of a host itself is not known, and counts for the guest."""
    yield from gaps.relevant(host, request)
    for text in gaps.of_devices(host.pci_pools, request.devices):
        yield outcome.Doubt(outcome.DoubtKind.DEVICE_TAGS, text)


def chosen(candidate: providers.Candidate | None) -> Mapping[str, int]:
    """The provider of each named group, by its suffix."""
    return {} if candidate is None else {
        suffix: indices[0] for suffix, indices in candidate.mappings
        if suffix and indices}


def _lets_pass(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy, candidate: providers.Candidate,
) -> bool:
    """Whether nova's filters take a candidate with too few devices (U214).

    From guests with NUMA cells PinnedTopologyFilter keeps those.
    """
    host = occupancy.host
    return request.topology is None and devices.check(
        host.pci_pools, occupancy.device_uses, request.devices, host.cells,
        chosen(candidate)).nova_supports(())


def _taken(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy, placed: model.Fit,
    candidate: providers.Candidate | None,
) -> tuple[devices.PciUse, ...] | None:
    """The devices that a guest gets; None if not what Placement chose."""
    pools, uses = occupancy.host.pci_pools, occupancy.device_uses
    cells, allotted = occupancy.host.cells, chosen(candidate)
    cell_ids = [cell.host_cell for cell in placed.cells]
    asked = request.devices
    if request.claims and not request.is_live:
        left = collections.Counter([
            allotted[suffix] for one in asked for suffix in one.groups
            if suffix in allotted])
        asked = request.claims
        for place, count in (devices.taken_places(
                pools, uses, asked, cell_ids, cells) or {}).items():
            provider = pools[place].provider
            if provider is not None:
                left[provider] -= count
        if +left:
            return None
    return devices.take(pools, uses, asked, cell_ids, cells, allotted)


def _of_fit(refusal: model.Refusal) -> outcome.AdmissionRefusal:
    return outcome.AdmissionRefusal(
        outcome.RefusalLayer.FIT, str(refusal.reason), '', str(refusal))


def use_of(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy,
    placed: model.Fit,
    candidate: providers.Candidate | None = None,
) -> outcome.HostUse:
    """What a guest uses of a host where it fits in this way.

    :param candidate: of Placement; None for the first with which it can
    """
    taken: tuple[devices.PciUse, ...] | None = ()
    for candidate in ((candidate,) if candidate is not None
                      else candidates(request, occupancy)):
        if request.devices:
            taken = _taken(request, occupancy, placed, candidate)
        if taken is not None:
            break
    return outcome.HostUse(
        None if request.topology is None else placed, taken or (),
        candidate.allocations if candidate is not None else ())


def resident(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy, use: outcome.HostUse,
    uuid: str = '',
) -> resident_guest.ResidentGuest:
    """What a guest that was asked for is once it is on a host."""
    resources: dict[str, int] = {}
    if use.allocations:
        # It may take other amounts than such a guest usually does.
        usual = inventory.allocation(
            request.vcpus, request.memory_mib, request.disk_gib,
            request.topology,
            on_pcpus=inventory.PCPU in occupancy.inventories)
        taken = dict.fromkeys(usual, 0) | dict(
            dict(use.allocations).get(providers.ROOT, ()))
        resources = {name: amount for name, amount in taken.items()
                     if amount != usual.get(name, 0)}
    return resident_guest.ResidentGuest(
        uuid=uuid, host=occupancy.host.name, flavor=request.name,
        vcpus=request.vcpus, memory_mib=request.memory_mib,
        disk_gib=request.disk_gib, resources=resources,
        allocations=tuple([of_child for of_child in use.allocations
                           if of_child[0] != providers.ROOT]),
        guest_class=request.guest_class, topology=request.topology,
        fit=use.fit, devices=use.pci_devices)


def placed_on(
    request: guest_request.GuestRequest,
    occupancy: host_occupancy.HostOccupancy,
    place: model.Fit, uuid: str = '',
) -> resident_guest.ResidentGuest:
    """What a guest that was asked for is once it fits on a host so."""
    return resident(
        request, occupancy, use_of(request, occupancy, place), uuid)
