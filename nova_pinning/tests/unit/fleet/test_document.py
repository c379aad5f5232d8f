# SPDX-License-Identifier: Apache-2.0

import dataclasses
import json
import os
import pathlib

import ddt
import fixtures
import hypothesis
from hypothesis import strategies
import jsonschema
from oslotest import base

from nova_pinning import cpuset
from nova_pinning.document import typed_document
from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import problems
from nova_pinning.fleet import snapshot
from nova_pinning.fleet import summary
from nova_pinning import model
from nova_pinning.tests.unit.fleet import fleet_samples
from nova_pinning.tests.unit import unit_base

_NULL = object()
_SCHEMA = typed_document.schema(snapshot.Fleet, document.VERSION)


class TestRoundTrip(base.BaseTestCase):

    @unit_base.settings(120)
    @hypothesis.given(fleet_samples.ANY_FLEET)
    def test_any(self, fleet):
        text = document.dumps(fleet)
        found = document.loads(text, 'fleet.json')
        self.assertEqual(fleet, found)
        self.assertEqual(text, document.dumps(found))
        self.assertEqual('fleet.json', str(found.where))
        # Names of providers are no part of what is compared.
        self.assertEqual(*[
            [(child.uuid, child.name) for host in either.hosts
             for child in host.children] for either in (fleet, found)])

    @unit_base.settings(30)
    @hypothesis.given(fleet_samples.ANY_FLEET)
    def test_schema_agrees(self, fleet):
        jsonschema.Draft202012Validator(_SCHEMA).validate(
            json.loads(document.dumps(fleet)))

    def test_schema(self):
        jsonschema.Draft202012Validator.check_schema(_SCHEMA)

    def test_files(self):
        directory = self.useFixture(fixtures.TempDir()).path
        fleet = fleet_samples.tidy()
        for name in ('fleet.json', 'fleet.json.zst'):
            path = os.path.join(directory, name)
            document.write(path, fleet)
            self.assertEqual(fleet, document.read(path))
            self.assertEqual(path, str(document.read(path).where))
        sizes = [os.stat(os.path.join(directory, name)).st_size
                 for name in ('fleet.json', 'fleet.json.zst')]
        self.assertLess(sizes[1] * 4, sizes[0])

    def test_shared_parts(self):
        # What is alike stands once in the file, and is one object in memory.
        text = document.dumps(fleet_samples.tidy())
        found = json.loads(text)
        self.assertEqual(2, len(found['layouts']))
        self.assertEqual(2, len(found['trait_sets']))
        self.assertLess(len(found['topologies']), 5)
        fleet = document.loads(text)
        self.assertIs(fleet.hosts[0].cells, fleet.hosts[1].cells)

    def test_sequences(self):
        # In their order, and short.
        guest = fleet_samples.tidy().guests[0]
        for cpus, text in (
                ((4, 5, 6, 7), '4-7'), ((4, 12, 5, 13), '4,12,5,13'),
                ((1, 0, 3, 5), '1,0,3,5'), ((7, 8, 1, 2), '7-8,1-2')):
            placed = dataclasses.replace(
                guest, topology=model.Guest((
                    model.GuestCell((0, 1, 2, 3), (), 64),)),
                fit=model.Fit((model.CellFit(
                    0, tuple(enumerate(cpus)), cpus),)))
            found = json.loads(document.dumps(snapshot.Fleet(
                hosts=(), guests=(placed,))))
            self.assertEqual(
                [{'host_cell': 0, 'pins': text, 'emulator_cpus': text}],
                found['guests'][0]['fit'])

    def test_pins_of_other_vcpus(self):
        guest = fleet_samples.tidy().guests[0]
        placed = dataclasses.replace(guest, fit=model.Fit((
            model.CellFit(0, ((4, 9), (5, 10), (7, 2))),)))
        text = document.dumps(snapshot.Fleet(hosts=(), guests=(placed,)))
        self.assertIn('"pins": "4-5,7:9-10,2"', text)
        self.assertEqual(placed.fit, document.loads(text).guests[0].fit)

    def test_lines(self):
        # One for each host and guest.
        fleet = fleet_samples.tidy()
        lines = document.dumps(fleet).splitlines()
        for guest in fleet.guests:
            self.assertEqual(1, sum(guest.uuid in line for line in lines))

    def test_texts_for_people(self):
        fleet = fleet_samples.tidy()
        host = dataclasses.replace(
            fleet.hosts[0], disabled_reason='a\x1b[1m\nb\udc80')
        guest = dataclasses.replace(fleet.guests[0], name='a\nb\u2028c')
        found = document.loads(document.dumps(dataclasses.replace(
            fleet, hosts=(host, *fleet.hosts[1:]),
            guests=(guest, *fleet.guests[1:]))))
        self.assertEqual('a?[1m\nb?', found.hosts[0].disabled_reason)
        self.assertEqual('a?b?c', found.guests[0].name)


