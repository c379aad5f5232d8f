# SPDX-License-Identifier: Apache-2.0


import dataclasses
import json
import os

import ddt
import fixtures
import hypothesis
import jsonschema
from oslotest import base

from nova_pinning.document import typed_document
from nova_pinning import errors
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_model
from nova_pinning.tests.unit.rebalance import plan_samples
from nova_pinning.tests.unit import unit_base


def _moves(*hosts):
    """One guest from host to host, as values of a document."""
    return [{'guest': 'x', 'source': source, 'target': target, 'kind': 'live',
             'vcpus': 8, 'memory_mib': 1024}
            for source, target in zip(hosts, hosts[1:])]


def _document(**values):
    return {'version': 2, 'goal': 'defragment',
            'fleet': {'digest': 'sha256:' + '0' * 64},
            'moves': _moves('a', 'b'), **values}


class TestRoundTrip(base.BaseTestCase):

    @unit_base.settings(150)
    @hypothesis.given(plan_samples.ANY_PLAN)
    def test_any(self, plan):
        text = plan_document.dumps(plan)
        found = plan_document.loads(text)
        self.assertEqual(plan, found)
        self.assertEqual(text, plan_document.dumps(found))
        self.assertEqual(plan_document.plan_to_json(plan), json.loads(text))

    def test_schema(self):
        jsonschema.Draft202012Validator.check_schema(
            typed_document.schema(plan_model.RebalancePlan))

    def test_files(self):
        directory = self.useFixture(fixtures.TempDir()).path
        plan = plan_document.loads(json.dumps(_document()))
        for name in ('plan.json', 'plan.json.zst'):
            path = os.path.join(directory, name)
            plan_document.write_plan(plan, path)
            self.assertEqual(plan, plan_document.read_plan(path))

    def test_one_line_a_move(self):
        # So that two plans can be compared with diff.
        plan = plan_document.loads(json.dumps(_document(
            moves=_moves('a', 'b', 'c'))))
        lines = plan_document.dumps(plan).splitlines()
        self.assertEqual(
            2, sum(line.startswith('{"guest": "x"') for line in lines))

    def test_nothing_to_do(self):
        plan = plan_document.loads(json.dumps(_document(moves=[])))
        self.assertEqual((), plan.moves)
        self.assertEqual(plan_model.PlanGoal.DEFRAGMENT, plan.goal)

    def test_whole_seconds(self):
        moves = _moves('a', 'b')
        moves[0]['seconds'] = 90
        plan = plan_document.loads(json.dumps(_document(moves=moves)))
        self.assertIs(float, type(plan.moves[0].seconds))


def _changed(**values):
    """A document whose one move is other than usual."""
    return _document(moves=[{**_moves('a', 'b')[0], **values}])


@ddt.ddt
class TestErrors(base.BaseTestCase):

    def _fails(self, text):
        return str(self.assertRaises(
            errors.InputError, plan_document.loads, text, 'plan.json'))

    @ddt.data('', 'moves: []', '[]', '{}', '{"version": 1, "hosts": []}')
    def test_something_else(self, text):
        self.assertIn('nova-pinning rebalance', self._fails(text))

    def test_cut_off(self):
        text = json.dumps(_document())[:-40]
        self.assertIn('plan.json:1:', self._fails(text))

    @ddt.data(
        (_document(version=3), '3 is not a version', 'version'),
        (_document(version=True), 'true is not a version', 'version'),
        (_document(version=1), '1 is not a version that is', 'version'),
        (_document(request={}), 'goal is missing', 'request'),
        (_document(request={'goal': {'hosts': ['a b']}}),
         "'a b' is not a host's name", 'request.goal.hosts[0]'),
        (_document(request={'goal': {'hosts': []}, 'moves': 0}),
         '0 is not a whole number, 1 or more', 'request.moves'),
        (_document(goal='drian'), 'did you mean drain?', 'goal'),
        (_document(fleet={'digest': 'md5:0'}), 'is not a digest',
         'fleet.digest'),
        (_document(fleet={}), 'digest is missing', 'fleet'),
        (_document(more=1), 'more is not known here', 'more'),
        (_changed(vcpus=0), '0 is not a number of vCPUs', 'moves[0].vcpus'),
        (_changed(kind='warm'), 'warm is not one of live, cold',
         'moves[0].kind'),
        (_changed(source='a b'), "'a b' is not a host's name",
         'moves[0].source'),
        (_changed(target='a'), 'a is the host that the guest is on',
         'moves[0].target'),
        (_changed(after=[0]), 'move 0 is not before this one, which is 0',
         'moves[0].after[0]'),
        (_changed(is_parking=True), 'the guest does not move on later',
         'moves[0].is_parking'),
        (_changed(target_fit=[{'host_cell': 0, 'pins': '0-3:4-6'}]),
         'has 3 CPUs for 4 vCPUs', 'moves[0].target_fit[0].pins'),
        (_changed(source_fit=[{'host_cell': 0, 'pins': '3-0:4-7'}]),
         'the range 3-0 runs backwards', 'moves[0].source_fit[0].pins'),
        (_document(moves=[{
            **_moves('a', 'b')[0], 'target_fit': [{'cpus': '0-3'}]}]),
         'host_cell is missing', 'moves[0].target_fit[0]'),
        (_document(moves=_moves('a', 'b') + _moves('c', 'd')),
         'c is not where the guest is: move 0 brings it to b',
         'moves[1].source'),
    )
    @ddt.unpack
    def test_place(self, value, message, key):
        text = json.dumps(value, indent=1)
        told = self._fails(text)
        self.assertIn(message, told)
        self.assertIn(f': {key}: ', told)
        self.assertRegex(told, r'\Aplan\.json:[0-9]+:[0-9]+: ')

    def test_no_file(self):
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 'none')
        error = self.assertRaises(
            errors.InputError, plan_document.read_plan, path)
        self.assertIn(path, str(error))

    def test_unwritable(self):
        plan = dataclasses.replace(plan_document.loads(json.dumps(
            _document())))
        self.assertRaises(
            errors.InputError, plan_document.write_plan, plan,
            os.path.join(self.useFixture(fixtures.TempDir()).path, 'no', 'p'))
