# SPDX-License-Identifier: Apache-2.0
"""The engine against the oracle, on hosts and guests that hypothesis makes."""

import functools

import hypothesis
from hypothesis import strategies
from nova import objects
from nova.virt import hardware

from nova_pinning.bridge import numa
from nova_pinning.tests.oracle import case_generator
from nova_pinning.tests.oracle import oracle
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import oracle_check
from nova_pinning.tests.oracle import oracle_compare
from nova_pinning.tests.oracle import stand_in
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit import unit_base

_SETTINGS = unit_base.settings(150)

#: Whatever the generator can make, its choices drawn by hypothesis, which
#: so finds its way to a small case that fails.
any_case = strategies.builds(
    case_generator.random_case, strategies.randoms(use_true_random=False))


@strategies.composite
def small_case(draw):
    """A guest on a host of few CPUs, every figure drawn by itself.

    Closer to all there is than the generator's cases, which are cut to what
    is left on the host.
    """
    threads = draw(strategies.sampled_from([1, 2, 2, 4]))
    pages = draw(strategies.sampled_from([[], [4], [4, 2048]]))
    host = []
    for number in range(draw(strategies.integers(1, 4))):
        cores = [
            [8 * number + threads * core + thread
             for thread in range(threads)]
            for core in range(draw(strategies.integers(1, 8 // threads)))]
        cpus = [cpu for core in cores for cpu in core]
        shared = draw(strategies.sampled_from([[], cpus, cpus[::2]]))
        dedicated = cpus if shared == cpus else [
            cpu for cpu in cpus if cpu not in shared]
        pinned = draw(strategies.sets(strategies.sampled_from(cpus)))
        host.append(oracle_cases.host_cell(
            number, dedicated,
            siblings=draw(strategies.permutations(cores)),
            shared=shared,
            pinned=sorted(pinned & set(dedicated)),
            memory=1024,
            memory_used=draw(strategies.integers(0, 4)) * 256,
            cpu_usage=draw(strategies.integers(0, 4)),
            pages=[
                [size, 1048576 // size,
                 draw(strategies.integers(0, 4)) * 262144 // size, 0]
                for size in pages]))
    policy = draw(strategies.sampled_from(
        ['dedicated', 'dedicated', 'mixed', 'shared', None]))
    guest = {
        'cells': [], 'policy': policy, 'threads': None, 'emulator': None,
        'pagesize': draw(strategies.sampled_from(
            [None, None, -1, -2, -3, 4, 2048])),
    }
    if policy in ('dedicated', 'mixed'):
        guest['threads'] = draw(strategies.sampled_from(
            [None, 'prefer', 'require', 'isolate']))
        guest['emulator'] = draw(strategies.sampled_from(
            [None, 'share', 'isolate']))
    vcpus = iter(range(100))
    for _ in range(draw(strategies.integers(1, min(3, len(host))))):
        mine = [next(vcpus) for _ in range(draw(strategies.integers(1, 5)))]
        cut = {'dedicated': len(mine), 'mixed': draw(
            strategies.integers(0, len(mine)))}.get(policy, 0)
        guest['cells'].append({
            'dedicated': mine[:cut], 'shared': mine[cut:],
            'memory': draw(strategies.sampled_from([1, 256, 512, 1024]))})
    limits = draw(strategies.sampled_from([
        None, {'cpu': 1.0, 'ram': 1.0, 'network': None},
        {'cpu': 2.0, 'ram': 1.5, 'network': None}]))
    return oracle_cases.case(host, guest, limits=limits,
                             pack=draw(strategies.booleans()))


def _given(strategy):
    """Run a test with cases drawn from a strategy."""

    def decorate(method):
        @_SETTINGS
        @hypothesis.given(case=strategy)
        @functools.wraps(method)
        def run(self, case):
            with case.configured():
                method(self, case)
        return run

    return decorate


class TestEngineAndOracle(oracle_cases.TestCase):

    def _assert_agreement(self, case):
        verdict = oracle_compare.compare(
            case, stand_in.numa_fit_instance_to_host, numa.fit_or_refusal)
        self.assertEqual([], verdict.disagreements, str(case))

    @_given(any_case)
    def test_agree(self, case):
        self._assert_agreement(case)

    @_given(small_case())
    def test_agree_on_small_cases(self, case):
        self._assert_agreement(case)


class TestEngine(oracle_cases.TestCase):
    """What holds of any answer, whatever the oracle may say."""

    @_given(any_case)
    def test_answers_can_be_carried_out(self, case):
        topology = stand_in.numa_fit_instance_to_host(*case.inputs())
        hypothesis.assume(topology is not None)
        self.assertEqual(
            set(), oracle_check.faults(case, oracle.answer_of(topology)))
        host = objects.NUMATopology(
            cells=[oracle.ledger(cell) for cell in case.host().cells])
        hardware.numa_usage_from_instance_numa(host, topology)

    @_given(any_case)
    def test_same_answer_again(self, case):
        inputs = case.inputs()
        answers = [
            stand_in.numa_fit_instance_to_host(*inputs) for _ in range(2)]
        self.assertEqual(*[
            answer and oracle.answer_of(answer) for answer in answers])

    @_given(small_case())
    def test_room_freed_does_no_harm(self, case):
        """A guest that fits still fits once another guest is gone."""
        hypothesis.assume(
            stand_in.numa_fit_instance_to_host(*case.inputs()) is not None)
        emptied = oracle_case.Case.parse(str(case))
        for cell in emptied.data['host']:
            cell.update(pinned=[], memory_used=0, cpu_usage=0)
            for pool in cell['pages']:
                pool[2] = 0
        self.assertIsNotNone(
            stand_in.numa_fit_instance_to_host(*emptied.inputs()))