class TestNotToBeWritten(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.fleet = fleet_samples.tidy()

    def _write(self, error, **changes):
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 'x')
        found = self.assertRaises(
            error, document.write, path,
            dataclasses.replace(self.fleet, **changes))
        self.assertFalse(os.path.exists(path))
        return str(found)

    def test_twice(self):
        self.assertIn('appears here a second time', self._write(
            errors.InputError, hosts=self.fleet.hosts[:1] * 2))
        self.assertIn('appears here a second time', self._write(
            errors.InputError, guests=self.fleet.guests[:1] * 2))

    def test_out_of_range(self):
        guest = dataclasses.replace(self.fleet.guests[0], vcpus=0)
        self.assertIn('.vcpus: 0 is not a number of vCPUs', self._write(
            errors.InputError, guests=(guest,)))

    def test_used(self):
        host = self.fleet.hosts[0]
        cell = host.cells[0]
        for used in (
                {'pinned_cpus': cpuset.CpuSet([1])}, {'memory_used_mib': 1},
                {'shared_used': 1}, {'pages': (model.PagePool(4, 9, 1),)}):
            host = dataclasses.replace(host, cells=(
                dataclasses.replace(cell, **used),))
            self.assertIn(f'hosts[0] ({host.name}).cells[0].',
                          self._write(errors.InputError, hosts=(host,)))

    def test_fit_of_something_else(self):
        guest = self.fleet.guests[0]
        for changes in ({'fit': None}, {'fit': model.Fit(())}):
            self._write(errors.InputError, guests=(
                dataclasses.replace(guest, **changes),))


