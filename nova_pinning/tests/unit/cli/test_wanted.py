#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import argparse

import ddt

from nova_pinning.cli import wanted as cli_wanted
from nova_pinning import errors
from nova_pinning.flavors import model as flavor_model
from nova_pinning.fleet import model as fleet_model
from nova_pinning.tests.unit.cli import base

_FLEET = fleet_model.Fleet(
    hosts=(), where=errors.Location('fleet.json'), flavors=(
        flavor_model.Flavor(name='small', vcpus=2, memory_mib=2048),
        flavor_model.Flavor(name='large', vcpus=8, memory_mib=8192)),
    pci_aliases={'gpu': fleet_model.PciAlias(
        (fleet_model.DeviceKind('1111', '2222'),))})
_DEDICATED = 'vcpus=2 ram=2GiB hw:cpu_policy=dedicated'


def _parsed(*argv):
    parser = argparse.ArgumentParser()
    cli_wanted.add_flavors(parser)
    cli_wanted.add_order(parser)
    return parser.parse_args(argv)


@ddt.ddt
class TestFlavors(base.TestCase):

    def _names(self, *argv, fleet=_FLEET):
        return [one.name for one in cli_wanted.flavors(
            _parsed(*argv), fleet)]

    def test_all(self):
        self.assertEqual(['small', 'large'], self._names())

    def test_named(self):
        self.assertEqual(['large', 'flavor'], self._names(
            '--flavor', 'large', '--flavor', _DEDICATED))

    def test_catalogue(self):
        found = self._names('--flavor', 'small', '--catalogue',
                            base.CATALOGUE)
        self.assertEqual(23, len(found))
        self.assertEqual('small', found[0])

    def test_one_of_a_catalogue(self):
        self.assertEqual(['shared.large'], self._names(
            '--flavor', f'{base.CATALOGUE}:shared.large'))

    def test_of_one_name(self):
        """Figures go by the name, so each flavor has one of its own."""
        self.assertEqual(
            ['flavor', 'flavor-3', 'flavor-2', 'flavor-4'],
            self._names('--flavor', 'vcpus=2 ram=2GiB',
                        '--flavor', 'vcpus=4 ram=2GiB',
                        '--flavor', 'name=flavor-2 vcpus=6 ram=2GiB',
                        '--flavor', 'vcpus=2 ram=2GiB',
                        '--flavor', 'vcpus=8 ram=2GiB'))

    def test_unknown(self):
        error = self.assertRaises(
            errors.InputError, self._names, '--flavor', 'larg')
        self.assertEqual(
            "--flavor: fleet.json has no flavor called 'larg', and there is "
            'no such file; there is large', str(error))

    @ddt.data((), ('--flavor', 'small'))
    def test_none(self, argv):
        error = self.assertRaises(
            errors.InputError, self._names, *argv,
            fleet=fleet_model.Fleet(hosts=()))
        self.assertIn('the snapshot has no flavor', str(error))
        self.assertIn('vcpus=8', str(error))


@ddt.ddt
class TestAliases(base.TestCase):

    def _aliases(self, *texts):
        return cli_wanted.pci_aliases(_parsed(*(
            part for text in texts for part in ('--pci-alias', text))),
            _FLEET)

    def test_added(self):
        found = self._aliases('nic=8086:154C:required', 'nic=8086:1889')
        self.assertEqual(fleet_model.PciAlias((
            fleet_model.DeviceKind('8086', '154c'),
            fleet_model.DeviceKind('8086', '1889')), 'required'),
            found['nic'])
        self.assertEqual(_FLEET.pci_aliases['gpu'], found['gpu'])

    def test_replaced(self):
        found = self._aliases('gpu=10de:20b5')
        self.assertEqual(
            fleet_model.PciAlias((fleet_model.DeviceKind('10de', '20b5'),)),
            found['gpu'])

    @ddt.data('gpu', 'gpu=10de', 'gpu=10de:20b5:near', '=10de:20b5',
              'gpu=10dg:20b5')
    def test_odd(self, text):
        error = self.assertRaises(errors.InputError, self._aliases, text)
        self.assertIn('gpu=10de:20b5', error.advice)

    def test_two_policies(self):
        error = self.assertRaises(
            errors.InputError, self._aliases, 'a=1111:2222:required',
            'a=1111:3333:socket')
        self.assertIn('required and socket', str(error))


class TestWanted(base.TestCase):

    def test_all_of_it(self):
        found, = cli_wanted.wanted(_parsed(
            '--flavor', 'vcpus=2 ram=2GiB pci_passthrough:alias=gpu:1',
            '--image-property', 'hw_cpu_policy=dedicated'), _FLEET)
        self.assertTrue(found.topology.is_pinned)
        self.assertEqual('gpu', found.devices[0].alias)
