# SPDX-License-Identifier: Apache-2.0

import errno
import os

from nova_pinning.agent import cache_control
from nova_pinning.agent import cache_model
from nova_pinning.agent import cache_steps
from nova_pinning.agent import resctrl
from nova_pinning import cpuset
from nova_pinning.host import cache_masks
from nova_pinning.tests import forms
from nova_pinning.tests.oracle import agent_cache_fuzz
from nova_pinning.tests.oracle import fake_resctrl
from nova_pinning.tests.unit import unit_base

_ROOT = fake_resctrl.ROOT


class CacheControlTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.kernel = fake_resctrl.FakeResctrl(
            {0: range(4), 1: range(4, 8)}, ways=12, shareable=0b11 << 10,
            closids=4)
        self.agent = self.new_agent()
        self.tasks = 100

    def new_agent(self):
        return cache_control.CacheControl(resctrl.ResctrlGroups(self.kernel))

    def ask(self, name, ways=0, domains=(0,), bandwidth=0):
        self.tasks += 1
        self.kernel.live.add(self.tasks)
        return cache_model.CacheRequest(
            cache_control.group_name(name), ways, frozenset(domains),
            bandwidth, frozenset([self.tasks]))

    def mask(self, name, domain=0):
        group = (self.kernel.groups[cache_control.group_name(name)] if name
                 else self.kernel.default)
        return group.masks['L3'][domain]

    def test_own_ways_are_nobody_elses(self):
        outcome = self.agent.reconcile([self.ask('a', 4), self.ask('b', 2)])
        self.assertEqual('', outcome.trouble)
        self.assertEqual((0b1111, 0b11_0000, 0b1111_1100_0000),
                         tuple(map(self.mask, ('a', 'b', ''))))
        # Where they do not run they share with everybody.
        self.assertEqual((0xfff, 0xfff, 0xfff), tuple(
            self.mask(name, 1) for name in ('a', 'b', '')))
        self.assertEqual({101}, self.kernel.groups['nova-pinning-a'].tasks)

    def test_what_devices_use_is_nobodys(self):
        outcome = self.agent.reconcile([self.ask('a', 11)])
        self.assertIn('can give 10 of 12',
                      outcome.refused['nova-pinning-a'])
        self.assertEqual({}, self.agent.reconcile(
            [self.ask('a', 10)]).refused)

    def test_a_gap_is_closed(self):
        asked = [self.ask(name, 3) for name in 'abc']
        self.agent.reconcile(asked)
        outcome = self.agent.reconcile([asked[0], asked[2],
                                        self.ask('d', 4)])
        self.assertEqual({}, outcome.refused)
        self.assertEqual((0b111, 0b11_1000, 0b11_1100_0000), tuple(
            map(self.mask, 'acd')))

    def test_a_guest_waits(self):
        asked = [self.ask('a', 6), self.ask('b', 6)]
        outcome = self.agent.reconcile(asked)
        self.assertIn('so many are not free', outcome.refused[
            'nova-pinning-b'])
        self.assertEqual({}, self.agent.reconcile(asked[1:]).refused)
        self.assertEqual(0b11_1111, self.mask('b'))

    def test_who_has_ways_keeps_them(self):
        asked = [self.ask('a', 6), self.ask('b', 6)]
        self.agent.reconcile(asked[1:])
        outcome = self.new_agent().reconcile(asked)
        self.assertEqual(['nova-pinning-a'], list(outcome.refused))

    def test_no_group_left(self):
        outcome = self.agent.reconcile(
            [self.ask(name, bandwidth=50) for name in 'abcd'])
        self.assertEqual(['nova-pinning-d'], list(outcome.refused))
        self.assertIn('num_closids', outcome.refused['nova-pinning-d'])

    def test_bandwidth_is_what_the_kernel_takes(self):
        self.agent.reconcile([self.ask('a', bandwidth=1),
                              self.ask('b', bandwidth=41)])
        self.assertEqual([10, 50], [
            self.kernel.groups[f'nova-pinning-{name}'].bandwidth[0]
            for name in 'ab'])

    def test_bandwidth_in_absolute_steps(self):
        self.kernel.default.bandwidth = {0: 2048, 1: 2048}
        outcome = self.agent.reconcile([self.ask('a', bandwidth=50)])
        self.assertIn('per cent', outcome.refused['nova-pinning-a'])

    def test_the_default_group_is_its_owners(self):
        """As long as no guest has ways."""
        asked = [self.ask('a', 2)]
        self.agent.reconcile(asked)
        self.agent.reconcile([])
        self.agent.reconcile([])
        self.kernel.write(f'{_ROOT}/schemata', 'L3:0=ff0;1=ff0\n')
        self.assertEqual((), self.agent.reconcile([]).done)
        self.assertEqual(0xff0, self.mask(''))
        self.agent.reconcile(asked)
        self.assertEqual((0x30, 0xfc0), (self.mask('a'), self.mask('')))
        self.agent.release()
        self.assertEqual(0xff0, self.mask(''))

    def test_groups_of_others_are_left_alone(self):
        self.kernel.make_directory(f'{_ROOT}/theirs')
        self.kernel.write(f'{_ROOT}/theirs/schemata', 'L3:0=f;1=f\n')
        outcome = self.agent.reconcile([self.ask('a', 6)])
        self.assertEqual({}, outcome.refused)
        self.assertEqual(0b11_1111_0000, self.mask('a'))
        self.agent.release()
        self.assertEqual(['theirs'], list(self.kernel.groups))
        self.assertEqual(0xfff, self.mask(''))

    def test_a_group_of_others_that_has_all_ways_is_named(self):
        self.kernel.make_directory(f'{_ROOT}/theirs')
        outcome = self.agent.reconcile([self.ask('a', 2)])
        self.assertIn(
            'this host can give 0 of 12; resctrl group theirs has 12 in L3 '
            'domain 0', outcome.refused['nova-pinning-a'])

    def test_code_and_data_apart(self):
        """Each is put back as it was, and where nobody asks it stays."""
        self.kernel = fake_resctrl.FakeResctrl(
            {0: range(4), 1: range(4, 8)}, ways=12, is_split=True)
        self.kernel.write(f'{_ROOT}/schemata',
                          'L3CODE:0=fff;1=f00\nL3DATA:0=ff0;1=0ff\n')
        before = self.kernel.text(f'{_ROOT}/schemata')
        written = []
        self.kernel.fault = written.append
        self.agent = self.new_agent()
        asked = [self.ask('a', 2)]
        self.assertEqual('', self.agent.reconcile(asked).trouble)
        group = self.kernel.groups['nova-pinning-a'].masks
        self.assertEqual([{0: 0x30, 1: 0xf00}, {0: 0x30, 1: 0xff}],
                         [group['L3CODE'], group['L3DATA']])
        self.assertEqual([{0: 0xfc0, 1: 0xf00}, {0: 0xfc0, 1: 0xff}],
                         [*self.kernel.default.masks.values()])
        # Neither has the ways that everybody else is to keep.
        refused = self.agent.reconcile([*asked, self.ask('b', 1, [1])])
        self.assertIn('can give 0 of 12', refused.refused['nova-pinning-b'])
        self.agent.release()
        self.assertEqual(before, self.kernel.text(f'{_ROOT}/schemata'))

    def test_the_record_was_lost(self):
        """What groups tell of the masks before is kept before they go."""
        self.agent.reconcile([self.ask('a', 4)])
        kept = []
        agent = cache_control.CacheControl(
            resctrl.ResctrlGroups(self.kernel), {},
            lambda: kept.append((agent.base, [*self.kernel.groups])))
        self.assertEqual((), agent.release())
        self.assertEqual([({cache_masks.Slot('L3', 0): 0xfff},
                           ['nova-pinning-a'])], kept)
        self.assertEqual((0xfff, {}), (self.mask(''), self.kernel.groups))

    def test_nobody_asks(self):
        """Then the owner of the default group changes it as it likes."""
        asked = [self.ask('a', 2)]
        self.agent.reconcile(asked)
        self.kernel.write(f'{_ROOT}/schemata', 'L3:1=ff0\n')
        self.agent.reconcile(asked)
        self.assertEqual(0xff0, self.mask('', 1))
        self.agent.release()
        self.assertEqual((0xfff, 0xff0), (self.mask(''), self.mask('', 1)))

    def test_masks_are_remembered_first(self):
        saved = []
        agent = cache_control.CacheControl(
            resctrl.ResctrlGroups(self.kernel),
            remember=lambda: saved.append(dict(agent.base)))
        self.kernel.fault = lambda what: self.assertTrue(saved)
        agent.reconcile([self.ask('a', 2)])
        self.assertEqual([{cache_masks.Slot('L3', 0): 0xfff}], saved)

    def test_threads_in_groups_of_others_are_left_alone(self):
        asked = self.ask('a', 2)
        self.kernel.make_directory(f'{_ROOT}/theirs')
        self.kernel.write(f'{_ROOT}/theirs/schemata', 'L3:0=f;1=f\n')
        self.kernel.write(f'{_ROOT}/theirs/tasks', f'{self.tasks}\n')
        outcome = self.agent.reconcile([asked])
        self.assertIn('resctrl group theirs',
                      outcome.refused['nova-pinning-a'])

    def test_a_kernel_that_lies(self):
        asked = [self.ask('a', 2)]
        self.agent.reconcile([])
        self.kernel.lies = 0xfff
        outcome = self.agent.reconcile(asked)
        self.assertIn('says that it has', outcome.trouble)
        self.assertIn('left alone', self.agent.reconcile(asked).trouble)
        self.assertEqual({}, self.kernel.groups)

    def test_a_kernel_that_refuses_says_why(self):
        def fault(what):
            if what.endswith('schemata'):
                self.kernel.status = 'Mask out of range'
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

        self.kernel.fault = fault
        outcome = self.agent.reconcile([self.ask('a', 2)])
        self.assertIn('(Mask out of range)', outcome.trouble)

    def test_no_resctrl(self):
        class Nothing(fake_resctrl.FakeResctrl):
            def exists(self, path):
                return False

        agent = cache_control.CacheControl(
            resctrl.ResctrlGroups(Nothing({0: [0]})))
        error = self.assertRaises(resctrl.CacheUnavailable, agent.reconcile,
                                  [self.ask('a', 2)])
        self.assertIn('mount -t resctrl', str(error))

    def test_masks_that_make_no_sense(self):
        for text in ('0', 'f0', 'fffffffffffffffffffff', 'xyz'):
            kernel = fake_resctrl.FakeResctrl({0: [0]})
            kernel._files[f'{_ROOT}/info/L3/cbm_mask'] = text
            self.assertRaises(
                resctrl.CacheUnavailable, resctrl.ResctrlGroups(kernel).read)

    def test_dry_run_changes_nothing(self):
        before = self.kernel.text(f'{_ROOT}/schemata')
        outcome = self.agent.reconcile([self.ask('a', 2)], dry_run=True)
        self.assertTrue(outcome.done)
        self.assertEqual(before, self.kernel.text(f'{_ROOT}/schemata'))
        self.assertEqual({}, self.kernel.groups)

    def test_at_random(self):
        events = 0
        for seed in range(5 if forms.SHORT else 50):
            case = agent_cache_fuzz.CacheCase(seed)
            case.run(100)
            events += case.events
        self.assertGreaterEqual(events, 500)


