# SPDX-License-Identifier: Apache-2.0
"""What is installed without extras, and what is said where one is missing.

``tox -e bare`` installs the wheel alone; here, what would not come with it is
kept from being imported.
"""

import ast
import collections
import contextlib
import functools
import importlib.metadata
import io
import json
import pathlib
import runpy
import subprocess
import sys
import tomllib
from unittest import mock

import ddt
from osc_lib.command import command
from oslotest import base as oslotest
from packaging import requirements
from packaging import utils

from nova_pinning import errors
from nova_pinning import extras
from nova_pinning.osc import commands
from nova_pinning.tests.unit.cli import cli_case

_ROOT = pathlib.Path(__file__).parents[3]
_PROJECT = tomllib.loads((_ROOT / 'pyproject.toml').read_text())['project']

#: By the name under which they are imported, the distributions that bring it.
_DISTRIBUTIONS = {
    package: {utils.canonicalize_name(name) for name in names}
    for package, names in importlib.metadata.packages_distributions().items()}
# Not installed where the unit tests run.
_DISTRIBUTIONS.setdefault('watcher', {'python-watcher'})

#: Imports no package that argv[1] lists, finds no distribution that argv[2]
#: does, and then runs argv[3].
_WITHOUT = '''
import importlib.metadata, json, runpy, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition('.')[0] in missing:
            raise ModuleNotFoundError(f'No module named {name!r}', name=name)
missing = frozenset(json.loads(sys.argv[1]))
hidden = frozenset(json.loads(sys.argv[2]))
sys.meta_path.insert(0, Finder)
find = importlib.metadata.Distribution.from_name
def find_shown(name):
    # Some ask for the version, and take what is installed for importable.
    if name.lower().replace('_', '-').replace('.', '-') in hidden:
        raise importlib.metadata.PackageNotFoundError(name)
    return find(name)
importlib.metadata.Distribution.from_name = staticmethod(find_shown)
runpy.run_path(sys.argv[3], run_name='__main__')
'''

#: Prints which modules of ours are loaded with filters and weighers, and then
#: with what these import later.
_LOADED = '''
import json, sys
def tell():
    print(json.dumps([
        module.__file__ for name, module in sys.modules.items()
        if name.partition('.')[0] == 'nova_pinning']))
import nova_pinning.bridge.extra_specs
import nova_pinning.conf.opts
from nova_pinning.scheduler import filters, weights
filters.all_filters() + weights.all_weighers()
tell()
import nova_pinning.extras
import nova_pinning.scheduler.metrics_writer
tell()
'''


_code_lines = runpy.run_path(
    str(_ROOT / 'tools' / 'count_lines.py'))['code_lines']


def _declared(*extra_names):
    """The names of what pyproject.toml lists without extras, and in these."""
    lines = list(_PROJECT['dependencies'])
    for name in extra_names:
        lines += _PROJECT['optional-dependencies'][name]
    return [requirements.Requirement(line) for line in lines]


def _closure():
    """The names of all that the base install brings."""
    found = {'nova-pinning'}
    left = collections.deque(_declared())
    while left:
        requirement = left.popleft()
        name = utils.canonicalize_name(requirement.name)
        if name in found:
            continue
        found.add(name)
        for line in importlib.metadata.requires(name) or ():
            more = requirements.Requirement(line)
            if more.marker is None or any(
                    more.marker.evaluate({'extra': extra})
                    for extra in ('', *requirement.extras)):
                left.append(more)
    return found


def _imports(paths, at_start=False):
    """The packages of others that modules import.

    :param at_start: only what is imported when the module is
    """
    found = set()
    for path in paths:
        tree = ast.parse(pathlib.Path(path).read_text())
        for node in tree.body if at_start else ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module)
    return ({name.partition('.')[0] for name in found} -
            sys.stdlib_module_names - {'nova_pinning'})


def _unions(tree):
    """The annotations with a union that Python 3.9 would fail on."""
    found = []
    for node in ast.walk(tree):
        said = getattr(node, 'annotation', None) or getattr(
            node, 'returns', None)
        if said and any(isinstance(part, ast.BinOp)
                        for part in ast.walk(said)):
            found.append(ast.unparse(said))
    return found


@functools.cache
def _loaded():
    """The files that nova-scheduler loads at once, and those sooner or later.
    """
    return list(map(json.loads, _run('-c', _LOADED).stdout.splitlines()))


def _run(*argv):
    return subprocess.run(
        [sys.executable, '-W', 'ignore', *argv], cwd=_ROOT,
        capture_output=True, text=True)


