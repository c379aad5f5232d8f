# SPDX-License-Identifier: Apache-2.0
"""The tables of releases, against the nova that is installed.

It can be any release: run this with each of them. ``nova-words.txt`` has what
all releases from 2024.1 to 2026.2 know; with what the tables add for the one
that is installed, it has to be all that this nova knows.
"""

from importlib import metadata
import pathlib
import re
from unittest import mock

import ddt
from nova.api.openstack import api_version_request
from nova.api.validation.extra_specs import validators
import nova.compute
from nova import context as nova_context
from nova import exception
from nova import objects
from nova.objects import service
from nova.scheduler import request_filter
from nova.scheduler import utils
import nova.virt
from nova.virt.libvirt import config as libvirt_config
import os_traits
from oslo_utils import uuidutils
from oslotest import base

from nova_pinning.flavors import release_support
from nova_pinning.model import nova_release

_COMMON = pathlib.Path(__file__).with_name('nova-words.txt')
#: Namespaces of another driver, of os-traits and of os-resource-classes.
_OTHERS = ('capabilities:', 'vmware:', 'trait{group}:', 'resources{group}:')
objects.register_all()
INSTALLED = nova_release.of_nova_version(metadata.version('nova'))


def nova_words():
    """All that the installed nova knows, a line each."""
    for name, validator in validators.VALIDATORS.items():
        if name.startswith((*_OTHERS, 'pinning:')):
            continue
        yield f'extra spec {name}'
        for value in validator.value.get('enum', ()):
            yield f'extra spec {name}={value}'
    for name, field in objects.ImageMetaProps.fields.items():
        yield f'image property {name}'
        for value in getattr(field, 'valid_values', None) or ():
            yield f'image property {name}={value}'
    for function in request_filter.ALL_REQUEST_FILTERS:
        yield f'request filter {function.__name__}'
    for trait in reported_traits():
        yield f'trait {trait}'


def reported_traits():
    """The traits that stand in what runs on hosts."""
    known = set(os_traits.get_traits())
    found = set()
    for room in (nova.compute, nova.virt):
        for path in pathlib.Path(room.__file__).parent.rglob('*.py'):
            # vmwareapi names some, and it is not what hosts run here.
            if 'vmwareapi' not in path.parts:
                found |= known & set(re.findall(
                    r'\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b', path.read_text()))
    return found


def table_words(release):
    """What the tables add for a release."""
    for kind, table in (('extra spec', release_support.EXTRA_SPECS),
                        ('image property', release_support.IMAGE_PROPERTIES)):
        for key, support in table.items():
            if support.has_key(release):
                yield f'{kind} {key}'
            for value in support.values:
                if support.takes(value, release):
                    yield f'{kind} {key}={value}'
    for (key, value), since in release_support.PROPERTY_VALUES.items():
        if since <= release:
            yield f'image property {key}={value}'
    for kind, table in (('trait', release_support.TRAITS),
                        ('request filter', release_support.REQUEST_FILTERS)):
        for name, since in table.items():
            if since <= release:
                yield f'{kind} {name}'


def asked_traits(extra_specs, properties):
    """The traits that the installed nova asks Placement for."""
    spec = objects.RequestSpec(
        flavor=objects.Flavor(
            id=1, flavorid='1', name='f', vcpus=2, memory_mb=1024, root_gb=1,
            ephemeral_gb=0, swap=0, extra_specs=dict(extra_specs)),
        image=objects.ImageMeta.from_dict(
            {'id': uuidutils.generate_uuid(), 'name': 'i',
             'properties': dict(properties)}),
        numa_topology=None, pci_requests=None, is_bfv=False, num_instances=1,
        requested_resources=[], request_level_params=(
            objects.RequestLevelParams()))
    context = nova_context.RequestContext(is_admin=False)
    for name in release_support.REQUEST_FILTERS:
        function = getattr(request_filter, name, None)
        if function is not None:
            function(context, spec)
    request = utils.ResourceRequest.from_request_spec(spec)
    return request._root_required | (
        request.get_request_group(None).required_traits)


