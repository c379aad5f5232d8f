# SPDX-License-Identifier: Apache-2.0
"""A cloud comes in step with a catalogue, whatever happens on the way."""

import dataclasses

import ddt
from oslotest import base as oslotest

from nova_pinning import errors
from nova_pinning.flavors import difference
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import names
from nova_pinning.flavors import sync
from nova_pinning.flavors import sync_apply
from nova_pinning.tests.unit.flavors import fake_flavor_cloud

OURS = 'ours'


def flavor(name='ours.large', catalogue=OURS, **fields):
    """A flavor as the catalogue has it, with its own id."""
    fields = {'vcpus': 2, 'memory_mib': 8192, **fields}
    extra_specs = {'pinning:catalogue': catalogue,
                   **fields.pop('extra_specs', {})}
    one = flavor_model.Flavor(name=name, extra_specs=extra_specs, **fields)
    return dataclasses.replace(one, id=names.flavor_id(catalogue, one))


def foreign(name='m1.large', flavor_id='foreign', **fields):
    """One that an operator has made by hand."""
    return flavor_model.Flavor(**{'name': name, 'id': flavor_id, 'vcpus': 2,
                                  'memory_mib': 8192, **fields})


def half_created(one):
    return dataclasses.replace(one, extra_specs={}, projects=())


def apply(wanted, cloud, catalogue=OURS, **options):
    """Plan and apply, without waiting."""
    live = sync.read(cloud, wanted, catalogue)
    changes = sync.plan(wanted, live, catalogue, **options)
    return list(sync_apply.apply(changes, cloud, catalogue,
                                 sleep=lambda s: None))


@ddt.ddt
class TestPlan(oslotest.BaseTestCase):

    def plan(self, wanted, live, **options):
        return [(change.action, change.name) for change in sync.plan(
            wanted, live, OURS, **options)]

    def test_create(self):
        self.assertEqual([('create', 'ours.large')],
                         self.plan([flavor()], [foreign()]))

    def test_unchanged(self):
        self.assertEqual([('unchanged', 'ours.large')],
                         self.plan([flavor()], [flavor()]))

    @ddt.data(
        {'extra_specs': {'hw:cpu_policy': 'dedicated'}},
        {'description': 'other'},
        {'is_public': False, 'projects': ('p1',)},
    )
    def test_update(self, change):
        # What cannot be changed in place is the same before and after.
        before = flavor(is_public=change.get('is_public', True))
        self.assertEqual([('update', 'ours.large')],
                         self.plan([flavor(**change)], [before]))
        self.assertEqual([('update', 'ours.large')],
                         self.plan([before], [flavor(**change)]))

    @ddt.data({'vcpus': 4}, {'memory_mib': 1}, {'disk_gib': 1},
              {'ephemeral_gib': 1}, {'swap_mib': 1}, {'rxtx_factor': 2.0},
              {'is_public': False})
    def test_replace(self, change):
        [found] = sync.plan([flavor(**change)], [flavor()], OURS)
        self.assertEqual('replace', found.action)
        self.assertIn(next(iter(change)), found.reason)
        self.assertNotEqual(found.catalogue_flavor.id, found.live.id)

    def test_a_factor_that_mysql_has_rounded(self):
        live = dataclasses.replace(flavor(rxtx_factor=1 / 3),
                                   rxtx_factor=0.333333)
        self.assertEqual([('unchanged', 'ours.large')],
                         self.plan([flavor(rxtx_factor=1 / 3)], [live]))

    def test_retire(self):
        live = [flavor('ours.old'), flavor('theirs', 'theirs'), foreign()]
        self.assertEqual([('retire', 'ours.old')], self.plan([], live))
        self.assertEqual([], self.plan([], live, retires=False))

    @ddt.data(foreign('ours.large'),
              foreign('ours.large', extra_specs={'hw:cpu_policy': 'shared'}),
              flavor(catalogue='theirs'),
              # Half-created, but by another catalogue.
              half_created(flavor(catalogue='theirs')))
    def test_conflict(self, live):
        self.assertEqual([('conflict', 'ours.large')],
                         self.plan([flavor()], [live]))

    def test_conflict_of_ids(self):
        thief = foreign('thief', flavor().id)
        [change] = sync.plan([flavor()], [thief], OURS)
        self.assertEqual('conflict', change.action)
        self.assertIn("'thief'", change.reason)

    def test_adopt(self):
        live = foreign('ours.large', extra_specs={'hw:cpu_policy': 'shared'})
        [change] = sync.plan([flavor()], [live], OURS, adopts=True)
        self.assertEqual('adopt', change.action)
        self.assertEqual(
            [difference.Difference('hw:cpu_policy', 'shared', None),
             difference.Difference('pinning:catalogue', None, OURS)],
            list(change.differences))

    @ddt.data(foreign('ours.large', vcpus=3), flavor(catalogue='theirs'))
    def test_what_cannot_be_adopted(self, live):
        self.assertEqual([('conflict', 'ours.large')],
                         self.plan([flavor()], [live], adopts=True))

    def test_adopted_flavors_keep_their_id(self):
        live = dataclasses.replace(flavor(), id='as it was')
        self.assertEqual([('unchanged', 'ours.large')],
                         self.plan([flavor()], [live]))

    def test_half_created(self):
        one = flavor(extra_specs={'hw:cpu_policy': 'dedicated'})
        self.assertEqual([('update', one.name)],
                         self.plan([one], [half_created(one)]))
        # The catalogue has changed its mind since.
        self.assertEqual([('replace', one.name)],
                         self.plan([flavor(vcpus=16)], [half_created(one)]))
        self.assertEqual([('retire', one.name)],
                         self.plan([], [half_created(one)]))

    def test_order(self):
        wanted = [flavor(name) for name in 'zayb']
        live = [flavor(name) for name in 'ybc']
        self.assertEqual(['z', 'a', 'y', 'b', 'c'],
                         [name for _action, name in self.plan(wanted, live)])