class TestBaseInstall(oslotest.BaseTestCase):

    def test_filters_and_weighers_schedule(self):
        closure = _closure()
        missing = sorted(
            package for package, names in _DISTRIBUTIONS.items()
            if not names & closure)
        self.assertIn('scipy', missing)
        hidden = frozenset().union(*_DISTRIBUTIONS.values()) - closure
        done = _run('-c', _WITHOUT, json.dumps(missing),
                    json.dumps(sorted(hidden)),
                    str(_ROOT / 'tools' / 'check_base_install.py'))
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_what_they_import_is_declared(self):
        declared = {utils.canonicalize_name(one.name) for one in _declared()}
        modules, _later = _loaded()
        self.assertGreater(len(modules), 40)
        # What has to be read to trust nova-scheduler with it.
        self.assertLess(
            sum(_code_lines(pathlib.Path(path)) for path in modules), 6000)
        for package in _imports(modules, at_start=True):
            self.assertTrue(
                _DISTRIBUTIONS[package] & declared, package)

    def test_python_3_9(self):
        """What nova-scheduler loads, now or later, is written for it.

        tox -e release-2025.1-py39 runs it there; here nobody has to wait for
        that.
        """
        _at_once, loaded = _loaded()
        self.assertGreater(len(loaded), 40)
        # These say that Python is too old.
        for path in (*loaded, *map(str, (
                _ROOT / 'nova_pinning' / 'cli' / 'shell.py',
                _ROOT / 'nova_pinning' / 'osc' / 'commands.py',
                _ROOT / 'nova_pinning' / 'osc' / 'plugin.py'))):
            tree = ast.parse(pathlib.Path(path).read_text(), path,
                             feature_version=(3, 9))
            is_lazy = any(
                isinstance(node, ast.ImportFrom)
                and node.module == '__future__' for node in tree.body)
            if path in loaded and not is_lazy:
                self.assertEqual([], _unions(tree), path)

    def test_advice_brings_what_is_imported(self):
        """Each package of others that any module imports."""
        directory = _ROOT / 'nova_pinning'
        packages = _imports(
            path for path in directory.rglob('*.py')
            if not {'tests', 'tempest_plugin'}
            & set(path.relative_to(directory).parts))
        self.assertGreater(len(packages), 15)
        for package in packages:
            extra = extras.install_advice(package).partition('[')[2].rstrip(
                "]'")
            self.assertTrue(_DISTRIBUTIONS[package] & {
                utils.canonicalize_name(one.name)
                for one in _declared(extra)}, package)


@ddt.ddt
class TestMissingExtra(cli_case.TestCase):

    def test_old_python(self):
        done = _run('-c', 'import sys; sys.version_info = (3, 10, 1); '
                    'from nova_pinning.cli.shell import main')
        self.assertEqual((2, ''), (done.returncode, done.stdout))
        self.assertRegex(
            done.stderr, r'\Aerror: commands need Python 3\.11 or newer, and '
            r'this is 3\.\d+\.\d+[^;]*; install nova-pinning\[tools\] with a '
            r'newer one, in a virtual environment of its own\n\Z')

    @ddt.data('cliff', 'rich')
    def test_program(self, package):
        done = _run('-c', _WITHOUT, json.dumps([package]), '[]',
                    str(_ROOT / 'nova_pinning' / 'cli' / 'shell.py'))
        self.assertEqual((2, ''), (done.returncode, done.stdout))
        self.assertEqual(
            f'error: the Python package {package} is not installed; run pip '
            "install 'nova-pinning[tools]'\n", done.stderr)

    def test_command_that_cannot_be_loaded(self):
        with mock.patch('importlib.metadata.import_module',
                        side_effect=_not_there('yaml')):
            done = self.run_command('capacity', 'x')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn("pip install 'nova-pinning[tools]'", done.err)

    def test_command_that_finds_out_late(self):
        with mock.patch('nova_pinning.flavors.catalogue.load',
                        side_effect=_not_there('yaml.reader')):
            done = self.run_command('flavor', 'show', 'x')
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn("yaml is not installed; run pip install "
                      "'nova-pinning[tools]'", done.err)

    def test_module_of_ours_is_a_bug(self):
        with mock.patch('nova_pinning.flavors.catalogue.load',
                        side_effect=_not_there('nova_pinning.nothing')):
            done = self.run_command('flavor', 'show', 'x')
        self.assertEqual(70, done.status)
        self.assertIn('nova_pinning.nothing', done.err)

    @ddt.data(('jinja2', 'bench'), ('prometheus_client', 'metrics'),
              ('zstandard', 'tools'))
    @ddt.unpack
    def test_need(self, package, extra):
        extras.need('it', package, 'json')
        with mock.patch.dict(sys.modules, {package: None}):
            error = self.assertRaises(
                errors.InputError, extras.need, 'it', 'json', package)
        self.assertIn(package, error.message)
        self.assertIn(f"pip install 'nova-pinning[{extra}]'", error.advice)


class TestMissingExtraOfOpenStack(oslotest.BaseTestCase):
    """Commands that OpenStackClient loads, though they cannot be imported."""

    def test_there(self):
        made = commands.flavor.ApplyFlavors(mock.Mock(), None)
        self.assertEqual('nova_pinning.osc.flavor', type(made).__module__)
        self.assertRaises(AttributeError, getattr, commands, 'nothing')

    def test_old_python(self):
        with mock.patch.object(sys, 'version_info', (3, 9, 18)):
            made = commands.flavor.ApplyFlavors(mock.Mock(), None)
        parser = made.get_parser('openstack pinning flavor apply')
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            end = self.assertRaises(SystemExit, parser.parse_args, [])
        self.assertEqual(2, end.code)
        self.assertIn('commands need Python 3.11 or newer', said.getvalue())

    def test_missing(self):
        with mock.patch('importlib.import_module',
                        side_effect=_not_there('rich.table')):
            made = commands.flavor.ApplyFlavors(mock.Mock(), None)
        self.assertIsInstance(made, command.Command)
        self.assertFalse(made.auth_required)
        self.assertIn('nova-pinning[tools]', made.get_description())
        # What the help and the completion do with each command.
        parser = made.get_parser('openstack pinning flavor apply')
        self.assertTrue(parser.format_help())
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            end = self.assertRaises(
                SystemExit, parser.parse_args, ['x', '--yes'])
        self.assertEqual(2, end.code)
        self.assertEqual(
            'error: the Python package rich is not installed; run pip '
            "install 'nova-pinning[tools]'\n", said.getvalue())


def _not_there(name):
    return ModuleNotFoundError(f'No module named {name!r}', name=name)
