# SPDX-License-Identifier: Apache-2.0
"""The register held against nova's own code, of each release at hand.

The nova that the tests run with is always at hand. Others are, if the
environment variable NOVA_PINNING_RELEASE_PYTHONS names a Python for each that
has its nova: ``2025.1=/opt/31/bin/python,31.0.0=/opt/31.0.0/bin/python``. What
stands before the sign is for people; nova itself tells its version.
"""

import functools
import json
import os
import pathlib
import subprocess
import sys

import ddt

from nova_pinning import errors
from nova_pinning.model import nova_release
from nova_pinning.tests.unit import unit_base
from nova_pinning.upgrade import nova_version
from nova_pinning.upgrade import register

_PROGRAM = pathlib.Path(__file__).with_name('nova_defects.py')
_VARIABLE = 'NOVA_PINNING_RELEASE_PYTHONS'


def _pythons():
    yield 'own', sys.executable
    for entry in filter(None, os.environ.get(_VARIABLE, '').split(',')):
        name, _equals, python = entry.partition('=')
        yield name, python


@functools.cache
def _run(python):
    """What a release shows; PYTHONPATH is not for another Python's nova."""
    environment = {key: value for key, value in os.environ.items()
                   if key != 'PYTHONPATH'}
    finished = subprocess.run(
        [python, '-W', 'ignore', str(_PROGRAM)], capture_output=True,
        text=True, check=False, env=environment, cwd='/')
    if finished.returncode:
        raise AssertionError(f'{python}: {finished.stderr[-2000:]}')
    return json.loads(finished.stdout)


def _version(shown):
    return register.shipped().version(shown['version'], 'nova')


@ddt.ddt
class TestNovaDefects(unit_base.TestCase):

    @ddt.data(*_pythons())
    @ddt.unpack
    def test_register_is_right(self, _name, python):
        shown = _run(python)
        version = _version(shown)
        wrong = {}
        for defect in register.shipped().defects:
            if not defect.shown_by.test:
                continue
            seen = shown['shown'][defect.shown_by.test]
            if seen is not defect.affects(version):
                wrong[defect.code, defect.shown_by.test] = seen
        self.assertEqual({}, wrong, f'on {version}')

    @ddt.data(*_pythons())
    @ddt.unpack
    def test_oldest_supported(self, _name, python):
        shown = _run(python)
        told = shown['oldest_supported']
        # The only one of them that is older than all that are known.
        name = ('2023.1' if told == 'Antelope'
                else nova_release.of_name(told).name)
        self.assertEqual(name, nova_version.oldest_supported(
            _version(shown).release_name))

    def test_each_is_in_the_register(self):
        shown = _run(sys.executable)['shown']
        self.assertEqual(
            set(shown), {defect.shown_by.test
                         for defect in register.shipped().defects
                         if defect.shown_by.test})


@ddt.ddt
class TestIssue(unit_base.TestCase):
    """What must be told, whoever changes the register."""

    @ddt.data(
        ('2152697', '33.0.2', True), ('2152697', '34.0.0', False),
        ('2152697', '32.2.1', False), ('2153425', '33.0.2', True),
        ('2153425', '34.0.0', False), ('2144660', '31.3.1', True),
        ('2144660', '34.0.0', False), ('2154495', '33.0.2', True),
        ('2154495', '34.0.0', False), ('2103636', '31.0.0', True),
        ('2103636', '31.0.1', False), ('2103636', '30.3.0', False),
        ('2097359', '30.0.0', True),
        ('2097359', '30.1.0', False), ('1869804', '29.4.0', True),
        ('1869804', '30.0.0', False), ('U403', '29.2.0', False),
        ('U403', '29.2.1', True), ('U403', '30.0.0', False),
        ('U403', '30.1.0', True), ('U403', '34.0.0', True))
    @ddt.unpack
    def test_affects(self, name, version, expected):
        """By the number of the bug, or the code where there is none."""
        defects = register.shipped()
        defect, = (defect for defect in defects.defects
                   if (defect.bug or defect.code) == name)
        self.assertIs(
            expected, defect.affects(defects.version(version, 'test')))

    def test_thirty(self):
        """Of those that a version has which is known here: 29.0.0 or later."""
        defects = register.shipped().defects
        self.assertGreaterEqual(
            sum(bool(defect.in_releases) for defect in defects), 30)


@ddt.ddt
class TestVersions(unit_base.TestCase):

    @ddt.data(('2025.1', '2026.1'), ('2025.1', '2025.2'),
              ('2025.2', '2026.1'), ('2026.1', '2026.2'),
              ('2024.2', '2025.1'), ('31.0.0', '2025.1'),
              ('2026.1', '2027.1'), ('2026.2', '35.0.0'),
              ('2027.1', '35.0.0'), ('35.0.0', '2027.1'))
    @ddt.unpack
    def test_path(self, before, after):
        defects = register.shipped()
        nova_version.check_path(
            defects.version(before, '--from'), defects.version(after, '--to'))

    @ddt.data(
        ('2025.1', '2026.2', 'does not support an upgrade from 2025.1 to '
                             '2026.2'),
        ('2025.2', '2026.2', 'upgrade to 2026.1 first'),
        ('2024.1', '2025.2', 'upgrade to 2025.1 first'),
        ('2026.1', '2025.1', 'cannot be downgraded'),
        ('33.0.2', '33.0.0', 'cannot be downgraded'),
        ('2026.2', '2025.1', 'cannot be downgraded'),
        ('2024.1', '2027.1', 'upgrade to 2026.1 first'),
        ('2025.2', '35.0.0', 'from 2025.2 to 2027.1'),
        ('2026.2', '2028.1', 'upgrade to 2027.1 first'),
        ('35.0.0', '2026.2', 'cannot be downgraded'),
        ('2027.1', '2026.2', 'cannot be downgraded'))
    @ddt.unpack
    def test_no_path(self, before, after, message):
        defects = register.shipped()
        error = self.assertRaises(
            errors.InputError, nova_version.check_path,
            defects.version(before, '--from'), defects.version(after, '--to'))
        self.assertIn(message, str(error))

    @ddt.data('2023.1', 'zed', '28.0.0', '', '2026.3', '31', '31.0')
    def test_unknown(self, name):
        error = self.assertRaises(
            errors.InputError, register.shipped().version, name, '--from')
        self.assertIn('known are 2024.1', str(error))

    @ddt.data('2027.1', '35.0.0')
    def test_newer(self, name):
        version = register.shipped().version(name, '--to')
        self.assertTrue(version.is_newer_than_known)
        self.assertFalse(version.is_tested)

    def test_newer_point_release(self):
        defects = register.shipped()
        newest = defects.newest['2026.1']
        major, minor, patch = newest
        self.assertEqual('', defects.version('2026.1', '--to').doubt)
        self.assertEqual('', defects.version(
            '.'.join(map(str, newest)), '--to').doubt)
        doubt = defects.version(f'{major}.{minor}.{patch + 1}', '').doubt
        self.assertIn('is newer than nova 33.0.2, the newest of its release',
                      doubt)

    def test_name_is_newest_of_its_release(self):
        defects = register.shipped()
        self.assertEqual(defects.version('2026.1', ''),
                         defects.version('gazpacho', ''))
        self.assertEqual('2026.1 (nova 33.0.2)',
                         str(defects.version('33.0.2', '')))
