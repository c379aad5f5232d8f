# SPDX-License-Identifier: Apache-2.0
"""Each layer alone keeps every guest in its place, and none does not."""

import os

import ddt
import fixtures
from nova.compute import resource_tracker
from oslotest import base
from testtools import content
from testtools import content_type

from nova_pinning.tests import forms
from nova_pinning.tests.functional import layers
from nova_pinning.tests.functional import operated_cloud
from nova_pinning.tests.functional import storm

#: ``tox -e storm`` has many more, and takes a while.
OPERATIONS = int(os.environ.get(
    'NOVA_PINNING_STORM_OPERATIONS', '27' if forms.SHORT else '100'))
SEED = int(os.environ.get('NOVA_PINNING_STORM_SEED', '1'))

#: Enough to see what is amiss.
FEW_OPERATIONS = min(OPERATIONS, 10)

#: What nova has by itself to keep the classes apart does not change with us,
#: and where the filter has read of a class makes no difference to it.
SHORT_OPERATIONS = min(OPERATIONS, 6) if forms.SHORT else OPERATIONS

#: A minute to start, and far more than an operation takes on a busy machine.
TIMEOUT_SECONDS = 60 + 10 * OPERATIONS


class StormTestCase(base.BaseTestCase):

    def setUp(self):
        self.useFixture(fixtures.EnvironmentVariable(
            'OS_TEST_TIMEOUT', str(TIMEOUT_SECONDS)))
        super().setUp()


class TestStorm(StormTestCase):
    """The same storm, whatever keeps the classes apart.

    What each layer consists of, and what it does not, is said in ``layers``.
    """

    def blow(self, layer, *arguments):
        self.storm = self.useFixture(storm.Storm(layer, SEED))
        self.addDetail('storm', content.Content(
            content_type.UTF8_TEXT,
            lambda: ['\n'.join(self.storm.report()).encode()]))
        self.storm.run(*arguments)
        self.assertEqual([], self.storm.wrong)

    def assert_kept_apart(self, layer, operations=OPERATIONS):
        self.blow(layer, operations)
        self.assertGreaterEqual(self.storm.operations, operations)
        self.assertEqual({}, self.storm.misplaced)
        self.assertEqual({}, self.storm.misled)
        if operations < OPERATIONS:
            return
        # It would be easy to keep guests apart that are all refused.
        for name in storm.OPERATIONS:
            self.assertGreater(self.storm.done[name], 0, name)
        self.assertNotEqual(set(), self.storm.changed)
        self.assertGreater(self.storm.chosen_after_change, 0)

    def test_traits(self):
        self.assert_kept_apart(layers.Traits(), SHORT_OPERATIONS)

    def test_isolated_aggregates(self):
        self.assert_kept_apart(
            layers.IsolatedAggregates(), SHORT_OPERATIONS)

    def test_filter_by_traits(self):
        self.assert_kept_apart(layers.FilterByTraits())

    def test_filter_by_aggregates(self):
        self.assert_kept_apart(
            layers.FilterByAggregates(), SHORT_OPERATIONS)

    def test_none(self):
        def has_a_shared_guest_on_a_dedicated_host():
            return layers.SHARED in {belongs for _server, _host, belongs
                                     in self.storm.misplaced}

        self.blow(layers.Layer(), FEW_OPERATIONS,
                  has_a_shared_guest_on_a_dedicated_host)
        self.assertTrue(has_a_shared_guest_on_a_dedicated_host())


class TestUnmarkedHosts(StormTestCase):
    """The same on hosts of which nothing but their guests tells.

    Wherever a guest comes to one, all that are there are of its class.
    """

    def blow(self, layer, *until, shapes=storm.UNMARKED_HOSTS):
        self.storm = self.useFixture(storm.Storm(layer, SEED, shapes))
        self.addDetail('storm', content.Content(
            content_type.UTF8_TEXT,
            lambda: ['\n'.join(self.storm.report()).encode()]))
        self.storm.settle('enterprise', 'emulator-1')
        layer.unmark('emulator-1')
        self.storm.classes['emulator-1'] = None
        self.storm.run(OPERATIONS, *until)
        self.assertEqual([], self.storm.wrong)

    def test_by_guests(self):
        self.blow(layers.FilterByGuests())
        self.assertEqual({}, self.storm.misplaced)
        self.assertEqual({}, self.storm.misled)
        for name in storm.OPERATIONS:
            self.assertGreater(self.storm.done[name], 0, name)

    def test_allow(self):
        """Guests of both classes meet, sooner where there are few hosts."""
        self.blow(layers.FilterByGuests('allow'),
                  lambda: bool(self.storm.misplaced),
                  shapes={name: storm.UNMARKED_HOSTS[name]
                          for name in ('emulator-1', 'hybrid-1')})
        self.assertNotEqual({}, self.storm.misplaced)


