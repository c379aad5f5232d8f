# SPDX-License-Identifier: Apache-2.0
"""Sync against nova's own API, with every request going wrong once."""

import dataclasses

from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import names
from nova_pinning.flavors import sync
from nova_pinning.flavors import sync_apply
from nova_pinning.tests import forms
from nova_pinning.tests.functional import apiserver
from nova_pinning.tests.functional import flavorsync

OURS = 'ours'
FOREIGN = 'foreign'


def flavor(name, catalogue=OURS, **fields):
    fields = {'vcpus': 2, 'memory_mib': 512, **fields}
    one = flavor_model.Flavor(name=name, **{**fields, 'extra_specs': {
        'pinning:catalogue': catalogue, **fields.get('extra_specs', {})}})
    return dataclasses.replace(one, id=names.flavor_id(catalogue, one))


#: What an earlier catalogue has left behind.
BEFORE = (
    flavor('same', is_public=False, projects=('p1',)),
    flavor('changed', description='old', extra_specs={
        'hw:cpu_policy': 'shared', 'quota:cpu_shares': '1'}),
    flavor('access', is_public=False, projects=('p1', 'p2')),
    flavor('shape', extra_specs={'hw:cpu_policy': 'dedicated'}),
    flavor('unlisted'),
)
WANTED = (
    BEFORE[0],
    flavor('changed', description='new', extra_specs={
        'hw:cpu_policy': 'dedicated', 'hw:cpu_threads': '2'}),
    flavor('access', is_public=False, projects=('p2', 'p3')),
    flavor('shape', vcpus=4, extra_specs={'hw:cpu_policy': 'dedicated'}),
    flavor('new', is_public=False, projects=('p1',), description='words',
           extra_specs={'hw:cpu_policy': 'dedicated'}),
    flavor('taken'),
)
#: None of ours. 'taken' has a name that we want.
OTHERS = (
    flavor('taken', FOREIGN, extra_specs={'hw:cpu_policy': 'shared'}),
    flavor('theirs', FOREIGN, is_public=False, projects=('p1',)),
)


class TestEveryRequest(flavorsync.SyncTestCase):

    def setUp(self):
        super().setUp()
        self.set_up_flavors()
        self.before = self.state()
        self.assertEqual(
            [('skipped', 'taken')],
            [result for result in self.apply() if result[0] != 'done'])
        self.end = self.state()
        self.count = len(self.api.requests)

    def apply(self, wanted=WANTED, waits_s=sync_apply.WAITS_S,
              catalogue=OURS, **options):
        """Plan and apply.

        :returns: (status, name) of what was not unchanged
        """
        nova = self.connect()
        changes = sync.plan(wanted, sync.read(nova, wanted, catalogue),
                            catalogue, **options)
        return [(result.status, result.change.name)
                for result in sync_apply.apply(
                    changes, nova, catalogue, waits_s=waits_s,
                    sleep=lambda seconds: None)
                if result.change.action != 'unchanged']

    def set_up_flavors(self):
        """Bring the flavors to where each test begins."""
        self.api.restart()
        nova = self.connect()
        right = set()
        for one in nova.flavors(lambda flavor: True):
            if one in (*BEFORE, *OTHERS):
                right.add(one.id)
            else:
                nova.delete(one.id)
        for one in (*BEFORE, *OTHERS):
            if one.id not in right:
                nova.create(one)
                nova.set_extra_specs(one.id, one.extra_specs)
                for project in one.projects:
                    nova.add_project(one.id, project)
        self.api.restart()

    def test_faults(self):
        """One cloud for all of them: to start one takes longest."""
        self.check_undisturbed()
        for fault in apiserver.Fault:
            self.check_fault(fault)
        self.check_several_faults()
        for fault in (apiserver.Fault.DROPPED, apiserver.Fault.LOST):
            self.check_cut_off_and_run_again(fault)

    def check_undisturbed(self):
        self.assertEqual(
            {'same', 'changed', 'access', 'shape', 'new', 'taken', 'theirs'},
            set(self.end))
        for name in self.before:
            if name not in ('changed', 'access', 'shape', 'unlisted'):
                self.assertEqual(self.before[name], self.end[name])
        for one in WANTED[:-1]:
            self.assertEqual(one.id, self.end[one.name]['id'])
            self.assertEqual(one.vcpus, self.end[one.name]['vcpus'])
            self.assertEqual(one.extra_specs,
                             self.end[one.name]['extra_specs'])
            self.assertEqual(one.description,
                             self.end[one.name]['description'] or '')
            self.assertEqual(list(one.projects),
                             self.end[one.name].get('access', []))
        self.api.restart()
        self.assertEqual([('skipped', 'taken')], self.apply())
        self.assertEqual({'GET'}, {method for method, _path
                                   in self.api.requests})

    def check_fault(self, fault):
        # The unit tests have every pair.
        for number in forms.turns(self.count, fault, tuple(apiserver.Fault)):
            self.set_up_flavors()
            self.api.restart(fault, (number,))
            try:
                results = self.apply()
            except errors.CloudError:
                # The search for the API, which openstacksdk does not repeat.
                self.assertEqual(0, number)
                results = self.apply()
            self.assertGreaterEqual(len(self.api.requests), self.count,
                                    (fault, number))
            self.assertEqual(self.end, self.state(), (fault, number))
            self.assertNotIn('failed', [status for status, _ in results],
                             (fault, number))

    def check_several_faults(self):
        for number in range(3, self.count - 3, 18 if forms.SHORT else 9):
            self.set_up_flavors()
            self.api.restart(apiserver.Fault.LOST,
                             (number, number + 2, number + 3))
            self.apply()
            self.assertEqual(self.end, self.state(), number)

    def check_cut_off_and_run_again(self, fault):
        for number in range(fault is apiserver.Fault.LOST, self.count,
                            24 if forms.SHORT else 2):
            self.set_up_flavors()
            self.api.restart(fault, range(number, 10_000))
            try:
                self.apply(waits_s=())
            except errors.CloudError:
                pass
            self.api.restart()
            self.apply()
            self.assertEqual(self.end, self.state(), (fault, number))