@ddt.ddt
class TestErrors(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        fleet = fleet_samples.tidy()
        self.guest = next(guest for guest in fleet.guests if guest.devices)
        self.fleet = dataclasses.replace(fleet, guests=(
            self.guest, *(guest for guest in fleet.guests
                          if guest is not self.guest)))
        self.value = json.loads(document.dumps(self.fleet))

    def _error(self):
        text = json.dumps(self.value, indent=1)
        error = self.assertRaises(
            errors.InputError, document.loads, text, 'fleet.json')
        self.assertNotEqual(0, error.where.line)
        return str(error)

    @ddt.data(
        (('hosts', 1, 'name'), 'dedicated-00001',
         'hosts[1] (dedicated-00001).name: dedicated-00001 appears here a '
         'second time; the first is hosts[0]'),
        (('hosts', 1, 'cells'), 7, 'there is no layouts[7]; layouts has 2'),
        (('hosts', 1, 'cells'), -1, '-1 is not a position in layouts'),
        (('hosts', 1, 'traits'), 2, 'there is no trait_sets[2]'),
        (('guests', 0, 'topology'), 99, 'there is no topologies[99]'),
        (('guests', 0, 'fit'), [{'host_cell': 0}, {'host_cell': 1}],
         '.fit: places 2 cells, where the topology has 1'),
        (('guests', 0, 'fit', 0, 'pins'), '0-3:1', '1 CPUs for 4 vCPUs'),
        (('guests', 0, 'fit', 0, 'pins'), '4-1', '4-1 runs backwards'),
        (('guests', 0, 'fit', 0, 'pins'), '1-99999', 'CPU ids end at 65535'),
        (('guests', 0, 'fit', 0, 'pins'), '0-65535,0-65535',
         'more than 65,536 CPUs'),
        (('guests', 0, 'fit', 0, 'pins'), '1,', "'1,' is not a sequence"),
        (('guests', 0, 'fit', 0, 'pins'), '', 'is not a sequence'),
        (('guests', 0, 'fit'), None, 'of topology and fit one is missing'),
        (('guests', 0, 'topology'), None, 'and fit one is missing'),
        (('guests', 0, 'uuid'), None, 'guests[0]: uuid is missing'),
        (('guests', 0, 'guest_class'), 'dedicatd', 'did you mean dedicated?'),
        (('guests', 0, 'vcpu'), 1, 'did you mean vcpus?'),
        (('guests', 0, 'vcpus'), 2.0, '2.0 is not a number of vCPUs'),
        (('guests', 0, 'vcpus'), True, 'true is not a number of vCPUs'),
        (('guests', 0, 'vcpus'), '4', "'4' is not a number of vCPUs"),
        (('guests', 0, 'memory_mib'), 10 ** 40, 'is not a whole number'),
        (('guests', 0, 'name'), 'a\ud800', 'is not text in one line'),
        (('guests', 0, 'name'), 'a\n', 'is not text in one line'),
        (('guests', 0, 'devices', 0, 'keys'), '8086', 'a position in device_'),
        (('hosts', 0, 'cpu_allocation_ratio'), 0, 'a number above 0'),
        (('hosts', 0, 'name'), 'a b', 'without blanks'),
        (('hosts', 0, 'nova_release'), '31', 'a release of nova, such as'),
        (('hosts', 0, 'nova_release'), '2019.2',
         ".nova_release: '2019.2' is not a release of nova "
         'that is known here; these are: 2024.1, '),
        (('hosts', 0), 'x', 'hosts[0]: x is not a mapping'),
        (('hosts',), {}, 'hosts: a mapping is not a list'),
        (('layouts', 0, 1, 'id'), 0, 'a cell 0 stands here already'),
        (('layouts', 0, 1, 'dedicated_cpus'), '0-',
         "layouts[0][1].dedicated_cpus: '0-' is not a list of CPUs"),
        (('l3_domains', 0, 1), '9-2', 'the range runs backwards'),
        (('layouts', 0, 0, 'pages', 0, 'size_kib'), 0, 'page size'),
        (('topologies', 0, 'cells', 0, 'dedicated_vcpus'), 'x', 'of CPUs'),
        (('topologies', 0, 'cells', 0, 'page_size_kib'), 'tiny', 'small'),
        (('topologies', 0, 'cells'), [], 'cells: is empty'),
        (('trait_sets', 0, 0), 'custom', 'is not a trait'),
        (('aggregates', 1, 'name'), 'dedicated', 'appears here a second time'),
        (('flavors', 1, 'name'), 'dedicated-4', 'appears here a second time'),
        (('pci_aliases', 'gpu', 'policy'), 'requird', 'mean required?'),
        (('pci_aliases', 'gpu', 'specs', 0, 'product_id'), _NULL,
         'pci_aliases.gpu.specs[0].product_id: has no value'),
        (('pci_aliases', 'gpu', 'spec'), 1, 'did you mean specs?'),
        (('taken_at',), 'yesterday', 'is not a time in UTC'),
        (('version',), 3, 'this release reads version 2'),
        (('version',), True, 'this release reads version 2'),
        (('version',), None, 'it has no version'),
        (('layouts',), None, 'there is no layouts[0]; layouts has 0'),
        (('gests',), [], 'did you mean guests or hosts?'),
    )
    @ddt.unpack
    def test_one(self, path, value, message):
        at = self.value
        for part in path[:-1]:
            at = at[part]
        if value is None:
            del at[path[-1]]
        else:
            at[path[-1]] = None if value is _NULL else value
        self.assertIn(message, self._error())

    @ddt.data(
        (('hosts', 0, 'children', 1, 'parent'), 2, 'is no provider before it'),
        (('hosts', 0, 'children', 0, 'parent'), 9, 'is no provider before it'),
        (('hosts', 0, 'pci_pools'), len, 'pci_pools: has a pool of a'),
        (('guests', 0, 'allocations'), [[3, {'VGPU': 1}]],
         'allocations: has some of a provider'),
    )
    @ddt.unpack
    def test_providers(self, path, value, message):
        host = self.value['hosts'][0]
        host['children'] = [{'parent': 0}, {'parent': 1}]
        self.value['guests'][0]['host'] = host['name']
        document.loads(json.dumps(self.value))
        if value is len:
            pools = self.value['pci_pools']
            value = len(pools)
            pools.append([{'keys': 0, 'numa_node': 0, 'total': 1,
                           'provider': 3}])
        at = self.value
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = value
        error = self._error()
        self.assertIn(message, error)
        self.assertIn('parents come first', error)

    def test_no_snapshot(self):
        for text in ('[]', '7', 'version: 1\nname: host1\n', '{"PM_1": {}}',
                     ''):
            error = self.assertRaises(
                errors.InputError, document.loads, text, 'other.json')
            self.assertEqual('other.json', error.where.source)
            self.assertIn('nova-pinning fleet import', str(error))
        # One that is cut off is known for what it is.
        error = self.assertRaises(
            errors.InputError, document.loads, '{"version": 1, "hosts": [')
        self.assertNotIn('fleet import', str(error))

    def test_place(self):
        self.value['guests'][7]['vcpus'] = '4'
        text = json.dumps(self.value, indent=1)
        error = self.assertRaises(
            errors.InputError, document.loads, text, 'fleet.json')
        self.assertEqual(
            "'4'", text.splitlines()[error.where.line - 1]
            [error.where.column - 1:].replace('"', "'").rstrip(','))
        self.assertEqual(
            f'guests[7] ({self.value["guests"][7]["uuid"]}).vcpus',
            error.where.key)

    def test_several(self):
        for place in (3, 5, 9):
            self.value['guests'][place]['vcpus'] = '4'
        found = self._error().splitlines()
        self.assertEqual(3, len(found))
        self.assertIn('guests[9]', found[-1])

    def test_late(self):
        # What is right before is not looked at once more.
        guest = self.value['guests'][-1]
        self.value['guests'] = [
            dict(guest, uuid=str(number)) for number in range(20_000)]
        self.value['guests'][-1]['vcpus'] = 0
        self.assertIn('guests[19999] (19999).vcpus: 0 is', self._error())

    def test_same_twice_far_apart(self):
        self.value['guests'][5]['uuid'] = self.value['guests'][2]['uuid']
        self.assertIn('the first is guests[2]', self._error())

    def test_what_is_odd_is_read(self):
        # Guests on no host, and on CPUs that are not there, can be.
        guest = self.value['guests'][0]
        guest['host'] = 'gone'
        guest['fit'][0] = {'host_cell': 77, 'pins': '9,9:1,1'}
        fleet = document.loads(json.dumps(self.value))
        self.assertEqual(
            model.CellFit(77, ((9, 1), (9, 1))), fleet.guests[0].fit.cells[0])


_ODD_VALUES = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers()
    | strategies.floats() | strategies.text(max_size=5)
    | strategies.sampled_from([
        0, 1, 2, -1, 2.0, '', '0', '0-3', '3-0', 'any', 'shared', 'isolate',
        'dedicated', '8086:1572', 10 ** 30, 65536]),
    lambda below: strategies.lists(below, max_size=3)
    | strategies.dictionaries(strategies.sampled_from(
        ['cells', 'id', 'name', 'memory_mib', 'host_cell', 'x']), below,
        max_size=3), max_leaves=6)


