# SPDX-License-Identifier: Apache-2.0

import argparse

import ddt

from nova_pinning.admission import devices
from nova_pinning.admission import pci_alias
from nova_pinning.cli import common_options
from nova_pinning.cli import guest_options
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import snapshot
from nova_pinning.tests.unit.cli import cli_case

_FLEET = snapshot.Fleet(
    hosts=(), where=errors.Location('fleet.json'), flavors=(
        flavor_model.Flavor(name='small', vcpus=2, memory_mib=2048),
        flavor_model.Flavor(name='large', vcpus=8, memory_mib=8192)),
    pci_aliases={'gpu': pci_alias.PciAlias(
        (devices.device_keys('1111', '2222'),))})
_DEDICATED = 'vcpus=2 ram=2GiB hw:cpu_policy=dedicated'


def _parsed(*argv):
    parser = argparse.ArgumentParser()
    guest_options.add_flavors(parser)
    common_options.add_image_properties(parser)
    return parser.parse_args(argv)


@ddt.ddt
class TestFlavors(cli_case.TestCase):

    def _names(self, *argv, fleet=_FLEET):
        return [
            requested_flavor.name
            for requested_flavor in guest_options.requested_flavors(
                _parsed(*argv), fleet)]

    def test_all(self):
        self.assertEqual(['small', 'large'], self._names())

    def test_named(self):
        self.assertEqual(['large', 'flavor'], self._names(
            '--flavor', 'large', '--flavor', _DEDICATED))

    def test_catalogue(self):
        found = self._names('--flavor', 'small', '--flavor',
                            cli_case.CATALOGUE)
        self.assertEqual(23, len(found))
        self.assertEqual('small', found[0])

    def test_one_of_a_catalogue(self):
        self.assertEqual(['shared.large'], self._names(
            '--flavor', f'{cli_case.CATALOGUE}:shared.large'))

    def test_of_one_name(self):
        """Figures go by the name, so each flavor has one of its own."""
        self.assertEqual(
            ['2 vCPUs x 2 GiB shared', '1 vCPU x 2 GiB dedicated', 'large',
             '2 vCPUs x 2 GiB shared-2', 'large-2'],
            self._names('--flavor', 'vcpus=2 ram=2GiB',
                        '--flavor', 'vcpus=1 ram=2GiB '
                        'hw:cpu_policy=dedicated',
                        '--flavor', 'name=large vcpus=6 ram=2GiB',
                        '--flavor', 'vcpus=2 ram=2GiB',
                        '--flavor', 'vcpus=2 ram=2GiB disk=3',
                        '--flavor', 'name=large vcpus=8 ram=2GiB'))
        self.assertEqual(['flavor'], self._names(
            '--flavor', 'vcpus=2 ram=2GiB', '--flavor', 'vcpus=2 ram=2GiB'))

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
            fleet=snapshot.Fleet(hosts=()))
        self.assertIn('the snapshot has no flavor', str(error))
        self.assertIn('vcpus=8', str(error))


class TestWanted(cli_case.TestCase):

    def test_all_of_it(self):
        found, = guest_options.guest_requests(_parsed(
            '--flavor', 'vcpus=2 ram=2GiB pci_passthrough:alias=gpu:1',
            '--image-property', 'hw_cpu_policy=dedicated'), _FLEET)
        self.assertTrue(found.topology.is_pinned)
        self.assertEqual('gpu', found.devices[0].alias)
