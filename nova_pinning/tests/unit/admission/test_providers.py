# SPDX-License-Identifier: Apache-2.0
"""Tests for what a host's providers give, and what they do not.

That candidates are those of Placement is held by tests.oracle.admission.
"""

import dataclasses

from nova_pinning.admission import guest_request
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import providers
from nova_pinning.admission import shortages
from nova_pinning.placement import inventory
from nova_pinning.tests.unit import unit_base

GROUP = guest_request.RequestGroup


def host(*children, **fields):
    return offered_host.OfferedHost(**{
        'name': 'h', 'cells': (), 'traits': frozenset({'T'}),
        'inventories': {'VCPU': inventory.Inventory(4)},
        'children': children, **fields})


def below(name='VGPU', total=1, traits=(), parent=0, **units):
    return offered_host.OfferedProvider(
        parent, ((name, inventory.Inventory(total, **units)),),
        frozenset(traits))


def found(of, query, used=None):
    return list(providers.candidates(
        of, used or [{} for _ in of.providers], query))


def texts(of, *queries, used=None):
    return [refusal.text for refusal in shortages.shortages(
        of, used or [{} for _ in of.providers], queries)]


def named(*groups, **fields):
    return guest_request.CandidatesQuery(groups=groups, **fields)


class CandidatesTest(unit_base.TestCase):

    def test_nothing_asked(self):
        # Of a guest that nobody knows the query of.
        self.assertEqual([providers.Candidate()], found(
            host(), guest_request.CandidatesQuery(groups=())))

    def test_zero_is_not_asked(self):
        [one] = found(host(), guest_request.query({'VCPU': 1, 'VGPU': 0}))
        self.assertEqual(((0, (('VCPU', 1),)),), one.allocations)
        self.assertEqual((), one.doubts)
        self.assertEqual([], found(host(), guest_request.query({'VCPU': 0})))

    def test_budget(self):
        # Each choice that does not work out is one of 8 * 7 * 6 * 5 ones.
        of = host(*[below(traits={str(number)}) for number in range(8)])
        query = named(*[
            GROUP(str(number), (('VGPU', 1),)) for number in range(4)],
            GROUP('', (('VCPU', 1),), frozenset({'NONE'})))
        search = providers.candidates(of, [{}] * 9, query, steps=100)
        error = self.assertRaises(providers.UnfinishedSearch, list, search)
        self.assertEqual(outcome.DoubtKind.PROVIDERS, error.doubt.kind)

    def test_no_budget_for_what_cannot_be(self):
        of = host(*[below() for _ in range(12)])
        query = named(*[
            GROUP(str(number), (('VGPU', 1),)) for number in range(13)])
        self.assertEqual([], found(of, query))


