# SPDX-License-Identifier: Apache-2.0
"""nova-pinning flavor check, and the formats that all checks have."""

from importlib import metadata
import json

import ddt

from nova_pinning.model import nova_release
from nova_pinning.tests.unit.cli import cli_case

# P105, a warning for each size.
CATALOGUE = """\
version: 2
name: n
families:
  f:
    class: dedicated
    sizes:
      s: {vcpus: 2, memory: 4GiB}
      m: {vcpus: 4, memory: 8GiB}
"""


@ddt.ddt
class TestCheckFlavors(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.path = self.write('f.yaml', CATALOGUE)

    def check(self, *arguments):
        return self.run_command('flavor', 'check', self.path, *arguments)

    def test_table(self):
        done = self.check()
        self.assertEqual((1, ''), (done.status, done.err))
        self.assertIn('P105 warning: ', done.out)
        self.assertIn('remedy: write cpu_topology: match-host', done.out)
        self.assertIn('in 2 flavors\n', done.out)

    def test_json(self):
        done = self.check('--format', 'json')
        content = json.loads(done.out)
        self.assertEqual(2, content['flavors'])
        finding = next(one for one in content['findings']
                       if one['code'] == 'P105')
        self.assertEqual(
            ('f.s', 'flavor f.s', self.path),
            (finding['flavor'], finding['subject'], finding['source']))
        self.assertLess(0, finding['line'])

    def test_ignore(self):
        done = self.check('--ignore', 'P105', '--ignore', 'P502', '--ignore',
                          'P211')
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertIn('P105, flavor f.s and flavor f.m: --ignore', done.out)
        self.assertIn('nothing found in 2 flavors; 6 left out', done.out)
        done = self.check('--ignore', 'P1005')
        self.assertEqual(2, done.status)
        self.assertIn('no rule with the code P1005', done.err)

    def test_baseline(self):
        known = self.write('known.json', self.check('--format', 'json').out)
        done = self.check('--ignore', known)
        self.assertEqual((0, ''), (done.status, done.err))
        self.write('f.yaml', CATALOGUE + '      l: {vcpus: 6, memory: 8GiB}')
        done = self.check('--ignore', known)
        self.assertEqual(1, done.status)
        self.assertIn('flavor f.l', done.out.partition('Left out')[0])
        self.assertNotIn('f.s', done.out.partition('Left out')[0])

    def test_ignored_in_the_catalogue(self):
        family = '    ignore: {P105: guests know, P211: small}\n    sizes:'
        self.write('f.yaml', CATALOGUE.replace('    sizes:', family).replace(
            'memory: 8GiB', 'memory: 8GiB, ignore: {P502: no others}'))
        content = json.loads(self.check('--format', 'json').out)
        self.assertEqual([('P502', 'f.s')], [
            (one['code'], one['name']) for one in content['findings']])
        self.assertIn(('no others', 'f.m'), [
            (one['reason'], one['finding']['name'])
            for one in content['waived']])
        self.write('f.yaml', CATALOGUE.replace(
            '    sizes:', '    ignore: {P999: x}\n    sizes:'))
        done = self.check()
        self.assertEqual(2, done.status)
        self.assertIn('P999', done.err)

    def test_separation(self):
        for told, text, is_found in (
                ('by: none', 'P502', False),
                ('dedicated_trait: CUSTOM_MINE', 'P502', True),
                ('by: aggregates', 'asks for no aggregate', True)):
            self.write('f.yaml', CATALOGUE.replace(
                'name: n', f'name: n\nseparation: {{{told}}}'))
            self.assertEqual(is_found, text in self.check().out, told)

    def test_not_known(self):
        """What host files do not tell is found, and not taken for yes."""
        self.write('f.yaml', CATALOGUE.replace(
            '    sizes:', '    disk: 10GiB\n    resources: {VGPU: 1}\n'
            '    traits: {required: [HW_CPU_X86_AVX2]}\n    sizes:'))
        self.assertNotIn('P606', self.check().out)
        done = self.check('--host-files', str(cli_case.ETC / 'hosts'),
                          '--format', 'json')
        self.assertEqual(1, done.status)
        found = [one for one in json.loads(done.out)['findings']
                 if one['code'] == 'P606']
        self.assertEqual({('f.s', 'warning'), ('f.m', 'warning')},
                         {(one['name'], one['severity']) for one in found})
        for words in ('how much VGPU', 'trait HW_CPU_X86_AVX2'):
            self.assertIn(words, found[0]['message'])

    def test_only_the_disk_is_not_known(self):
        """Host files never tell it, so that is said once."""
        self.write('f.yaml', CATALOGUE.replace(
            '    sizes:', '    disk: 10GiB\n    sizes:'))
        self.assertNotIn('Not compared', self.check().out)
        done = self.check('--host-files', str(cli_case.ETC / 'hosts'))
        self.assertNotIn('P606', done.out)
        for words in ('Not compared with the hosts',
                      'disks, of f.s and 1 more'):
            self.assertIn(words, done.out)

    def test_names(self):
        content = json.loads(self.check('f.s', '--format', 'json').out)
        self.assertEqual(1, content['flavors'])

    def test_prometheus(self):
        done = self.check('--format', 'prometheus')
        self.assertIn('nova_pinning_flavor_violations{code="P105",'
                      'severity="warning"} 2.0\n', done.out)
        self.assertIn('nova_pinning_flavor_checked 2.0\n', done.out)
        done = self.check('f.s', '--format', 'prometheus')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('of the whole', done.err)

    @ddt.data(([], 1), (['--fail-on', 'error'], 0), (['--fail-on', 'note'], 1))
    @ddt.unpack
    def test_status(self, arguments, status):
        self.assertEqual(status, self.check(*arguments).status)

    def test_release(self):
        self.path = self.write('f.yaml', CATALOGUE.replace(
            'memory: 4GiB}',
            "memory: 4GiB, extra_specs: {'hw:sound_model': virtio}}"))
        done = self.check('--release', '2025.1')
        self.assertEqual((1, ''), (done.status, done.err))
        self.assertIn('N101 error: ', done.out)
        self.assertIn('nova 2025.1 does not know hw:sound_model=virtio',
                      ' '.join(done.out.split()))
        self.assertNotIn('N101', self.check('--release', 'flamingo').out)
        self.assertNotIn('N1', self.check().out)

    def test_release_of_the_catalogue(self):
        text = CATALOGUE.replace(
            'memory: 4GiB}',
            "memory: 4GiB, extra_specs: {'hw:sound_model': virtio}}")
        for named in ('2025.1', "'2025.1'", 'Epoxy'):
            self.path = self.write('f.yaml', text.replace(
                'name: n', f'name: n\nnova_release: {named}'))
            content = json.loads(self.check('--format', 'json').out)
            self.assertEqual(['2025.1'], content['releases'])
            self.assertIn('N101', {one['code']
                                   for one in content['findings']})
        # What the command line says comes first.
        content = json.loads(
            self.check('--format', 'json', '--release', '2025.2').out)
        self.assertEqual(['2025.2'], content['releases'])
        self.assertNotIn('N101', {one['code']
                                  for one in content['findings']})

    def test_which_nova_judged(self):
        other = next(one for one in nova_release.RELEASES
                     if one != nova_release.of_nova_version(
                         metadata.version('nova')))
        done = self.check('--release', other.name)
        self.assertIn('says, which is installed here',
                      ' '.join(done.out.split()))

    def test_version(self):
        for version in '31.0.0', '31.3.1':
            self.assertEqual(self.check('--release', '2025.1').out,
                             self.check('--release', version).out)

    @ddt.data('2027.1', '35.0.0')
    def test_newer_release(self, release):
        done = self.check('--release', release)
        self.assertEqual(self.check('--release', '2026.2').out, done.out)
        self.assertIn(f'warning: --release: {release} is newer than 2026.2',
                      done.err)
        self.assertIn('; taken for 2026.2', done.err)

    @ddt.data(['--release', '2025.3'], ['--release', '31'])
    def test_unknown_release(self, arguments):
        done = self.check(*arguments)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(f'{arguments[1]!r} is not a release of nova', done.err)
        self.assertIn('2025.1, 2025.2', done.err)

    @ddt.data('2025.3', 'true', '[2025.1]')
    def test_unknown_release_of_the_catalogue(self, named):
        self.path = self.write('f.yaml', CATALOGUE.replace(
            'name: n', f'name: n\nnova_release: {named}'))
        done = self.check()
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('f.yaml:3:15: nova_release: ', done.err)
