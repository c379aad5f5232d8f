# SPDX-License-Identifier: Apache-2.0

from importlib import metadata
import json
import pathlib
from xml.etree import ElementTree

from nova_pinning.model import nova_release
from nova_pinning.tests.unit.cli import cli_case

FLAVOR = f'{cli_case.CATALOGUE}:enterprise.2xlarge'


class TestShow(cli_case.TestCase):

    def _show(self, *more, flavor=FLAVOR, host=cli_case.HOST):
        return self.run_command(
            'guest', 'show', '--flavor', flavor, '--host-file', host, *more)

    def test_all_parts(self):
        done = self._show()
        self.assertEqual((0, ''), (done.status, done.err))
        for words in ('PCPU 8', 'CUSTOM_PINNING_DEDICATED', '<vcpupin vcpu=',
                      'kept for the host: CPUs 0-1,40-41', '\nFits\n',
                      '1 GiB'):
            self.assertIn(words, done.out)

    def test_json_and_svg(self):
        done = self._show('--format', 'json')
        shown = json.loads(done.out)
        self.assertIs(True, shown['fits'])
        self.assertEqual({'PCPU': 8, 'MEMORY_MB': 32768, 'DISK_GB': 20},
                         shown['placement']['query']['resources'])
        cell, = shown['cells']
        pinned = {
            pin.get('vcpu'): int(pin.get('cpuset')) for pin in
            ElementTree.fromstring(shown['xml']).iter('vcpupin')}
        self.assertEqual(cell['pins'], pinned)
        self.assertTrue(
            ElementTree.fromstring(
                self._show('-f', 'svg').out).tag.endswith('svg'))

    def test_picture_in_the_documentation(self):
        # Made by this command, see doc/source/admin/flavors.rst.
        doc = cli_case.ETC.parents[1] / 'doc' / 'source' / 'admin'
        self.assertEqual(
            self._show('--used', '2-5,42-45', '-f', 'svg').out,
            (doc / 'guest.svg').read_text())

    def test_used_cpus_are_left_alone(self):
        done = self._show('--format', 'json', '--used', '20-39,60-79')
        cell, = json.loads(done.out)['cells']
        self.assertEqual(0, cell['host_cell'])

    def test_refused(self):
        # Both halves are full but for 2 CPUs each.
        done = self._show('--used', '2-18,42-58,20-38,60-78')
        self.assertEqual(1, done.status)
        self.assertIn('Does not fit', done.out)
        self.assertIn('2 free dedicated CPUs, 8 needed', done.out)
        self.assertNotIn('<domain', done.out)
        refused = json.loads(self._show(
            '--used', '2-18,42-58,20-38,60-78', '--format', 'json').out)
        self.assertIs(False, refused['fits'])
        self.assertIsNone(refused['xml'])
        self.assertEqual([], refused['cells'])
        self.assertIn('needed', refused['refusal']['message'])

    def test_the_picture_says_that_it_does_not_fit(self):
        for form in ('drawing', 'svg'):
            done = self._show('--used', '2-39,42-79', '-f', form)
            text = ' '.join(done.out.replace('&#160;', ' ').split())
            self.assertIn('enterprise.2xlarge does not fit on', text)
            self.assertIn('0 free dedicated CPUs', text)

    def test_fits_is_never_said_beside_an_error(self):
        shared = str(cli_case.ETC / 'hosts' / 'xeon-80-shared.yaml')
        for image, is_fit in (((), False), (
                ('--image-property', 'hw_firmware_type=uefi',
                 '--image-property', 'hw_machine_type=q35'), True)):
            done = self._show('-f', 'fit', *image, host=shared, flavor=(
                'vcpus=2 ram=1GiB os:secure_boot=required'))
            # Whether the host boots securely, its file does not tell.
            self.assertEqual(1, done.status)
            self.assertNotIn('Fits', done.out)
            self.assertEqual(is_fit, done.out.startswith('May fit'))
            self.assertEqual(is_fit, 'P306' not in done.out)
        shown = json.loads(self._show(
            '--format', 'json', host=shared,
            flavor='vcpus=2 ram=1GiB os:secure_boot=required').out)
        self.assertIs(False, shown['fits'])

    def test_findings(self):
        done = self._show(
            '-f', 'fit',
            flavor='vcpus=8 ram=16GiB hw:cpu_polcy=dedicated')
        self.assertIn('Error N001: nova refuses hw:cpu_polcy', done.out)
        done = self._show('--format', 'json', flavor=(
            'vcpus=8 ram=16GiB hw:cpu_policy=dedicated'))
        self.assertIn('P105', [
            load['code'] for load in json.loads(done.out)['findings']])

    def test_what_the_host_tells_of_devices(self):
        gpus = ''.join(
            f"- {{address: '0000:{bus}:00.0', vendor_id: 10de, product_id: "
            "'ffff', numa_node: 0, kind: gpu, alias: gpu, bars: [512GiB],\n"
            '   resource_class: CUSTOM_GPU}\n' for bus in (81, 82))
        host = self.write('gpus.yaml', pathlib.Path(
            cli_case.HOST).read_text() + f'\npci_devices:\n{gpus}')
        shown = json.loads(self._show('-f', 'json', host=host, flavor=(
            'vcpus=2 ram=64GiB hw:cpu_policy=dedicated hw:mem_page_size=1GB '
            'pci_passthrough:alias=gpu:2')).out)
        self.assertTrue(shown['fits'])
        self.assertEqual(
            2, shown['placement']['query']['resources']['CUSTOM_GPU'])
        self.assertIn('<hostdev', shown['xml'])
        self.assertNotIn('CUSTOM_GPU', ' '.join(shown['remarks']))
        found = {one['code']: one['message'] for one in shown['findings']}
        self.assertIn('1,024 GiB of known BARs', found['P309'])
        self.assertNotIn('P602', found)

    def test_floating_where_nothing_floats(self):
        done = self._show('-f', 'fit', flavor='vcpus=2 ram=1GiB')
        self.assertEqual(1, done.status)
        self.assertIn('0 VCPU left', done.out)

    def test_floating_over_the_cpus_of_others(self):
        done = self._show('-f', 'fit', flavor=(
            'vcpus=2 ram=1GiB resources:VCPU=0'))
        self.assertEqual(0, done.status)
        told = ' '.join(done.out.split())
        self.assertIn('its vCPUs float over all CPUs of the host', told)
        self.assertIn('nothing keeps it off the CPUs of pinned guests', told)

    def test_emulator_threads_without_shared_cpus(self):
        shared = self.write('shared.yaml', pathlib.Path(
            cli_case.HOST).read_text().replace(
                'nova:\n', 'nova:\n  shared_cpus: 0-1\n'))
        for host, expected in (cli_case.HOST, True), (shared, False):
            done = self._show('-f', 'fit', host=host, flavor=(
                'vcpus=2 ram=1GiB hw:cpu_policy=dedicated '
                'hw:emulator_threads_policy=share'))
            self.assertEqual(expected, 'no cpu_shared_set' in done.out)

    def test_another_release(self):
        flavor = ('vcpus=8 ram=16GiB hw:cpu_policy=dedicated '
                  'hw:sound_model=virtio')
        done = self._show('--release', '2024.1', flavor=flavor)
        # What that release refuses to store is an error.
        self.assertEqual((1, ''), (done.status, done.err))
        out = ' '.join(done.out.split())
        version = metadata.version('nova')
        for words in (f'libvirt XML, by nova {version}',
                      f'Note: this is what nova {version}',
                      'XML of nova 2024.1 may differ',
                      'Error N101: nova 2024.1 does not know'):
            self.assertIn(words, out)
        shown = json.loads(self._show(
            '--release', '2024.1', '--format', 'json', flavor=flavor).out)
        self.assertEqual((version, '2024.1'),
                         (shown['nova'], shown['release']))
        self.assertNotEqual([], shown['differences'])
        # Whoever pipes the XML on is told as well.
        done = self._show('--release', '2024.1', '-f', 'xml',
                          flavor=flavor)
        self.assertEqual('domain', ElementTree.fromstring(done.out).tag)
        self.assertIn(f'warning: this is what nova {version}', done.err)

    def test_the_release_that_is_installed(self):
        release = nova_release.of_nova_version(metadata.version('nova'))
        shown = json.loads(self._show('--release', str(release),
                                      '--format', 'json').out)
        self.assertEqual((release.name, []),
                         (shown['release'], shown['differences']))
        self.assertEqual(self._show().out,
                         self._show('--release', str(release)).out)

    def test_release_of_the_catalogue(self):
        path = self.write('f.yaml', '''\
version: 2
name: n
nova_release: 2024.1
families:
  f: {class: dedicated, sizes: {s: {vcpus: 2, memory: 4GiB}}}
''')
        for flavor in (path, f'{path}:f.s'):
            shown = json.loads(self._show('--format', 'json',
                                          flavor=flavor).out)
            self.assertEqual('2024.1', shown['release'])
        shown = json.loads(self._show('--format', 'json', '--release',
                                      '2025.1', flavor=path).out)
        self.assertEqual('2025.1', shown['release'])

    def test_the_catalogue_has_its_say(self):
        """What keeps its classes apart, and what it has ignored."""
        path = self.write('f.yaml', '''\
version: 2
name: n
separation: {by: aggregates}
families:
  f:
    class: dedicated
    ignore: {P211: memory is sold on other hosts}
    extra_specs: {'aggregate_instance_extra_specs:class': dedicated}
    sizes: {s: {vcpus: 2, memory: 4GiB}}
''')
        done = self._show('-f', 'fit', flavor=path)
        self.assertIn('Warning P105', done.out)
        self.assertNotIn('P502', done.out)
        self.assertNotIn('Warning P211', done.out)
        self.assertIn('Left out: P211, memory is sold on other hosts',
                      done.out)
        shown = json.loads(self._show('--format', 'json', flavor=path).out)
        waived, = shown['waived']
        self.assertEqual('P211', waived['finding']['code'])

    def test_an_ignored_error_is_none(self):
        path = self.write('f.yaml', '''\
version: 2
name: n
families:
  f:
    class: dedicated
    ignore: {N001: set with microversion 2.85}
    extra_specs: {'hw:maxphysaddr_mode': passthrough}
    sizes: {s: {vcpus: 2, memory: 4GiB}}
''')
        self.assertNotIn('Does not work', self._show(flavor=path).out)

    def test_not_known(self):
        """What a host file does not tell is said, and is no yes."""
        flavor = 'vcpus=2 ram=1GiB {} hw:cpu_policy=dedicated'
        done = self._show('-f', 'fit',
                          flavor=flavor.format('resources:VGPU=1'))
        self.assertEqual(1, done.status)
        self.assertIn('May fit: of the host it is not known how much VGPU',
                      ' '.join(done.out.split()))
        shown = json.loads(self._show(
            '--format', 'json', flavor=flavor.format('disk=9')).out)
        # It never tells of disks.
        self.assertIs(True, shown['fits'])
        self.assertIn('DISK_GB', shown['doubts'][0])

    def test_a_flavor_without_a_name_is_not_called_flavor(self):
        done = self._show(flavor='vcpus=2 ram=1GiB hw:cpu_policy=odd')
        self.assertEqual(2, done.status)
        self.assertNotIn('flavor flavor', done.err)

    def test_unknown_release(self):
        done = self._show('--release', '2025.3')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn("'2025.3' is not a release of nova", done.err)

    def test_only(self):
        self.assertEqual('domain', ElementTree.fromstring(
            self._show('-f', 'xml').out).tag)
        self.assertIn('resources', self._show('-f', 'placement').out)
        for line in self._show('-f', 'drawing').out.splitlines():
            self.assertLessEqual(len(line), 80)
        done = self._show('-f', 'xml', '-c', 'fits')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('--format xml', done.err)

    def test_image_property(self):
        done = self._show('--image-property', 'hw_cpu_threads=1',
                          '-f', 'xml')
        self.assertEqual(0, done.status)
        # Nova lets an image's policy be overruled by a dedicated flavor's
        # only.
        done = self._show('--image-property', 'hw_cpu_policy=dedicated',
                          flavor=f'{cli_case.CATALOGUE}:shared.large')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('hw_cpu_policy', done.err)

    def test_bad_input(self):
        for more in (['--used', '0-'], ['--used', '999'],
                     ['--image-property', 'x']):
            done = self._show('-f', 'svg', *more)
            self.assertEqual((2, ''), (done.status, done.out), more)
            self.assertNotEqual('', done.err)
        self.assertEqual(
            2, self._show(host=str(self.dir / 'none.yaml')).status)