class DoubtsTest(unit_base.TestCase):

    def test_class_that_nobody_asked_about(self):
        of = host(inventories=None, resources={'CUSTOM_L3_WAYS': 4})
        query = guest_request.query({'VGPU': 1})
        [one] = found(of, query)
        self.assertEqual(
            [(outcome.DoubtKind.PROVIDERS, 'VGPU')],
            [(doubt.kind, doubt.about) for doubt in one.doubts])
        self.assertEqual((), one.allocations)
        self.assertEqual([], found(of, guest_request.query(
            {'VGPU': 1, 'CUSTOM_L3_WAYS': 5})))
        [known] = found(of, guest_request.query({'CUSTOM_L3_WAYS': 4}))
        self.assertEqual((), known.doubts)

    def test_disk(self):
        of = host(inventories=None, resources={'CUSTOM_A': 1})
        asked = guest_request.query({'CUSTOM_A': 1, 'DISK_GB': 1})
        self.assertEqual(['DISK_GB'], [
            doubt.about for doubt in providers.doubts(of, asked)])
        self.assertEqual((), providers.doubts(
            dataclasses.replace(of, disk_gib=5), asked))

    def test_disks_bring_no_traits_along(self):
        """A trait that the host lacks does not come from what is not known.
        """
        asked = guest_request.query({'VCPU': 1, 'DISK_GB': 1}, {'A'})
        for traits, doubts in ((frozenset(), []), ({'A'}, ['DISK_GB'])):
            of = host(traits=frozenset(traits), gaps=(outcome.Doubt(
                outcome.DoubtKind.PROVIDERS, 'disks', 'DISK_GB'),))
            self.assertEqual(doubts, [
                doubt.about for one in found(of, asked)
                for doubt in one.doubts])

    def test_traits_of_which_some_are_told(self):
        """The gap says what the names of those begin with."""
        for prefix, about in (('', {'CUSTOM_B', 'HW_C'}),
                              ('CUSTOM_', {'HW_C'})):
            of = host(traits=frozenset({'CUSTOM_A'}), gaps=(outcome.Doubt(
                outcome.DoubtKind.TRAITS, 'not all', prefix),))
            self.assertEqual(about, {
                doubt.about for doubt in providers.doubts(
                    of, guest_request.query({'VCPU': 1}, {
                        'CUSTOM_A', 'CUSTOM_B', 'HW_C'}))})

    def test_gap(self):
        of = host(gaps=(outcome.Doubt(
            outcome.DoubtKind.PROVIDERS, 'children', 'VGPU'),))
        [one] = found(of, guest_request.query({'VCPU': 1, 'VGPU': 1}))
        self.assertEqual(['VGPU'], [doubt.about for doubt in one.doubts])
        # It has what is known, so what else it has does not matter.
        of = dataclasses.replace(of, children=(below(),))
        first, second = found(of, guest_request.query({'VGPU': 1}))
        self.assertEqual(((), True), (first.doubts, bool(second.doubts)))
        # What is asked for comes from the host itself.
        of = dataclasses.replace(of, gaps=(outcome.Doubt(
            outcome.DoubtKind.PROVIDERS, 'children'),))
        self.assertEqual([], found(of, guest_request.query({'VCPU': 5})))

    def test_gap_beside_its_own_provider(self):
        of = host(gaps=(outcome.Doubt(
            outcome.DoubtKind.PROVIDERS, 'its own only'),))
        of = dataclasses.replace(of, inventories=dict(
            of.inventories, CUSTOM_A=inventory.Inventory(1)))
        [one] = found(of, guest_request.query({'VCPU': 1, 'CUSTOM_A': 1}))
        self.assertEqual((), one.doubts)
        for name in ('VGPU', 'DISK_GB'):
            with self.subTest(name=name):
                asked = guest_request.query(
                    {'VCPU': 1, 'CUSTOM_A': 1, name: 1})
                [one] = found(of, asked)
                self.assertEqual([name], [
                    doubt.about for doubt in one.doubts])

    def test_traits(self):
        of = host(traits=None)
        for query in (guest_request.query({'VCPU': 1}, {'A'}),
                      guest_request.query({'VCPU': 1}, (), {'A'})):
            with self.subTest(query=query):
                [one] = found(of, query)
                self.assertEqual(
                    [(outcome.DoubtKind.TRAITS, 'A')],
                    [(doubt.kind, doubt.about) for doubt in one.doubts])
        self.assertEqual([], found(of, named(
            GROUP('', (('VCPU', 1),), frozenset('A'), frozenset('A')))))

    def test_traits_that_follow(self):
        disabled = providers.os_traits.COMPUTE_STATUS_DISABLED
        query = guest_request.query({'VCPU': 1}, (), {disabled})
        self.assertEqual((), found(host(traits=None), query)[0].doubts)
        self.assertEqual(
            [], found(host(traits=None, is_enabled=False), query))


class ShortagesTest(unit_base.TestCase):

    def test_none(self):
        self.assertEqual([], texts(host(), guest_request.query({'VCPU': 4})))
        self.assertEqual([], texts(host()))

    def test_flat(self):
        self.assertEqual(
            ['1 VCPU left of 4, 2 needed', '0 VGPU left of 0, 1 needed',
             'has no trait A, which is required',
             'has trait T, which is forbidden'],
            texts(host(), guest_request.query(
                {'VCPU': 2, 'VGPU': 1}, {'A'}, {'T'}), used=[{'VCPU': 3}]))

    def test_closest_of_two(self):
        self.assertEqual(
            ['4 VCPU left of 4, 5 needed'], texts(
                host(), guest_request.query({'VCPU': 5, 'PCPU': 1}),
                guest_request.query({'VCPU': 5})))

    def test_unknown_is_no_reason(self):
        self.assertEqual(
            ['4 VCPU left of 4, 5 needed'], texts(
                host(traits=None, gaps=(outcome.Doubt(
                    outcome.DoubtKind.PROVIDERS, 'children'),)),
                guest_request.query({'VCPU': 5, 'VGPU': 1}, {'A'})))

    def test_one_provider(self):
        of = host(below(), below(traits={'A'}))
        for asked, text in (
                (named(GROUP('', (('VGPU', 2),))),
                 'no one provider has 2 VGPU left, only all of them together '
                 'have 2'),
                (named(GROUP('1', (('VCPU', 1), ('VGPU', 1)))),
                 'no one provider has all of 1 VCPU, 1 VGPU left'),
                (named(GROUP('1', (('VGPU', 1),), frozenset({'A'})),
                       GROUP('2', (('VGPU', 1),), frozenset({'A'}))),
                 '1 VGPU with A left, 2 needed'),
                (named(GROUP('', (('CUSTOM_A', 1),), frozenset({'A'})),
                       same_subtree=(frozenset({'1'}),)),
                 'Placement refuses the query: same_subtree names groups of '
                 'which nothing is asked: 1')):
            with self.subTest(text=text):
                self.assertEqual([text], texts(of, asked))

    def test_units(self):
        of = host(below(total=8, min_unit=2, step_size=2, max_unit=4))
        self.assertEqual(
            ['3 VGPU needed at once, to be had in steps of 2 from 2 to 4'],
            texts(of, guest_request.query({'VGPU': 3})))