@ddt.ddt
class TestApply(oslotest.BaseTestCase):

    def test_everything(self):
        before = [
            flavor('same'),
            flavor('changed', description='old', extra_specs={
                'a:gone': '1', 'a:other': '1'}),
            flavor('shape', vcpus=1),
            flavor('private', is_public=False, projects=('p1', 'p2')),
            flavor('unlisted'),
            foreign(),
        ]
        wanted = [
            flavor('same'),
            flavor('changed', description='new', extra_specs={
                'a:new': '1', 'a:other': '2'}),
            flavor('shape', vcpus=2),
            flavor('private', is_public=False, projects=('p2', 'p3')),
            flavor('more', is_public=False, projects=('p1',)),
        ]
        cloud = fake_flavor_cloud.FakeCloud(before)

        results = apply(wanted, cloud)

        self.assertEqual({'done'}, {result.status for result in results})
        self.assertEqual({one.name: one for one in [*wanted, foreign()]},
                         cloud.state())
        self.assertEqual(
            ['flavors',
             'flavor', 'servers',
             'set_extra_specs', 'unset_extra_spec', 'set_description',
             'flavor', 'create', 'set_extra_specs', 'delete',
             'servers', 'resizing', 'delete', 'create', 'set_extra_specs',
             'flavor', 'add_project', 'remove_project',
             'create', 'set_extra_specs', 'add_project',
             'flavor', 'servers', 'resizing', 'delete'], cloud.requests)
        cloud.requests.clear()
        apply(wanted, cloud)
        self.assertEqual(['flavors'], cloud.requests)

    def test_servers_are_in_the_way(self):
        before = [flavor('shape', vcpus=1), flavor('unlisted')]
        cloud = fake_flavor_cloud.FakeCloud(before, [one.id for one in before])

        results = apply([flavor('shape'), flavor('new')], cloud)

        self.assertEqual(['skipped', 'done', 'skipped'],
                         [result.status for result in results])
        self.assertIn(before[0].id, results[0].message)
        self.assertEqual(
            {one.name: one for one in [*before, flavor('new')]},
            cloud.state())

    def with_use(self, wanted, before, used=(), resized=()):
        cloud = fake_flavor_cloud.FakeCloud(before, used, resized)
        changes = [sync.with_use(change, cloud)
                   for change in sync.plan(wanted, before, OURS)]
        # What stands in the way does so until the next run.
        cloud.used.clear()
        cloud.resized.clear()
        done = list(sync_apply.apply(changes, cloud, OURS))
        return [(change.name, change.obstacle, change.advice, result.status)
                for change, result in zip(changes, done, strict=True)]

    @ddt.data('used', 'resized')
    def test_what_servers_use_is_not_deleted(self, how):
        before = [flavor('shape', vcpus=1), flavor('unlisted')]
        found = self.with_use(
            [flavor('shape')], before, **{how: [one.id for one in before]})
        for name, obstacle, advice, status in found:
            self.assertIn(
                {'used': 'is used by 1 server (guest (1))',
                 'resized': '1 server (moving (2)) may be in a resize'}[how],
                obstacle)
            self.assertEqual(('', 'skipped'), (advice, status))

    @ddt.data(({'hw:a': '1'}, 'done', 'a rebuild keeps them too'),
              ({'pinning:family': 'f'}, 'done', None),
              ({'hw:cpu_policy': 'dedicated'}, 'skipped', None))
    @ddt.unpack
    def test_servers_keep_what_they_have(self, extra_specs, status, words):
        before = flavor()
        [(_name, obstacle, advice, done)] = self.with_use(
            [flavor(extra_specs=extra_specs)], [before], [before.id])
        self.assertEqual(status, done)
        self.assertEqual(bool(words), '1 server (guest (1))' in advice)
        self.assertIn(words or '', advice)
        self.assertEqual(
            status == 'skipped',
            'its class would change from shared to dedicated' in obstacle)

    @ddt.data(({'hw:cpu_policy': 'dedicated'}, 'done'),
              ({}, 'skipped'), (None, 'skipped'))
    @ddt.unpack
    def test_a_class_is_put_right_under_servers_that_have_it(
            self, own, status):
        """Somebody has changed the flavor since they were created."""
        before = flavor()
        cloud = fake_flavor_cloud.FakeCloud([before], used=[before.id])
        cloud.copies[before.id] = own
        [result] = sync_apply.apply(sync.plan(
            [flavor(extra_specs={'hw:cpu_policy': 'dedicated'})], [before],
            OURS), cloud, OURS)
        self.assertEqual(status, result.status)

    def test_a_class_that_changes_while_a_server_is_created(self):
        before = flavor()
        cloud = fake_flavor_cloud.FakeCloud([before])
        changes = sync.plan(
            [flavor(extra_specs={'hw:cpu_policy': 'dedicated'})], [before],
            OURS)
        cloud.used.add(before.id)
        [result] = sync_apply.apply(changes, cloud, OURS)
        self.assertEqual('skipped', result.status)
        self.assertEqual({before.name: before}, cloud.state())

    def test_many_servers(self):
        change = sync.FlavorChange(
            sync.FlavorAction.UPDATE, 'a', flavor('a'), flavor('a'),
            servers=tuple(f's{n} ({n})' for n in range(9)))
        self.assertIn('9 servers (s0 (0), s1 (1), s2 (2), s3 (3), s4 (4) and '
                      '4 more) will keep', change.advice)

    def test_refused(self):
        cloud = fake_flavor_cloud.FakeCloud()
        cloud.unknown.add('hw:bad')
        results = apply([flavor('bad', extra_specs={'hw:bad': '1'}),
                         flavor('good')], cloud)

        self.assertEqual(
            [('failed', 'no such extra spec'), ('done', '')],
            [(result.status, result.message) for result in results])
        self.assertEqual({'good'}, set(cloud.state()))

    def test_one_that_never_settles(self):
        waits = []
        cloud = fake_flavor_cloud.FakeCloud()
        create = cloud.create

        def create_unless_bad(one):
            if one.name == 'bad':
                raise errors.UnsettledError('500')
            create(one)

        cloud.create = create_unless_bad
        changes = sync.plan([flavor('bad'), flavor('good')], (), OURS)

        results = list(sync_apply.apply(changes, cloud, OURS,
                                        sleep=waits.append))

        self.assertEqual([('failed', '500'), ('done', '')],
                         [(result.status, result.message)
                          for result in results])
        self.assertEqual(list(sync_apply.WAITS_S), waits)

    def test_an_ill_cloud_is_left_alone(self):
        cloud = fake_flavor_cloud.FakeCloud()

        def create(one):
            cloud.requests.append('create')
            raise errors.UnsettledError('500')

        cloud.create = create
        changes = sync.plan([flavor(str(n)) for n in range(9)], (), OURS)
        results = []

        error = self.assertRaises(
            errors.CloudError, results.extend, sync_apply.apply(
                changes, cloud, OURS, waits_s=(1,), sleep=lambda s: None))

        self.assertIn('3 flavors in a row', str(error))
        self.assertEqual(3 * 2, cloud.requests.count('create'))

    def test_failures_with_successes_in_between(self):
        cloud = fake_flavor_cloud.FakeCloud()
        create = cloud.create

        def create_unless_bad(one):
            if one.name.startswith('bad'):
                raise errors.UnsettledError('500')
            create(one)

        cloud.create = create_unless_bad
        wanted = [flavor(f'{kind}{number}') for number in range(5)
                  for kind in ('bad', 'good')]

        results = apply(wanted, cloud)

        self.assertEqual(['failed', 'done'] * 5,
                         [result.status for result in results])

    @ddt.data(foreign('ours.large'), foreign('thief', flavor().id))
    def test_somebody_is_quicker(self, other):
        cloud = fake_flavor_cloud.FakeCloud()

        def be_quicker(number):
            if cloud.requests[number] == 'create':
                cloud.hook = None
                cloud.stored[other.id] = other

        cloud.hook = be_quicker
        # Nobody has agreed to the adoption of this one.
        [result] = apply([flavor()], cloud, adopts=True)

        self.assertEqual('skipped', result.status)
        self.assertEqual({other.name: other}, cloud.state())