class TestTables(base.BaseTestCase):

    def test_the_installed_nova(self):
        self.assertIsNotNone(INSTALLED, metadata.version('nova'))
        known = {*_COMMON.read_text().splitlines(), *table_words(INSTALLED)}
        found = set(nova_words())
        self.assertEqual(set(), known - found, 'nova does not know')
        self.assertEqual(set(), found - known, 'the tables lack')

    def test_values_that_are_not_words(self):
        for key, support in release_support.EXTRA_SPECS.items():
            if support.values or not support.has_key(INSTALLED):
                continue
            for value in ('0', '1', '007', '15', '16', '-1', 'x', '', '1.5'):
                try:
                    validators.validate(key, value)
                    is_taken = True
                except exception.ValidationError:
                    is_taken = False
                self.assertEqual(is_taken, support.takes(value, INSTALLED),
                                 (key, value))

    def test_unknown_extra_specs_are_refused(self):
        for key, support in release_support.EXTRA_SPECS.items():
            if not support.has_key(INSTALLED):
                self.assertRaises(exception.ValidationError,
                                  validators.validate, key, '1')

    def test_unknown_properties_are_ignored(self):
        for key, support in release_support.IMAGE_PROPERTIES.items():
            if not support.has_key(INSTALLED):
                read = objects.ImageMetaProps.from_dict({key: 'odd'})
                self.assertEqual(set(), read.obj_what_changed())

    def test_unknown_values_of_properties_are_refused(self):
        wrong = [(key, value) for (key, value), since
                 in release_support.PROPERTY_VALUES.items()
                 if INSTALLED < since]
        wrong += [(key, value) for key, support
                  in release_support.IMAGE_PROPERTIES.items()
                  for value in (*support.values, 'odd')
                  if support.values and support.has_key(INSTALLED)
                  and not support.takes(value, INSTALLED)]
        for key, value in wrong:
            self.assertRaises(ValueError, objects.ImageMetaProps.from_dict,
                              {key: value})

    def test_xml(self):
        """What stands in the XML of a release can be written by it."""
        present = (
            hasattr(libvirt_config,
                    'LibvirtConfigGuestMetaNovaFlavorExtraSpecs'),
            hasattr(libvirt_config.LibvirtConfigGuest(), 'iothreads'))
        self.assertEqual(
            present, tuple(since <= INSTALLED
                           for since, _what in release_support.XML))

    def test_compute_api(self):
        self.assertEqual(f'2.{INSTALLED.microversion}',
                         api_version_request._MAX_API_VERSION)


_UEFI = {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35',
         'hw_firmware_stateless': 'true', 'hw_video_model': 'none'}


@ddt.ddt
class TestAddedTraits(base.BaseTestCase):
    """Against nova's own request filters and ResourceRequest."""

    @ddt.data(
        ({}, {}),
        ({'hw:sound_model': 'virtio'}, {}),
        ({'hw:sound_model': 'usb'}, {}),
        ({}, {'hw_sound_model': 'virtio'}),
        ({'hw:sound_model': 'virtio',
          'trait:COMPUTE_SOUND_MODEL_VIRTIO': 'required'}, {}),
        ({'hw:tpm_version': '2.0'}, {}),
        ({'hw:tpm_version': '2.0', 'hw:tpm_model': 'tpm-crb',
          'hw:tpm_secret_security': 'host'}, {}),
        ({'hw:tpm_secret_security': 'host'}, {}),
        ({}, {'hw_tpm_version': '1.2', 'hw_tpm_model': 'tpm-tis'}),
        ({'hw:mem_encryption': 'true'}, _UEFI),
        ({'hw:mem_encryption': 'no'}, _UEFI),
        ({'hw:mem_encryption_model': 'amd-sev-es'}, _UEFI),
        ({'hw:mem_encryption': 'true',
          'hw:mem_encryption_model': 'amd-sev-es'}, _UEFI),
        ({'hw:mem_encryption': 'true',
          'hw:mem_encryption_model': 'intel-tdx'}, _UEFI),
        ({}, {'hw_mem_encryption': 'yes',
              'hw_mem_encryption_model': 'amd-sev-es', **_UEFI}),
        ({}, {'hw_firmware_stateless': 'yes', 'hw_firmware_type': 'uefi'}))
    @ddt.unpack
    @mock.patch('nova.objects.service.get_minimum_version_all_cells',
                return_value=service.SERVICE_VERSION)
    def test_nova_itself(self, extra_specs, image, _version):
        named = {trait for _key, trait in release_support.required_traits(
            extra_specs, image)}
        differing = frozenset().union(*(
            release_support.added_traits(extra_specs, image, release)
            for release in nova_release.RELEASES)) - named
        self.assertEqual(
            asked_traits(extra_specs, image) & differing,
            release_support.added_traits(extra_specs, image, INSTALLED))


