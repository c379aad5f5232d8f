# SPDX-License-Identifier: Apache-2.0
"""Which of nova's names was meant by one that it does not know."""

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import random
import re

import ddt
from nova.api.validation.extra_specs import validators

from nova_pinning.bridge.offline import nova_judgement
from nova_pinning.tests import forms
from nova_pinning.tests.unit.flavors import check_samples
from nova_pinning.tests.unit import unit_base

#: By what was written, most of it seen in public flavors.
MEANT = {
    'hw:cpu_threads_policy': 'hw:cpu_thread_policy',
    'hw:thread_policy': 'hw:cpu_thread_policy',
    'hw:page_size': 'hw:mem_page_size',
    'hw:memory_page_size': 'hw:mem_page_size',
    'hw:emulator_threads': 'hw:emulator_threads_policy',
    'hw:numa_cpu.1': 'hw:numa_cpus.1',
    'hw:numa_mem': 'hw:numa_mem.0',
    'hw:numa_memory.1': 'hw:numa_mem.1',
    'hw:vif_multiqueue': 'hw:vif_multiqueue_enabled',
    'hw:cpu_max': 'hw:cpu_max_sockets or hw:cpu_max_cores or '
                  'hw:cpu_max_threads',
    'hw:pci_numa_affinity': 'hw:pci_numa_affinity_policy',
    'hw:hypervisor_id': 'hw:hide_hypervisor_id',
    'HW:cpu_policy': 'hw:cpu_policy',
    'hw_cpu_policy': 'hw:cpu_policy',
    'hw.cpu_policy': 'hw:cpu_policy',
    'hwcpu_policy': 'hw:cpu_policy',
    'cpu_thread_policy': 'hw:cpu_thread_policy',
    'numa_cpus.0': 'hw:numa_cpus.0',
    'group_polcy': 'group_policy',
    'quota:disk_read_iops': 'quota:disk_read_iops_sec',
    'quotas:cpu_shares': 'quota:cpu_shares',
    'resource:CUSTOM_A': 'resources:CUSTOM_A',
    'resources1:VCPUS': 'resources1:VCPU',
    'aggregate_instance_extra_spec:ssd': 'aggregate_instance_extra_specs:ssd',
}
#: What no name of nova's does.
NOTHING = (
    'hw:numa_mempolicy', 'hw:cpu_model', 'hw:numa_cache.0', 'hw:disk_bus',
    'hw:isolated_metadata', 'hw:cyborg_locality', 'hw:machine_type',
    'hw:numa_node.0', 'hw:cache_l3.0', 'hw:wrs:pci_numa_affinity',
    'hw:multiqueue', 'hw:cpu', 'hw_disk_bus', 'os_type', 'HW:x',
    'capabilities:boot_option', 'capabilities:profile', 'hw_rng:model',
    'epa', 'ssd', 'cpu_arch', 'pinned', 'gpu_policy', 'numa_mempolicy',
    'my:own', 'aggregates:ssd', 'policy_group')
LETTERS = 'abcdefghijklmnopqrstuvwxyz_:.0'


def edits(name, chance):
    """A name with one letter less, another, one more, and two swapped."""
    place = chance.randrange(len(name) - 1)
    before, after = name[:place], name[place:]
    yield before + after[1:]
    yield before + chance.choice(LETTERS) + after[1:]
    yield before + chance.choice(LETTERS) + after
    yield before + after[1] + after[0] + after[2:]


@ddt.ddt
class TestMeant(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        validators.load_validators()

    @ddt.data(*MEANT.items())
    @ddt.unpack
    def test_one(self, key, name):
        self.assertEqual(f'perhaps {name}', nova_judgement.meant(key))

    @ddt.data(*NOTHING)
    def test_none(self, key):
        self.assertEqual('', nova_judgement.meant(key))

    def test_blanks(self):
        self.assertEqual('write hw:pmu, without blanks',
                         nova_judgement.meant('hw:pmu '))

    @ddt.data(*range(1 if forms.SHORT else 5))
    def test_one_edit(self, seed):
        """Whatever the slip, the name is among those that are hinted at."""
        chance = random.Random(seed)
        names = [re.sub(r'\{\w+\}', '', name.replace('{num}', '0'))
                 for name in validators.VALIDATORS if '{group}' not in name]
        for name in names:
            for key in edits(name, chance):
                if nova_judgement._validator(key) is None:
                    self.assertIn(
                        name, nova_judgement.meant(key).split(), key)

    @ddt.data(('hw_disk_bus', 'set it on images'),
              ('hw_cpu_policy', 'perhaps hw:cpu_policy'),
              ('cpu_policy', 'perhaps hw:cpu_policy'),
              ('my:own ', 'write my:own'))
    @ddt.unpack
    def test_nobody_reads_it(self, key, advice):
        found, = (finding for finding in check_samples.check([
            check_samples.flavor({**check_samples.DEDICATED, key: 'x'})])
            if finding.code == 'P505')
        self.assertEqual(advice, found.advice)
