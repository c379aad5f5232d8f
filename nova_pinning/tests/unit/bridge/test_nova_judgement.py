# SPDX-License-Identifier: Apache-2.0

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

from importlib import metadata
import inspect
import logging
import re

import fixtures
import hypothesis
from hypothesis import strategies
from nova.api.validation.extra_specs import validators
from nova import exception
from nova.objects import image_meta
from nova.pci import request as pci_request
from nova.virt import hardware

from nova_pinning.bridge.offline import nova_judgement
from nova_pinning.bridge.offline import nova_options
from nova_pinning import errors
from nova_pinning.flavors.checks import nova_exceptions
from nova_pinning.flavors.checks import nova_rules
from nova_pinning import model
from nova_pinning.model import nova_release
from nova_pinning.tests.unit.flavors import check_samples
from nova_pinning.tests.unit.flavors import test_checks
from nova_pinning.tests.unit import unit_base

#: What is relied on of nova, besides the constraints themselves.
_RELIED_ON = (
    (hardware, 'get_best_cpu_topology'),
    (hardware, 'is_realtime_enabled'),
    (image_meta.ImageMetaProps, '_legacy_property_map'),
    (pci_request, 'get_alias_from_config'),
    (pci_request, 'get_pci_requests_from_flavor'),
    (validators, 'VALIDATORS'),
    (validators, 'NAMESPACES'),
    (validators, 'validate'),
)


class ReliedOnTest(unit_base.TestCase):
    """Shows what moved in a new release of nova."""

    def test_functions(self):
        for where, name in _RELIED_ON:
            self.assertTrue(hasattr(where, name), name)
        self.assertTrue(hasattr(
            pci_request.get_alias_from_config, 'cache_clear'))

    def test_constraints(self):
        for one in nova_judgement.CONSTRAINTS:
            signature = inspect.signature(getattr(hardware, one.name))
            needed = [name for name, parameter in signature.parameters.items()
                      if parameter.default is parameter.empty]
            self.assertEqual(
                ['flavor', 'image_meta'] if one.takes_image else ['flavor'],
                needed, one.name)

    def test_no_constraint_is_left_out(self):
        """All that nova works out of a flavor and an image is asked for."""
        asked = {one.name for one in nova_judgement.CONSTRAINTS}
        for name, function in inspect.getmembers(
                hardware, inspect.isfunction):
            if name.startswith('_') or name in asked:
                continue
            if list(inspect.signature(function).parameters)[:2] == [
                    'flavor', 'image_meta']:
                # Slow for large guests, see guest_topology.choose.
                self.assertEqual('get_best_cpu_topology', name)

    def test_exceptions(self):
        """There is a rule for each that is raised."""
        raised = set()
        for one in nova_judgement.CONSTRAINTS:
            raised |= _raised(getattr(hardware, one.name), set())
        raised |= _raised(hardware.get_best_cpu_topology, set())
        raised |= _raised(pci_request.get_pci_requests_from_flavor, set())
        # Classes, since 2026.1.
        encryption = getattr(hardware, 'MemEncryptionConfig', None)
        for kind in encryption and (
                encryption, *encryption.__subclasses__()) or ():
            raised |= set(re.findall(
                r'raise exception\.(\w+)', inspect.getsource(kind)))
        self.assertGreater(len(raised), 30)
        self.assertLessEqual(raised, set(nova_exceptions.EXCEPTIONS))
        newest = nova_release.NEWEST
        if nova_release.of_nova_version(metadata.version('nova')) == newest:
            self.assertEqual(set(nova_exceptions.EXCEPTIONS), raised)
        for name in raised:
            self.assertTrue(
                issubclass(getattr(exception, name), exception.NovaException))


