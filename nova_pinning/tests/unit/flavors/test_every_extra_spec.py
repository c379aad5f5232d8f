# SPDX-License-Identifier: Apache-2.0
"""Every extra spec that nova's validators know, of each supported release.

``extra-specs.json`` has them, as ``tools/write_extra_specs.py`` has read them
off the novas; here each is written in a catalogue, translated, and checked for
each of the releases. What a release takes must be accepted, or refused by a
rule; what it does not take must be refused.
"""

import functools
import importlib.util
import json
import pathlib

import ddt
import yaml

from nova_pinning.bridge.offline import standalone
from nova_pinning.bridge import preview
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors.checks import flavor_check_run
from nova_pinning.flavors import release_support
from nova_pinning.model import nova_release
from nova_pinning.tests.unit.bridge import test_preview
from nova_pinning.tests.unit.flavors import check_samples
from nova_pinning.tests.unit.flavors import test_release_support
from nova_pinning.tests.unit import unit_base

_HERE = pathlib.Path(__file__)
_TABLE = json.loads(_HERE.with_name('extra-specs.json').read_text())
_TOOL = _HERE.parents[4] / 'tools' / 'write_extra_specs.py'
_PARTS = {'{num}': '0', '{group}': '', '{filter}': '', '{key}': 'rack'}
#: Where any text will do, and where a pattern says which.
_TEXTS = {
    'hw:cpu_dedicated_mask': '0-1', 'hw:cpu_realtime_mask': '^0',
    'hw:mem_page_size': '2MB', 'hw:numa_cpus.0': '0-7', 'hw:pmem': '4GB',
    'pci_passthrough:alias': 'nvme:1'}
#: Refused by nova's constraints, whatever the value, since something has to
#: stand beside it.
_ALONE = {
    'hw:cpu_dedicated_mask': 'N002', 'hw:cpu_realtime': 'N002',
    'hw:cpu_thread_policy': 'N002', 'hw:emulator_threads_policy': 'N002',
    'hw:locked_memory': 'N004', 'hw:cpu_policy': 'N002',
    'hw:numa_nodes': 'N003', 'hw:tpm_version': 'N007'}
_UEFI = {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35'}
#: What the check knows of without a nova before 2024.2.
_RELEASES = sorted({release for releases in _TABLE.values()
                    for release in releases})


def plain(name):
    """A key of which a name with fields is the pattern."""
    for field, text in _PARTS.items():
        name = name.replace(field, text)
    return name


def taken(name, values):
    """Values that a validator takes, as text."""
    if 'enum' in values:
        return values['enum']
    if values['type'] == 'bool':
        return ['true', 'no']
    if values['type'] == 'int':
        return [str(max(1, values.get('min', 1)))]
    return [_TEXTS.get(plain(name), 'text')]


def odd(values):
    """Values that it does not take."""
    if 'enum' in values or values['type'] in ('int', 'bool'):
        return ['odd']
    return []


@functools.cache
def sold(key, value):
    """A flavor of a catalogue, with an extra spec; the same for all releases.
    """
    flavor, = catalogue.parse(yaml.safe_dump({
        'version': 2, 'name': 'c', 'families': {'f': {
            'sizes': {'s': {'vcpus': 8, 'memory': '16GiB', 'disk': '1GiB'}},
            'extra_specs': {key: value}}}}), 'f').flavors
    assert flavor.extra_specs[key] == value, flavor
    return flavor


def check(key, value, release):
    """The codes that are found in a flavor with an extra spec."""
    return {one.code for one in check_samples.check(
        [sold(key, value)], pci_aliases={'nvme'},
        cloud=release_support.CloudRelease(
            (nova_release.of_name(release),), standalone.nova_version()))}


@ddt.ddt
class TestEveryExtraSpec(unit_base.TestCase):

    def test_the_installed_nova(self):
        """A key or a value that is new shows at once."""
        if not _TOOL.is_file():
            self.skipTest('not run from a checkout')
        spec = importlib.util.spec_from_file_location('tool', _TOOL)
        tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tool)
        self.assertEqual(
            {name: values[str(test_release_support.INSTALLED)]
             for name, values in _TABLE.items()
             if str(test_release_support.INSTALLED) in values},
            tool.known(tool.sys.executable))

    @ddt.data(*_RELEASES)
    def test_what_a_release_takes(self, release):
        """Nobody is told that the release does not know it."""
        for name, releases in _TABLE.items():
            for value in taken(name, releases.get(release, {
                    'enum': []})):
                found = check(plain(name), value, release)
                self.assertFalse(
                    found & {'N001', 'N101'} - (
                        # Stored, and read by nothing.
                        {'N101'} if name.startswith('hw:max_cpu') else set()),
                    (release, name, value, found))
                refused = {code for code in found if code[:2] == 'N0'}
                self.assertLessEqual(
                    refused, {_ALONE.get(plain(name))}, (name, value))

    @ddt.data(*_RELEASES)
    def test_what_a_release_does_not_take(self, release):
        for name, releases in _TABLE.items():
            if release in releases:
                values = odd(releases[release])
                values += [
                    value for other in releases.values()
                    for value in taken(name, other)
                    if 'enum' in releases[release]
                    and value not in releases[release]['enum']]
            else:
                values = taken(name, next(iter(releases.values())))
            for value in values:
                self.assertTrue(
                    check(plain(name), value, release) & {'N001', 'N101'},
                    (release, name, value))

    def test_preview(self):
        """Each is shown, or refused in words."""
        seen = 0
        for name, releases in _TABLE.items():
            for value in taken(name, releases.get(
                    str(test_release_support.INSTALLED), {'enum': []})):
                wanted = test_preview.flavor()
                wanted.extra_specs[plain(name)] = value
                try:
                    preview.preview_guest(wanted, _UEFI, test_preview.host())
                    seen += 1
                except errors.InputError as error:
                    self.assertIn(wanted.name, error.message)
        self.assertGreater(seen, len(_TABLE))

    def test_rules_are_documented(self):
        self.assertLessEqual(set(_ALONE.values()),
                             set(flavor_check_run.RULES))