def _cloud(name, installed='34.0.0'):
    return release_support.CloudRelease.of(nova_release.of_name(name),
                                           installed)


class TestPreviewDifferences(base.BaseTestCase):

    def _told(self, cloud, extra_specs=(), image=()):
        return '\n'.join(release_support.preview_differences(
            cloud, dict(extra_specs), dict(image)))

    def test_the_same_release(self):
        self.assertEqual('', self._told(_cloud('2026.2')))
        self.assertEqual('', self._told(release_support.CloudRelease()))

    def test_an_older_release(self):
        told = self._told(_cloud('2025.1'), {'hw:sound_model': 'virtio'})
        for words in ('what nova 34.0.0 (2026.2) makes of it',
                      'nova 2025.1 does not ask Placement for trait '
                      'COMPUTE_SOUND_MODEL_VIRTIO',
                      'trait OWNER_NOVA', 'does not have an I/O thread'):
            self.assertIn(words, told)
        self.assertNotIn('left out', told)

    def test_a_newer_release(self):
        told = self._told(_cloud('2026.2', '31.3.1'),
                          {'hw:sound_model': 'virtio'},
                          {'hw_usb_model': 'qemu-xhci',
                           'hw_sound_model': 'odd'})
        for words in ('what nova 31.3.1 (2025.1) makes of it',
                      'hw:sound_model is left out',
                      'hw_usb_model is left out',
                      'also asks Placement for trait OWNER_NOVA',
                      'also has an I/O thread'):
            self.assertIn(words, told)
        self.assertNotIn('hw_sound_model', told)

    def test_a_nova_that_is_not_known(self):
        told = self._told(_cloud('2026.2', '99.0.0'))
        self.assertIn('what nova 99.0.0 makes of it', told)
        self.assertNotIn('\n', told)


class TestReadable(base.BaseTestCase):

    SPECS = {'hw:sound_model': 'virtio', 'hw:cpu_policy': 'dedicated',
             'my:key': 'x', 'trait2:OWNER_NOVA': 'required'}
    IMAGE = {'hw_vif_model': 'igb', 'hw_cpu_policy': 'shared'}

    def test_older_nova(self):
        known = _cloud('2026.2', '30.0.0').readable(self.SPECS, self.IMAGE)
        self.assertEqual(({'hw:cpu_policy': 'dedicated', 'my:key': 'x'},
                          {'hw_cpu_policy': 'shared'}), known)

    def test_newest_nova(self):
        known = _cloud('2025.1').readable(self.SPECS, self.IMAGE)
        self.assertEqual((self.SPECS, self.IMAGE), known)

    def test_without_a_release(self):
        cloud = release_support.CloudRelease((), '30.0.0')
        self.assertEqual((self.SPECS, self.IMAGE),
                         cloud.readable(self.SPECS, self.IMAGE))


@ddt.ddt
class TestComputeApi(base.BaseTestCase):

    @ddt.data(
        (None, [], 'does not say which versions'),
        (105, [], 'newer than that of 2026.2'),
        (95, ['2024.1'], 'older than that of 2024.1'),
        (96, ['2024.1', '2024.2'], 'does not tell 2024.1 from 2024.2'),
        (98, ['2025.1'], 'nova-api is of 2025.1'),
        (100, ['2025.1', '2025.2'], 'does not tell 2025.1 from 2025.2'),
        (103, ['2026.1'], 'hosts may still run an older release'),
        (104, ['2026.2'], 'nova-api is of 2026.2'))
    @ddt.unpack
    def test_releases(self, microversion, releases, words):
        told = release_support.of_compute_api('north', microversion, '34.0.0')
        self.assertEqual(releases, list(map(str, told.releases)))
        remark, = told.remarks
        self.assertIn('cloud north', remark)
        self.assertIn(words, remark)


if __name__ == '__main__':
    print('\n'.join(sorted(nova_words())))