def _raised(function, seen):
    """The exceptions that a function of nova and those it calls raise."""
    if function in seen:
        return set()
    seen.add(function)
    source = inspect.getsource(function)
    found = set(re.findall(r'raise exception\.(\w+)', source))
    module = inspect.getmodule(function)
    for name in set(re.findall(r'\b(\w+)\(', source)):
        called = getattr(module, name, None)
        called = getattr(called, '__wrapped__', called)
        if inspect.isfunction(called) and inspect.getmodule(called) is module:
            found |= _raised(called, seen)
    return found


def judge(flavor, properties=None, aliases=None):
    with nova_judgement.judging([flavor], properties, aliases) as judged:
        return judged(flavor)


def told(judgement):
    return [(refusal.rule.code, refusal.message, refusal.keys[:1])
            for refusal in judgement.refusals]


class JudgeTest(unit_base.TestCase):

    def test_guest(self):
        judgement = judge(check_samples.flavor(check_samples.DEDICATED))
        self.assertEqual((), judgement.refusals)
        self.assertTrue(judgement.is_accepted)
        self.assertEqual(
            model.Guest(
                (model.GuestCell(tuple(range(8)), (), 16384,
                                 model.PAGES_LARGE),),
                model.CpuPolicy.DEDICATED, model.ThreadPolicy.REQUIRE),
            judgement.guest)

    def test_floating(self):
        judgement = judge(check_samples.flavor(check_samples.SHARED))
        self.assertEqual((None, True),
                         (judgement.guest, judgement.is_accepted))

    def test_several_mistakes(self):
        self.assertEqual(
            [('N002', 'nova refuses hw:cpu_dedicated_mask=0-7: '
              "Mixed instance must have at least 1 pinned vCPU and 1 unpinned "
              "vCPU. See 'hw:cpu_dedicated_mask'",
              ('hw:cpu_dedicated_mask',)),
             ('N004', 'nova refuses hw:locked_memory=yes: locked_memory value '
              'in image or flavor is forbidden when mem_page_size is not set',
              ('hw:locked_memory',)),
             ('N006', 'nova refuses pci_passthrough:alias=nvme:1: PCI alias '
              'nvme is not defined', ('pci_passthrough:alias',))],
            told(judge(check_samples.flavor({
                'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0-7',
                'hw:locked_memory': 'yes',
                'pci_passthrough:alias': 'nvme:1'}), aliases=())))

    def test_a_wrong_value_is_told_once(self):
        self.assertEqual(
            [('N001', "nova refuses hw:cpu_policy=pinned: 'pinned' is not one "
              'of: dedicated, shared, mixed', ('hw:cpu_policy',))],
            told(judge(check_samples.flavor({'hw:cpu_policy': 'pinned'}))))

    def test_an_image_in_conflict(self):
        """Both are named, and it stands where the flavor does."""
        self.assertEqual(
            [('N002', 'nova refuses hw:cpu_policy=shared with '
              "hw_cpu_policy=dedicated: Image property 'hw_cpu_policy' is not "
              'permitted to override CPU pinning policy set against the '
              'flavor', ('hw:cpu_policy',))],
            told(judge(check_samples.flavor(check_samples.SHARED),
                       {'hw_cpu_policy': 'dedicated'})))

    def test_a_mistake_of_the_image(self):
        refusal, = judge(
            check_samples.flavor({}),
            {'hw_numa_nodes': '1', 'hw_numa_cpus.0': '0-9',
             'hw_numa_mem.0': '16384'}).refusals
        self.assertEqual('N003', refusal.rule.code)
        self.assertEqual('hw_numa_cpus.0', refusal.keys[0])

    def test_nothing_wrong_is_refused_twice(self):
        problems = told(judge(check_samples.flavor(
            {'hw:cpu_thread_policy': 'require', 'hw:numa_nodes': '3'})))
        self.assertEqual(len(set(problems)), len(problems))
        self.assertEqual(['N002'], [code for code, *_rest in problems])

    def test_what_follows_goes_without_saying(self):
        self.assertEqual(
            ['N001', 'N001'],
            [code for code, *_rest in told(judge(check_samples.flavor(
                {'hw:numa_cpus.0': 'x', 'hw:numa_nodes': '1',
                 'hw:cpu_threads': '2' * 5000})))])

    def test_nova_fails(self):
        self.useFixture(fixtures.MockPatchObject(
            hardware, 'get_pmu_constraint', side_effect=KeyError('a\nb')))
        judgement = judge(check_samples.flavor({'hw:pmu': 'yes'}))
        self.assertEqual(
            [('N008', "nova refuses hw:pmu=yes: KeyError: 'a\\nb'",
              ('hw:pmu',))], told(judgement))
        self.assertFalse(judgement.is_accepted)

    def test_advice(self):
        refusal, = judge(
            check_samples.flavor({'pinning:famly': 'a'})).refusals
        self.assertEqual('perhaps pinning:family', refusal.advice)

    def test_encryption_needs_an_image(self):
        flavor = check_samples.flavor({'hw:mem_encryption': 'yes'})
        self.assertEqual([], told(judge(flavor)))
        self.assertEqual(
            ['N004'], [code for code, *_rest in told(judge(
                flavor, {'os_type': 'linux'}))])

    def test_leaves_nova_as_it_was(self):
        logger = logging.getLogger('nova')
        level = logger.level
        before = nova_options.CONF.pci.alias
        flavor = check_samples.flavor({'pci_passthrough:alias': 'nvme:1'})
        with nova_judgement.judging([flavor]) as judged:
            judged(flavor)
            self.assertIn('nvme', pci_request.get_alias_from_config())
        self.assertEqual(level, logger.level)
        self.assertEqual(before, nova_options.CONF.pci.alias)
        self.assertNotIn('nvme', pci_request.get_alias_from_config())

    def test_is_quiet(self):
        flavor = check_samples.flavor(check_samples.DEDICATED)
        with unit_base.log_records('nova') as records:
            judge(flavor, {'hw_firmware_stateless': 'yes'})
        self.assertEqual([], records)

    @unit_base.settings(100)
    @hypothesis.given(strategies.one_of(
        test_checks.SENSIBLE_SPECS, test_checks.GARBAGE_SPECS))
    def test_extra_specs_as_nova_api(self, specs):
        refused = {refusal.keys[0] for refusal in
                   judge(check_samples.flavor(specs)).refusals
                   if refusal.rule is nova_rules.EXTRA_SPEC}
        for key, value in specs.items():
            try:
                validators.validate(key, value)
            except (exception.ValidationError, ValueError):
                self.assertIn(key, refused)
            else:
                self.assertNotIn(key, refused)


