# SPDX-License-Identifier: Apache-2.0
"""What is seen of a case, and of the host, while commands run in it."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench import run_edges

#: When affinities are looked at first; each further look is twice as late.
_FIRST_AFFINITY_SECONDS = 0.1
_UTILISATION_SECONDS = 0.5


class CaseWatch:
    """What is seen of instances, and of the host's CPUs, while commands run.

    :param instances: without any nothing is looked at
    :param are_interrupted: that their work has interrupts of its own
    :ivar utilisation: what part of the time each CPU was busy
    """

    def __init__(self, edges: run_edges.Edges,
                 instances: Sequence[platform_interface.Instance],
                 are_interrupted: bool) -> None:
        self.utilisation: list[bench_model.UtilisationSample] = []
        self._edges = edges
        self._instances = instances
        self._are_interrupted = are_interrupted
        self._affinities: dict[str, bench_model.Affinity] = {}
        self._next_seconds = _FIRST_AFFINITY_SECONDS
        self._begun = self._then = edges.monotonic()
        self._idle = edges.idle(False) if instances else {}
        self._idle_first = edges.idle(are_interrupted) if instances else {}

    @property
    def affinities(self) -> tuple[bench_model.Affinity, ...]:
        """As several looks have found them: the widest of each."""
        return tuple(self._affinities.values())

    def flags(self) -> Iterator[str]:
        """What makes a measurement doubtful."""
        for affinity in self.affinities:
            if not affinity.is_in_force:
                yield (f'{affinity.thread} might run on CPUs {affinity.seen} '
                       f'and not on {affinity.asked} only')
        known = {name.partition(': ')[0] for name in self._affinities}
        for instance in self._instances:
            if instance.name not in known:
                yield f'{instance.name}: where it ran could not be seen'

    def busy_seconds(self) -> Mapping[int, float]:
        """For how long each CPU has been busy since commands were started.

        With interrupts, but not if those may be of the instances themselves.
        """
        return _busy(self._edges.monotonic() - self._begun, self._idle_first,
                     self._edges.idle(self._are_interrupted))

    def look(self) -> None:
        """Look at whatever it is time for."""
        if not self._instances:
            return
        now = self._edges.monotonic()
        if now - self._then >= _UTILISATION_SECONDS:
            self._sample(now)
        if now - self._begun >= self._next_seconds:
            self._next_seconds = 2 * (now - self._begun)
            for instance in self._instances:
                for affinity in instance.affinities():
                    self._add(f'{instance.name}: {affinity.thread}', affinity)

    def _sample(self, now: float) -> None:
        seconds, after = now - self._then, self._edges.idle(False)
        self.utilisation.append(bench_model.UtilisationSample(
            seconds=now - self._begun, busy={
                str(cpu): round(spent / seconds, 3) for cpu, spent
                in _busy(seconds, self._idle, after).items()}))
        self._then, self._idle = now, after

    def _add(self, name: str, affinity: bench_model.Affinity) -> None:
        # What has ended meanwhile is nowhere.
        if affinity.seen:
            before = self._affinities.get(name)
            self._affinities[name] = dataclasses.replace(
                affinity, thread=name,
                seen=affinity.seen | before.seen if before else affinity.seen)


def _busy(seconds: float, before: Mapping[int, float],
          after: Mapping[int, float]) -> dict[int, float]:
    """For how long each CPU was not idle, of some seconds."""
    return {cpu: min(max(seconds - (idle - before[cpu]), 0.0), seconds)
            for cpu, idle in after.items() if cpu in before}