class StepsTestCase(unit_base.TestCase):

    def test_others_are_in_each_others_place(self):
        """Who waits first need not be who has to make room."""
        now = {'a': 0b1000_0000, 'b': 0b1110, 'c': 0b111_0000}
        target = {'a': 0b11, 'b': 0b111_0000, 'c': 0b1100}
        slot = cache_masks.Slot('L3', 0)
        state = cache_model.ResctrlState(
            cache_model.CacheLimits(8), None, 16, {0: cpuset.CpuSet([0])},
            cache_model.GroupState({slot: 0b1000_0000}), {
                name: cache_model.GroupState({slot: mask},
                                             tasks=frozenset([number]))
                for number, (name, mask) in enumerate(now.items())})
        layout = cache_model.CacheLayout(
            {name: {0: mask} for name, mask in target.items()},
            frozenset(target), {slot: 0b1000_0000}, {})
        for step in cache_steps.steps(state, layout, [], now, 100):
            now[step.group] = step.masks[slot]
        self.assertEqual(target, now)


class LimitsTestCase(unit_base.TestCase):

    def test_kept(self):
        for expected, values in (
                (0b1000_0000, (8,)), (0b1100_0000, (8, 2)),
                (0b1100_0000, (8, 1, 0b1100_0000, 1)),
                (0b1110_0000, (8, 1, 0b1100_0000, 3)),
                (0b0000_0111, (8, 1, 0b0000_0011, 3)),
                (0b0011_1000, (8, 1, 0b0001_1000, 3)),
                (0b1110_0000, (8, 3, 0b0100_0000, 1))):
            self.assertEqual(
                f'{expected:08b}',
                f'{cache_model.CacheLimits(*values).kept:08b}', values)
