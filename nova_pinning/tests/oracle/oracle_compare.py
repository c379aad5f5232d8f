# SPDX-License-Identifier: Apache-2.0
"""One case through the engine, the oracle and nova itself."""

from __future__ import annotations

import collections.abc
import contextlib
import typing as ty
from unittest import mock

from nova import filters
from nova import objects
from nova.pci import stats
from nova.virt import hardware

from nova_pinning import compat
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import oracle_check

#: A function with the signature of nova's numa_fit_instance_to_host.
FitFunction = collections.abc.Callable[
    ..., 'objects.InstanceNUMATopology | None']

#: Kinds of wrong answers of nova besides those that a check.Fault names.
REFUSES = 'refused though it fits'
REFUSES_PAGES = 'refused though it fits: the page size of an earlier attempt'
REJECTED = "accepted, but nova's own accounting rejects the answer"
RAISES = 'raises'
FEWER = 'accepted, but it gets fewer devices than it asks for'
ACCEPTS = 'accepted though no valid assignment exists'
#: Added to the kind if the host is one that no real machine has.
ODD = ' (broken host data)'


@compat.dataclass(slots=True)
class Verdict:
    """What one case showed.

    :param fits: whether the oracle found an assignment
    :param disagreements: how the engine differs from the oracle, in words
    :param nova_wrong: in which ways nova's own answer is wrong
    :param nova_differs: nova's answer is right, but not the oracle's
    """

    fits: bool
    disagreements: list[str]
    nova_wrong: set[str]
    nova_differs: bool = False


class _Silent:
    """Takes nova's log lines; making them up costs more than the fit."""

    def __getattr__(self, name: str) -> ty.Callable[..., None]:
        return _ignore


def _ignore(*args: ty.Any, **kwargs: ty.Any) -> None:
    pass


@contextlib.contextmanager
def silence() -> ty.Iterator[None]:
    """Keep nova's fit from logging: it does so for each pair of cells."""
    with mock.patch.object(filters, 'LOG', _Silent()), \
            mock.patch.object(hardware, 'LOG', _Silent()), \
            mock.patch.object(stats, 'LOG', _Silent()):
        yield


def compare(case: oracle_case.Case, fit: FitFunction | None,
            explain: ty.Callable[..., ty.Any] | None = None) -> Verdict:
    """Run one case.

    :param fit: the engine under nova's signature; None leaves it out
    :param explain: the engine's other entrance, which gives a reason; its
        verdict has to be the same
    """
    with case.configured():
        # Making a host takes longer than anything that is done with it. The
        # oracle and nova may have one between them as both only read it, by
        # means of the same functions of nova.
        host = case.host()
        expected = oracle.fit(*case.inputs_with(host))
        verdict = Verdict(expected is not None, [], set())
        if expected is not None:
            verdict.disagreements += [
                f'the oracle itself is wrong: {fault}'
                for fault in sorted(oracle_check.faults(case, expected))]
        if fit is not None:
            verdict.disagreements += _judge_engine(
                case, fit, explain, expected)
        _judge_nova(case, host, expected, verdict)
    if case.data['odd']:
        verdict.nova_wrong = {kind + ODD for kind in verdict.nova_wrong}
    return verdict


def fits(case: oracle_case.Case) -> bool:
    """Whether the oracle finds a place for the case's guest."""
    with case.configured():
        return oracle.fit(*case.inputs()) is not None


def _judge_engine(
    case: oracle_case.Case, fit: FitFunction,
    explain: ty.Callable[..., ty.Any] | None, expected: oracle.Answer | None,
) -> list[str]:
    inputs = case.inputs()
    before = _snapshot(inputs)
    try:
        topology = fit(*inputs)
        outcome = explain(*inputs) if explain else None
    except Exception as e:
        return [f'the engine raises {type(e).__name__}: {e}']
    reasons = []
    if _snapshot(inputs) != before:
        reasons.append('the engine changes its arguments')
    wanted = 'Refusal' if expected is None else 'Fit'
    if explain and type(outcome).__name__ != wanted:
        reasons.append(f'explain has {outcome}, not a {wanted}')
    if topology is None:
        if expected is not None:
            reasons.append(f'the engine refuses; the oracle has {expected}')
        return reasons
    actual = oracle.answer_of(topology)
    reasons += [
        f'the answer of the engine is wrong: {fault}'
        for fault in sorted(oracle_check.faults(case, actual))]
    if expected is None:
        reasons.append(f'the engine has {actual}; the oracle refuses')
    elif actual != expected:
        reasons.append(f'the engine has {actual}; the oracle has {expected}')
    if _request(topology) != _request(inputs.instance_topology):
        reasons.append('the answer of the engine is to another request')
    return reasons


