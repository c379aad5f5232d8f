# SPDX-License-Identifier: Apache-2.0
"""In which order cases are measured, and how long that takes.

Pure. A unit is what is done with one set of instances: a case in one round.
"""

from collections.abc import Callable
import dataclasses
import random

from nova_pinning.instance_bench import bench_model

#: Until a platform's own are known: seconds until an instance runs commands.
_LAUNCH_SECONDS = {
    bench_model.PlatformName.BARE_METAL: 1.0,
    bench_model.PlatformName.CONTAINER: 2.0,
    bench_model.PlatformName.GUEST: 30.0,
    bench_model.PlatformName.CONTAINER_IN_GUEST: 35.0,
    bench_model.PlatformName.NOVA: 60.0}
#: The parameter that says for how long a command runs, where it has one.
_DURATION = 'duration'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CaseRound:
    """A case in a round.

    :param repetitions: those that are wanted, ascending, counted from 1
    :param seconds: how long it takes, as far as the workload's file tells
    """

    case: bench_model.Case
    round: int
    repetitions: tuple[int, ...]
    seconds: float

    @property
    def platforms(self) -> frozenset[bench_model.PlatformName]:
        return frozenset(tenant.platform for tenant in self.case.tenants)


def units(
        before: bench_model.Results,
        is_chosen: Callable[[bench_model.Case], bool],
) -> tuple[CaseRound, ...]:
    """What is left to do of an experiment, in order.

    Each round has its own order, which depends on the seed alone, so
    that it is the same after an interruption.

    :param before: the experiment, and what was measured of it
    """
    experiment = before.experiment
    done = {(measurement.round, measurement.key, measurement.repetition)
            for measurement in before.measurements}
    left = []
    for number in range(1, experiment.rounds + 1):
        cases = list(experiment.cases)
        random.Random(f'{experiment.seed}:{number}').shuffle(cases)
        for case in cases:
            repetitions = tuple(
                repetition
                for repetition in range(1, experiment.repetitions + 1)
                if (number, case.key, repetition) not in done)
            if repetitions and not case.skipped and is_chosen(case):
                left.append(CaseRound(
                    case=case, round=number, repetitions=repetitions,
                    seconds=_seconds(before, case, len(repetitions))))
    return tuple(left)


def _seconds(before: bench_model.Results, case: bench_model.Case,
             repetitions: int) -> float:
    experiment = before.experiment
    launch = max(_LAUNCH_SECONDS[tenant.platform] for tenant in case.tenants)
    measured = [tenant for tenant in case.tenants
                if tenant.role is bench_model.Role.MEASURED]
    command = max(_command_seconds(before.workloads[tenant.workload], tenant)
                  for tenant in measured)
    several = sum(tenant.count for tenant in measured) > 1
    # The last run begins before the window is over.
    window = (experiment.window_seconds
              if several and not experiment.is_race else 0.0)
    settle = experiment.settle_seconds if len(case.tenants) > len(
        measured) else 0.0
    return (launch + settle + command * (experiment.warm_ups + repetitions)
            + window * repetitions)


def _command_seconds(workload: bench_model.Workload,
                     tenant: bench_model.Tenant) -> float:
    usual = workload.parameters.get(_DURATION)
    given = tenant.parameters.get(_DURATION, usual)
    if isinstance(usual, str) or isinstance(given, str) or (
            usual is None or given is None):
        return workload.seconds
    return max(workload.seconds - usual + given, 0.1)
