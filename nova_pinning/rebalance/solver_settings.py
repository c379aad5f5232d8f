# SPDX-License-Identifier: Apache-2.0
"""How long and how a plan is looked for."""

from collections.abc import Callable
import dataclasses

from nova_pinning import fit

#: Is told how much of the time is gone or of the work is done, from 0 to 1.
Tell = Callable[[float], None]


def tell_nobody(done: float) -> None:
    """A :data:`Tell` for who does not want to know."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SolverSettings:
    """How a plan is looked for.

    Who gives equal fleets, sizes, limits and settings gets equal plans, as
    long as the time does not run out.

    :param seconds: after which the best plan so far is given, with the bound
        that is proved by then
    :param most_nodes: of the search tree of each integer program, after which
        its best solution so far is taken; None for no limit. With it, and
        endless ``seconds``, what is found is no matter of how fast the
        machine is, and is found in bounded time all the same
    :param exact_hosts: up to so many hosts guests may leave any of them at
        once; on larger fleets the plan is made better part by part
    :param proves: whether to look for a proof that no plan is better, and
        for better plans in which hosts both give and take guests; without,
        a plan is found in a third of the time and mostly no worse
    :param tries_all: whether all plans of a fleet are looked at that is
        small enough, instead of having integer programs solved, and of a
        larger one those of a few moves; only where something is to be proved
    :param seed: of the choice of parts
    :param ask_nova: nova's own claim
        (``bridge.offline.fleet_claim.predict_claim``), for guests whose claim
        nova alone can tell; None to take the engine's word
    """

    seconds: float = 60.0
    most_nodes: int | None = None
    exact_hosts: int = 400
    proves: bool = True
    tries_all: bool = True
    seed: int = 0
    ask_nova: fit.AskNova | None = None
