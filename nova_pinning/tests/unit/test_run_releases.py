# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/run_releases.py."""

import contextlib
import csv
import importlib
from importlib import metadata
import io
import json
import pathlib
import subprocess
import sys
import tempfile
from unittest import mock

from oslotest import base

import nova_pinning
from nova_pinning.model import nova_release

ROOT = pathlib.Path(nova_pinning.__file__).resolve().parent.parent
_CLASSIFIER = 'Programming Language :: Python :: '


class RunReleasesTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        with mock.patch.object(sys, 'path', [str(ROOT / 'tools'), *sys.path]):
            self.tool = importlib.import_module('run_releases')
        scratch = self.enterContext(tempfile.TemporaryDirectory())
        self.table = pathlib.Path(scratch) / 'releases.csv'
        self.enterContext(mock.patch.object(self.tool, 'TABLE', self.table))
        self.run = []
        self.discovered = []
        self.starts = 0
        self.meanwhile = None

    def main(self, *arguments, counts=None, status=0):
        def run(command, **options):
            if command[1] == '-c':
                return subprocess.CompletedProcess(
                    command, self.starts, f'/opt/bin/{command[0]}\n')
            if self.meanwhile:
                self.meanwhile()
            self.discovered.append(
                command[command.index('--discover') + 1])
            self.run.append(command[command.index('-e') + 1])
            path = command[command.index('--counts') + 1]
            if counts is not None:
                pathlib.Path(path).write_text(json.dumps(counts))
            return subprocess.CompletedProcess(command, status)

        self.output = io.StringIO()
        with (mock.patch.object(sys, 'argv', ['run_releases', *arguments]),
              mock.patch.object(self.tool.subprocess, 'run', run),
              mock.patch.object(self.tool.shutil, 'which', self.which),
              contextlib.redirect_stdout(self.output)):
            return self.tool.main()

    def which(self, program):
        return program

    def rows(self):
        with self.table.open(newline='') as file:
            return list(csv.DictReader(file))

    def test_all_releases(self):
        self.assertEqual({str(release) for release in nova_release.TESTED},
                         set(self.tool.PYTHONS))
        for release in self.tool.PYTHONS:
            self.assertTrue(
                (ROOT / 'upper-constraints' / f'{release}.txt').exists())

    def test_pythons(self):
        """Those that this nova and this project both name."""
        release = nova_release.of_nova_version(metadata.version('nova'))
        named = [
            {line.removeprefix(_CLASSIFIER)
             for line in metadata.metadata(package).get_all('Classifier')
             if line.startswith(f'{_CLASSIFIER}3.')}
            for package in ('nova', 'nova-pinning')]
        self.assertEqual(
            set.intersection(*named), set(self.tool.PYTHONS[str(release)]))

    def test_one_is_replaced(self):
        self.assertEqual(0, self.main('2025.1', counts={
            'unit': {'passed': 5, 'skipped': 1}, 'bench': {'passed': 1}}))
        self.assertEqual(
            ['release-2025.1-py311', 'release-2025.1-py312'], self.run)
        self.assertEqual(['/opt/bin/python3.11', '/opt/bin/python3.12'],
                         self.discovered)
        self.assertEqual(0, self.main(
            '2025.1-py312', '--suite', 'unit',
            counts={'unit': {'passed': 6, 'failed': 0}}))
        self.assertEqual(
            [('3.11', '5 passed, 1 skipped', '1 passed'),
             ('3.12', '6 passed', '1 passed')],
            [(row['Python'], row['unit'], row['bench'])
             for row in self.rows()])

    def test_what_is_of_another_day_says_so(self):
        self.main('2026.2-py312', counts={
            'unit': {'passed': 5}, 'fuzz': {'passed': 1}})
        text = self.table.read_text()
        *_rest, today = text.splitlines()[1].rpartition(',')
        self.table.write_text(text.replace(today, '2026-01-31'))
        for _run in range(2):
            self.main('2026.2-py312', '--suite', 'fuzz',
                      counts={'fuzz': {'passed': 2}})
        [row] = self.rows()
        self.assertEqual(
            ('5 passed (2026-01-31)', '-', '2 passed', today),
            (row['unit'], row['bench'], row['fuzz'], row['date']))

    def test_two_at_once(self):
        """What another run adds meanwhile stays."""
        def other():
            self.meanwhile = None
            self.main('2026.2-py313', '--suite', 'unit',
                      counts={'unit': {'passed': 3}})

        self.meanwhile = other
        self.assertEqual(0, self.main(
            '2026.2-py312', '--suite', 'unit',
            counts={'unit': {'passed': 2}}))
        self.assertEqual(
            [('3.12', '2 passed'), ('3.13', '3 passed')],
            [(row['Python'], row['unit']) for row in self.rows()])

    def test_one_fails(self):
        self.assertEqual(1, self.main(
            '2026.1-py311', status=1, counts={'unit': {'failed': 2}}))
        self.assertEqual(['2 failed'], [row['unit'] for row in self.rows()])

    def test_nothing_is_run(self):
        """Such as an environment that cannot be made."""
        self.assertEqual(1, self.main('2026.1-py311', status=1))
        self.assertIn('nothing was run', self.output.getvalue())
        self.assertFalse(self.table.exists())

    def test_a_python_that_does_not_start(self):
        """pyenv has programs on the path that say what to do instead."""
        self.starts = 127
        self.assertEqual(1, self.main('2026.1-py311'))
        self.assertIn('there is no python3.11 here', self.output.getvalue())
        self.assertEqual([], self.run)

    def test_a_python_that_is_not_there(self):
        self.which = lambda program: None
        self.assertEqual(1, self.main('2026.1-py311'))
        self.assertIn('there is no python3.11 here', self.output.getvalue())
        self.assertFalse(self.table.exists())

    def test_an_unknown_release(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            end = self.assertRaises(SystemExit, self.main, '2025.3')
        self.assertEqual(2, end.code)
        self.assertIn('none of these is known: 2025.3', said.getvalue())