def _judge_nova(
    case: oracle_case.Case, host: objects.NUMATopology,
    expected: oracle.Answer | None, verdict: Verdict,
) -> None:
    try:
        topology = hardware.numa_fit_instance_to_host(
            *case.inputs_with(host))
    except Exception:
        verdict.nova_wrong.add(RAISES)
        return
    if topology is None:
        if expected is not None:
            mended = _fit_with_page_sizes_mended(case)
            verdict.nova_wrong.add(REFUSES_PAGES if mended else REFUSES)
        return
    actual = oracle.answer_of(topology)
    if actual == expected:
        return
    wrong = set(oracle_check.faults(case, actual))
    verdict.nova_wrong |= {f'accepted, but {fault}' for fault in wrong}
    if is_rejected(host, topology):
        verdict.nova_wrong.add(REJECTED)
    inputs = case.inputs_with(host)
    if inputs.pci_requests and not oracle.gets_all_devices(
            oracle.allotted(inputs.pci_requests, inputs.provider_mapping),
            inputs.pci_stats, topology.cells):
        verdict.nova_wrong.add(FEWER)
    if verdict.nova_wrong:
        return
    if expected is None:
        verdict.nova_wrong.add(ACCEPTS)
    else:
        verdict.nova_differs = True


def is_rejected(host: objects.NUMATopology,
                topology: objects.InstanceNUMATopology) -> bool:
    """Whether nova's accounting refuses nova's answer.

    :param host: not changed
    """
    taken = {cell.id for cell in topology.cells}
    # The accounting copies all that it is given, which is slow, and goes
    # host cell by host cell.
    ledgers = objects.NUMATopology(cells=[
        cell if cell.mempages else oracle.ledger(cell)
        for cell in host.cells if cell.id in taken])
    try:
        hardware.numa_usage_from_instance_numa(ledgers, topology)
    except Exception:
        return True
    return False


def _fit_with_page_sizes_mended(case: oracle_case.Case) -> bool:
    """Whether nova accepts once page sizes no longer stick to guest cells."""
    asked = case.data['guest']['pagesize']
    if not asked:
        return False
    original = hardware._numa_fit_instance_cell

    def mended(host_cell: objects.NUMACell,
               instance_cell: objects.InstanceNUMACell,
               *args: ty.Any) -> objects.InstanceNUMACell | None:
        instance_cell.pagesize = asked
        return original(host_cell, instance_cell, *args)

    with mock.patch.object(hardware, '_numa_fit_instance_cell', mended):
        try:
            return bool(hardware.numa_fit_instance_to_host(*case.inputs()))
        except Exception:
            return False


def _request(topology: objects.InstanceNUMATopology) -> tuple[ty.Any, ...]:
    """What a guest asked for, which no answer may alter."""
    return topology.emulator_threads_policy, [
        (set(cell.cpuset), set(cell.pcpuset), cell.memory, cell.cpu_policy,
         cell.cpu_thread_policy) for cell in topology.cells]


def _snapshot(inputs: oracle_case.Inputs) -> tuple[ty.Any, ...]:
    """Everything that may not change, iteration order of sets included."""
    host = [
        (cell.id, list(cell.cpuset), list(cell.pcpuset),
         list(cell.pinned_cpus), list(map(list, cell.siblings)), cell.memory,
         cell.memory_usage, cell.cpu_usage, cell.socket,
         [(pages.size_kb, pages.total, pages.used, pages.reserved)
          for pages in cell.mempages])
        for cell in inputs.host_topology.cells]
    guest = _request(inputs.instance_topology), [
        (cell.id, cell.pagesize, cell.cpu_pinning and dict(cell.cpu_pinning),
         cell.cpuset_reserved and set(cell.cpuset_reserved))
        for cell in inputs.instance_topology.cells]
    pci = repr(inputs.provider_mapping), repr(inputs.pci_requests), repr(
        inputs.pci_stats and inputs.pci_stats.pools)
    return host, guest, pci, repr(inputs.limits)