def change_anything(value, data):
    """Make something in a document another thing, or leave it out."""
    at, parts = value, 0
    while True:
        keys = sorted(at) if isinstance(at, dict) else range(len(at))
        key = data.draw(strategies.sampled_from(keys))
        below, parts = at[key], parts + 1
        if not below or not isinstance(below, dict | list) or (
                parts > 1 and data.draw(strategies.integers(0, 4)) == 0):
            break
        at = below
    if data.draw(strategies.booleans()):
        at[key] = data.draw(_ODD_VALUES)
    else:
        del at[key]


class TestAnythingAtAll(base.BaseTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.text = document.dumps(fleet_samples.tidy(mix='8x2,4'))

    @unit_base.settings(100)
    @hypothesis.given(strategies.data())
    def test_something_else(self, data):
        value = json.loads(self.text)
        change_anything(value, data)
        try:
            fleet = document.loads(json.dumps(value), 'fleet.json')
        except errors.InputError as error:
            self.assertIn('fleet.json', str(error))
            return
        problems.find(fleet)
        summary.as_dict(fleet, summary.summarise(fleet))
        self.assertEqual(fleet, document.loads(document.dumps(fleet)))


class TestExample(base.BaseTestCase):

    def test_documented(self):
        path = (pathlib.Path(__file__).parents[4] / 'doc' / 'source'
                / 'reference' / 'fleet-example.json')
        if not path.is_file():
            self.skipTest('not run from a checkout')
        fleet = document.read(path)
        self.assertEqual((), problems.find(fleet))
        self.assertEqual(json.loads(path.read_text()),
                         json.loads(document.dumps(fleet)))


class TestEmpty(base.BaseTestCase):

    def test_nothing_in_it(self):
        fleet = snapshot.Fleet(hosts=())
        self.assertEqual(fleet, document.loads(document.dumps(fleet)))
        self.assertEqual(fleet, document.loads(
            '{"version": 2, "hosts": []}'))
