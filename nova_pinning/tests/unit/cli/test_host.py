# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host provider-config."""

import json
import os
import pathlib

import ddt
import yaml

from nova_pinning.host import host_loader
from nova_pinning.host import provider_config
from nova_pinning.placement import placement_traits
from nova_pinning.tests.unit.cli import cli_case

PLAIN = """
version: 1
name: plain
nodes: [{id: 0, cpus: 0-3, memory: 4GiB}]
"""


@ddt.ddt
class TestProviderConfig(cli_case.TestCase):

    def _write(self, *more, host=cli_case.HOST):
        return self.run_command('host', 'provider-config', host, *more)

    def test_output(self):
        done = self._write()
        self.assertEqual((0, ''), (done.status, done.err))
        path = self.dir / 'pinning.yaml'
        written = self._write('--output', str(path))
        self.assertEqual((0, '', ''),
                         (written.status, written.out, written.err))
        self.assertEqual(done.out, path.read_text())
        [entry] = provider_config.read(path)
        self.assertEqual(host_loader.load(cli_case.HOST).traits, entry.traits)

    @ddt.data(
        *sorted(path.name for path in (cli_case.ETC / 'hosts').iterdir()))
    def test_shipped_hosts(self, name):
        path = cli_case.ETC / 'hosts' / name
        done = self._write(host=str(path))
        self.assertEqual((0, ''), (done.status, done.err))
        [provider] = yaml.safe_load(done.out)['providers']
        self.assertEqual(sorted(host_loader.load(path).traits),
                         provider['traits']['additional'])

    def test_class(self):
        plain = self.write('plain.yaml', PLAIN)
        done = self._write(host=plain)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('--class', done.err)
        for name, trait in placement_traits.TRAIT_OF.items():
            done = self._write('--class', str(name), host=plain)
            self.assertEqual(0, done.status)
            self.assertIn(f'- {trait}\n', done.out)
            self.assertIn('note: There is no trait for the L3', done.err)

    def test_divided_cores(self):
        """Also by host show."""
        host = self.write('host.yaml', PLAIN.replace(
            'nodes:', 'cpu: {threads_per_core: 2}\nnodes:'
        ) + "nova: {dedicated_cpus: '1-2,3'}\n")
        done = self._write(host=host)
        shown = self.run_command('host', 'show', host, '-f', 'json')
        self.assertEqual((0, 0), (done.status, shown.status))
        text = '1 core divided between uses: of CPUs 0,2,'
        self.assertIn(f'warning: {text}', done.err)
        self.assertIn(text, json.loads(shown.out)['divided_cores'])
        self.assertIn(text, self.run_command('host', 'show', host).out)

    def test_bad_class(self):
        path = str(self.dir / 'a.yaml')
        done = self._write('--output', path, '--class', 'both')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertFalse(os.path.exists(path))

    def test_a_file_that_nova_would_not_read(self):
        path = self.dir / 'pinning.yml'
        done = self._write('--output', str(path))
        self.assertEqual(2, done.status)
        self.assertIn('.yaml', done.err)
        self.assertFalse(path.exists())

    def test_no_host_file(self):
        done = self._write(host=str(pathlib.Path(self.dir, 'none')))
        self.assertEqual((2, ''), (done.status, done.out))
