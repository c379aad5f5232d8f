# SPDX-License-Identifier: Apache-2.0

import itertools

import hypothesis
from hypothesis import strategies

from nova_pinning.admission import offered_host
from nova_pinning.bridge.offline import flavor_request
from nova_pinning.explain import explanation
from nova_pinning.explain import size_limits
from nova_pinning.fleet import generate
from nova_pinning.fleet import shapes
from nova_pinning.fleet import snapshot
from nova_pinning.tests import forms
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit import unit_base

_VCPUS = (1, 2, 3, 4, 7, 8, 14, 16, 32, 38, 64, 300)
_GIB = (1, 2, 3, 8, 16, 30, 64, 90, 128, 256, 4000)


def _limits(fleet):
    """The limits of all policies on all hosts, and who found them."""
    judge = explanation.judge_of(fleet)
    finder = size_limits.SizeFinder(judge, explain_cases.read)
    return finder, judge, [
        (policy, occupancy.host.name, finder.limits(occupancy, policy))
        for policy in size_limits.policies(fleet.hosts)
        for occupancy in judge.occupancies.values()]


class TestLimits(unit_base.TestCase):

    def _check(self, fleet):
        with flavor_request.batch():
            finder, judge, limits = _limits(fleet)
            for policy, name, found in limits:
                sizes = [size for size in itertools.product(_VCPUS, _GIB)
                         if not (size[0] % policy.vcpu_step or
                                 size[1] % policy.gib_step)]
                for vcpus, gib in (
                        *found.fitting, *sizes[::3 if forms.SHORT else 1]):
                    self._check_size(finder, judge, policy, name, found,
                                     vcpus, gib)
                for size in found.refused:
                    self._check_reason(finder, judge, policy, name, size)

    def _check_size(self, finder, judge, policy, name, found, vcpus, gib):
        request = finder.request(policy, vcpus, gib)
        fits = request is not None and judge.verdict(
            judge.occupancies[name], request).fits
        self.assertEqual(fits, found.fits(vcpus, gib),
                         (policy.text, name, vcpus, gib, found))
        self.assertEqual(not fits, any(
            vcpus >= refused.vcpus and gib >= refused.gib
            for refused in found.refused), (policy.text, vcpus, gib, found))

    def _check_reason(self, finder, judge, policy, name, size):
        request = finder.request(policy, size.vcpus, size.gib)
        if request is None:
            self.assertIsNone(size.cause)
        else:
            self.assertEqual(judge.verdict(
                judge.occupancies[name], request).cause, size.cause)
            self.assertIsNotNone(size.cause)

    def test_each_shape(self):
        for shape in shapes.SHAPES:
            with self.subTest(shape):
                self._check(generate.generate_fleet(
                    1, shape, 7, filled=0.8, shared=0.4, churn=1.0))

    # test_each_shape has one of each.
    @unit_base.settings(15, in_ci=1)
    @hypothesis.given(
        strategies.sampled_from(sorted(shapes.SHAPES)),
        strategies.integers(0, 10 ** 6),
        strategies.sampled_from((0.0, 0.3, 0.9, 1.0)))
    def test_any(self, shape, seed, filled):
        self._check(generate.generate_fleet(
            2, shape, seed, filled=filled, shared=0.5, churn=1.0))

    def test_odd_hosts(self):
        """Without a topology, of no known class, with cells that differ."""
        one = builders.host_cell(0, range(8), 2, memory_mib=20000)
        other = builders.host_cell(1, range(100, 112), 2, memory_mib=5000)
        self._check(snapshot.Fleet(hosts=(
            offered_host.OfferedHost(name='unknown', cells=()),
            offered_host.OfferedHost(name='small', cells=(one,)),
            offered_host.OfferedHost(name='unequal', cells=(one, other),
                                     reserved_memory_mib=3000),
            offered_host.OfferedHost(
                name='off', cells=(one,), is_enabled=False))))

    def test_policies(self):
        """Those that no host could make a difference for are left out."""
        plain = offered_host.OfferedHost(name='plain', cells=(
            builders.host_cell(0, range(8), memory_mib=20000),))
        self.assertEqual((size_limits.SHARED, size_limits.PINNED),
                         size_limits.policies((plain,)))
        paged = generate.generate_fleet(1, 'two-socket-96-pci', 0).hosts
        self.assertEqual(
            (size_limits.SHARED, size_limits.PINNED, size_limits.WHOLE_CORES,
             size_limits.TWO_CELLS, size_limits.LARGE_PAGES),
            size_limits.policies(paged))