class ImageTest(unit_base.TestCase):

    def test_properties(self):
        image = nova_judgement.image_meta({
            'hw_cpu_policy': 'shared', 'hw_numa_cpus.0': '0-1',
            'hw_numa_mem.0': '1024', 'trait:CUSTOM_A': 'required',
            'architecture': 'x86_64', 'vmware_adaptertype': 'ide'})
        self.assertEqual('shared', image.properties.hw_cpu_policy)
        self.assertEqual([{0, 1}], image.properties.hw_numa_cpus)
        self.assertEqual(['CUSTOM_A'], image.properties.traits_required)
        self.assertEqual('x86_64', image.properties.hw_architecture)

    def test_wrong_ones(self):
        error = self.assertRaises(
            errors.InputErrors, nova_judgement.image_meta, {
                'hw_machine': 'q35', 'hw_cpu_policy': 'pinned',
                'hw_numa_cpus.0': '0-99999999', 'quite_unknown_to_all': 'x'})
        where = [one.where.key for one in error.errors]
        self.assertEqual(
            ['hw_machine', 'hw_cpu_policy', 'hw_numa_cpus.0',
             'quite_unknown_to_all'], where)
        self.assertEqual('did you mean hw_machine_type?',
                         error.errors[0].advice)
        self.assertEqual('', error.errors[3].advice)
