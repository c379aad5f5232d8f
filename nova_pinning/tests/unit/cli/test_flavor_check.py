# SPDX-License-Identifier: Apache-2.0
"""nova-pinning flavor check, and the formats that all checks have."""

import json

import ddt

from nova_pinning.tests.unit.cli import cli_case

# P105, a warning for each size.
CATALOGUE = """\
version: 1
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

    def test_names(self):
        content = json.loads(self.check('f.s', '--format', 'json').out)
        self.assertEqual(1, content['flavors'])

    def test_sarif(self):
        log = json.loads(self.check('--format', 'sarif').out)
        self.assertIn(self.path, str(log['runs'][0]['results']))

    def test_prometheus(self):
        done = self.check('--format', 'prometheus')
        self.assertIn('nova_pinning_flavor_violations{code="P105",'
                      'severity="warning"} 2.0\n', done.out)
        self.assertIn('nova_pinning_flavor_checked 2.0\n', done.out)
        done = self.check('f.s', '--format', 'prometheus')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('of the whole', done.err)

    @ddt.data(([], 1), (['--fail-on', 'error'], 0), (['--strict'], 1),
              (['--strict', '--fail-on', 'error'], 0))
    @ddt.unpack
    def test_status(self, arguments, status):
        self.assertEqual(status, self.check(*arguments).status)

    def test_output(self):
        path = str(self.dir / 'found.json')
        done = self.check('-f', 'json', '-o', path)
        self.assertEqual((1, '', ''), (done.status, done.out, done.err))
        with open(path) as file:
            self.assertEqual(1, json.load(file)['version'])