@ddt.ddt
class TestTwoAtOnce(StormTestCase):
    """Guests of both classes come to a new host at the same time.

    A host is chosen for the second while the first has not claimed it yet.
    """

    @ddt.data(('by-guests', 'plain', ['plain']),
              ('by-guests', 'enterprise', ['plain']),
              ('allow', 'plain', ['enterprise', 'plain']),
              ('allow', 'enterprise', ['enterprise', 'plain']))
    @ddt.unpack
    def test_boot(self, unknown_host_class, first, there):
        layer = layers.FilterByGuests(unknown_host_class)
        nova = self.useFixture(operated_cloud.Cloud(
            filters=layer.filters, filter_paths=layer.filter_paths))
        layer.start(nova)
        _class, shape = storm.UNMARKED_HOSTS['hybrid-1']
        nova.start_host('host', shape)
        flavors = {name: storm.create_flavor(nova, layer, storm.OFFERS[name])
                   for name in ('plain', 'enterprise')}
        waiting = sorted(flavors, key=lambda name: name != first)
        claim = resource_tracker.ResourceTracker.instance_claim

        def boot_next():
            name = waiting.pop(0)
            nova.boot(name, flavors[name])

        def boot_the_other_first(tracker, *args, **kwargs):
            if waiting:
                boot_next()
            return claim(tracker, *args, **kwargs)

        self.useFixture(fixtures.MockPatchObject(
            resource_tracker.ResourceTracker, 'instance_claim',
            boot_the_other_first))
        while waiting:
            boot_next()

        self.assertEqual(there, sorted(
            instance.flavor.name for instance in storm.instances()
            if instance.host))


@ddt.ddt
class TestChangeInFlight(StormTestCase):
    """A host changes its class when a guest is on its way to it.

    Nova looks at the class of a host when it schedules, and never again. So
    a guest that is scheduled before the change, and claims its CPUs after it,
    is on a host of the wrong class from then on. Until the claim nova shows
    no server on the host; Placement has granted it its share already. Any
    guest that is scheduled after the change goes where it belongs.
    """

    @ddt.data(layers.Traits, layers.IsolatedAggregates,
              layers.FilterByTraits, layers.FilterByAggregates)
    def test_boot(self, kind):
        layer = kind()
        nova = self.useFixture(operated_cloud.Cloud(
            filters=layer.filters, filter_paths=layer.filter_paths))
        layer.start(nova)
        _class, shape = storm.HOSTS['hybrid-1']
        nova.start_host('host', shape)
        layer.mark('host', layers.SHARED)
        plain, enterprise = (
            storm.create_flavor(nova, layer, storm.OFFERS[name])
            for name in ('plain', 'enterprise'))
        granted = []
        claim = resource_tracker.ResourceTracker.instance_claim

        def change_first(tracker, *args, **kwargs):
            if not granted:
                granted.append(nova.allocations('host'))
                self.assertEqual([], [
                    instance for instance in storm.instances()
                    if instance.host])
                layer.mark('host', layers.DEDICATED)
            return claim(tracker, *args, **kwargs)

        self.useFixture(fixtures.MockPatchObject(
            resource_tracker.ResourceTracker, 'instance_claim', change_first))

        first = nova.boot('first', plain)

        self.assertEqual(('ACTIVE', 'host'), (first.status, first.host))
        self.assertEqual([first.id], list(granted[0]))
        second = nova.boot('second', plain)
        self.assertEqual('ERROR', second.status)
        self.assertIn('No valid host', second.fault)
        third = nova.boot('third', enterprise)
        self.assertEqual(('ACTIVE', 'host'), (third.status, third.host))
