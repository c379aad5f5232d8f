# SPDX-License-Identifier: Apache-2.0
"""Guests put on hosts, for tests of other rooms."""

from nova_pinning.admission import judge
from nova_pinning.admission import outcome
from nova_pinning.admission import scheduler_rules
from nova_pinning.admission import shortages
from nova_pinning import fit
from nova_pinning import model


def judge_of(packs_cells=False, bounds=fit.ClaimBounds(), **rules):
    """A judge with rules that differ from the defaults."""
    return judge.AdmissionJudge(scheduler_rules.SchedulerRules(
        packs_cells=packs_cells, **rules), bounds)


def fit_on(occupancy, request, packs_cells=False, bounds=fit.ClaimBounds()):
    """What the fit says, a model.Fit or a Refusal."""
    return judge_of(packs_cells, bounds).fit_on(request, occupancy)


def refusals(occupancy, request, **rules):
    """The texts of all refusals of an answer."""
    answer = judge_of(**rules).answer(request, occupancy)
    if not isinstance(answer, outcome.NotAdmitted):
        return []
    return [refusal.text for refusal in answer.refusals]


def is_admitted(occupancy, request, **rules):
    """Whether a guest may be on a host, for certain."""
    return isinstance(judge_of(**rules).answer(request, occupancy),
                      outcome.Admitted)


def shortage_texts(occupancy, request):
    """Why Placement would not offer the host."""
    return [refusal.text for refusal in shortages.shortages(
        occupancy.host, occupancy.used, request.queries)]


def with_guest(occupancy, request, place, uuid=''):
    """The host with one more guest."""
    return occupancy.adding(judge.placed_on(request, occupancy, place, uuid))


def verdict(occupancy, request, packs_cells=False, **rules):
    """Where a guest lies if it is admitted, else a Refusal, which is falsy."""
    answer = judge_of(packs_cells, **rules).answer(request, occupancy)
    if isinstance(answer, outcome.NotAdmitted):
        return model.Refusal(
            model.Reason.UNDECIDED, detail='; '.join(
                refusal.text for refusal in answer.refusals))
    return answer.use.fit or judge.FLOATING
