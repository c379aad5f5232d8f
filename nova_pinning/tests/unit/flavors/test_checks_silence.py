# SPDX-License-Identifier: Apache-2.0
"""What nova really makes of flavors that it accepts without a word.

These are the grounds of the rules: the libvirt XML that nova's driver writes.
"""

import dataclasses
from xml.etree import ElementTree

import hypothesis
from hypothesis import strategies

from nova_pinning.bridge.offline import nova_judgement
from nova_pinning.bridge import preview
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors.checks import flavor_check_run
from nova_pinning.flavors.checks import target
from nova_pinning import model
from nova_pinning.tests.unit.flavors import check_samples
from nova_pinning.tests.unit.flavors import test_checks
from nova_pinning.tests.unit import unit_base

_SHARED_SET = '0-7'
_REALTIME = {'hw:cpu_realtime': 'yes', 'hw:cpu_realtime_mask': '^0-1'}
_HOST = check_samples.host(
    shared=_SHARED_SET, dedicated='8-71', cpu_allocation_ratio=4.0,
    devices=[('nvme', 0), ('nvme', 1)])
_UNMARKED_HOST = dataclasses.replace(_HOST, traits=frozenset())
_WITHOUT_SHARED_SET = check_samples.host()
_TOPOLOGY = ('hw:cpu_sockets', 'hw:cpu_cores', 'hw:cpu_threads')


class SilenceTest(unit_base.TestCase):

    def preview(self, specs, host=_HOST, image=None, without=(), **values):
        return preview.preview_guest(
            check_samples.flavor(specs, without, **values), image or {}, host)

    def domain(self, specs, **values):
        made = self.preview(specs, **values)
        self.assertIsNone(made.refusal)
        return ElementTree.fromstring(made.xml)

    def dedicated(self, more=(), **values):
        return self.domain({**check_samples.DEDICATED, **dict(more)}, **values)

    def shared(self, more=(), host=_UNMARKED_HOST, **values):
        return self.domain({**check_samples.SHARED, **dict(more)}, host=host,
                           **values)

    def topology(self, domain):
        found = domain.find('cpu/topology').attrib
        return [int(found[name]) for name in ('sockets', 'cores', 'threads')]

    def test_p102_isolate(self):
        made = self.preview({
            **check_samples.DEDICATED, 'hw:cpu_thread_policy': 'isolate'})
        self.assertIs(model.Reason.ISOLATE_ON_THREADS, made.refusal.reason)

    def test_p103_stranded_sibling(self):
        domain = self.dedicated({'hw:emulator_threads_policy': 'isolate'})
        taken = {int(pin.get('cpuset'))
                 for pin in domain.iterfind('cputune/vcpupin')}
        taken.add(int(domain.find('cputune/emulatorpin').get('cpuset')))
        # Cores are pairs of neighbours here.
        left = {cpu ^ 1 for cpu in taken} - taken
        self.assertEqual((9, 1), (len(taken), len(left)))

    def test_p104_emulator_policy_on_shared(self):
        policy = {'hw:emulator_threads_policy': 'share'}
        self.assertIsNone(self.shared(policy).find('cputune/emulatorpin'))
        host = check_samples.host(
            shared='0-7,36-43,66-67', dedicated='8-35,44-65,68-71', traits=())
        domain = self.shared({**policy, 'hw:numa_nodes': '2',
                              'hw:mem_page_size': 'large'}, host=host)
        self.assertEqual(
            '0-7,36-43,66-67',
            domain.find('cputune/emulatorpin').get('cpuset'))

    def test_p105_no_topology(self):
        domain = self.dedicated(without=_TOPOLOGY)
        self.assertEqual([8, 1, 1], self.topology(domain))

    def test_p107_topology_dropped(self):
        self.assertNotEqual(3, self.topology(
            self.dedicated({'hw:cpu_cores': '3'}))[1])

    def test_p108_false_threads(self):
        domain = self.shared({'hw:cpu_threads': '2'})
        self.assertEqual(2, self.topology(domain)[2])
        self.assertIsNone(domain.find('cputune/vcpupin'))

    def test_p109_hidden_threads(self):
        domain = self.dedicated(without=('hw:cpu_threads', 'hw:cpu_cores'))
        self.assertEqual([1, 8, 1], self.topology(domain))

    def test_p110_unread_realtime_mask(self):
        mask = {'hw:cpu_realtime_mask': '^0-1'}
        self.assertIsNone(self.dedicated(mask).find('cputune/vcpusched'))
        domain = self.dedicated({**mask, 'hw:cpu_realtime': 'yes'})
        self.assertEqual(
            {'2', '3', '4', '5', '6', '7'},
            {vcpu for one in domain.iterfind('cputune/vcpusched')
             for vcpu in _ids(one.get('vcpus'))})

    def test_p113_policy_left_to_image(self):
        domain = self.shared(without=('hw:cpu_policy',),
                             image={'hw_cpu_policy': 'dedicated'})
        self.assertIsNotNone(domain.find('cputune/vcpupin'))

    def test_p114_image_policy_overruled(self):
        domain = self.dedicated(image={'hw_cpu_policy': 'shared'})
        self.assertIsNotNone(domain.find('cputune/vcpupin'))

    def test_p203_pages_without_numa(self):
        self.assertIsNone(self.shared().find('numatune'))
        domain = self.shared({'hw:mem_page_size': 'large'})
        self.assertEqual(1, len(domain.findall('numatune/memnode')))

    def test_p204_unread_cells(self):
        domain = self.shared({'hw:numa_cpus.0': '0-7'})
        self.assertIsNone(domain.find('cpu/numa'))

    def test_p205_cell_beyond(self):
        domain = self.dedicated({'hw:numa_nodes': '2',
                                 'hw:numa_mem.3': '1024'})
        self.assertEqual(2, len(domain.findall('cpu/numa/cell')))

    def test_p208_realtime_locks_memory(self):
        for more in ({}, {'hw:locked_memory': 'no'}):
            domain = self.dedicated({**_REALTIME, **more})
            self.assertIsNotNone(domain.find('memoryBacking/locked'))

    def test_p209_unread_encryption_model(self):
        domain = self.shared({'hw:mem_encryption_model': 'amd-sev'})
        self.assertIsNone(domain.find('launchSecurity'))

    def test_p303_affinity_without_numa(self):
        alone = check_samples.host(dedicated=None, devices=[('nvme', 1)],
                                   traits=())
        domain = self.shared({'pci_passthrough:alias': 'nvme:1',
                              'hw:pci_numa_affinity_policy': 'required'},
                             host=alone)
        self.assertIsNone(domain.find('numatune'))
        self.assertIsNotNone(domain.find('devices/hostdev'))

    def test_p304_tpm_without_version(self):
        domain = self.shared({'hw:tpm_model': 'tpm-crb'})
        self.assertIsNone(domain.find('devices/tpm'))

    def test_p305_queues_for_one(self):
        domain = self.shared({'hw:vif_multiqueue_enabled': 'yes'}, vcpus=1)
        driver = domain.find('devices/interface/driver')
        self.assertIsNone(None if driver is None else driver.get('queues'))

    def test_p401_shares_out_of_range(self):
        domain = self.shared({'quota:cpu_shares': '10001'})
        self.assertEqual('10001', domain.findtext('cputune/shares'))

    def test_p402_cap_out_of_range(self):
        domain = self.shared({'quota:cpu_period': '999',
                              'quota:cpu_quota': '1'})
        self.assertEqual('999', domain.findtext('cputune/period'))
        self.assertEqual('1', domain.findtext('cputune/quota'))

    def test_p405_burst_without_average(self):
        burst = {'quota:vif_inbound_burst': '10'}
        self.assertIsNone(
            self.shared(burst).find('devices/interface/bandwidth'))
        other = {**burst, 'quota:vif_outbound_average': '10'}
        found = self.shared(other).find('devices/interface/bandwidth')
        self.assertEqual(['outbound'], [one.tag for one in found])

    def test_p406_total_and_single(self):
        domain = self.shared({'quota:disk_total_iops_sec': '10',
                              'quota:disk_read_iops_sec': '5'})
        self.assertEqual(
            {'total_iops_sec', 'read_iops_sec'},
            {one.tag for one in domain.find('devices/disk/iotune')})

    def test_p407_vmware_only(self):
        domain = self.shared({'quota:cpu_limit': '1000'})
        self.assertIsNone(domain.find('cputune'))

    def test_p604_no_shared_set(self):
        policy = {'hw:emulator_threads_policy': 'share'}
        domain = self.dedicated(policy, host=_WITHOUT_SHARED_SET)
        own = {pin.get('cpuset')
               for pin in domain.iterfind('cputune/vcpupin')}
        self.assertEqual(
            own, set(_ids(domain.find('cputune/emulatorpin').get('cpuset'))))
        made = self.preview({**check_samples.DEDICATED, **policy, **_REALTIME},
                            host=_WITHOUT_SHARED_SET)
        self.assertIsNotNone(made.refusal)


class FitTest(unit_base.TestCase):

    @unit_base.settings(60)
    @hypothesis.given(
        test_checks.SENSIBLE_SPECS,
        strategies.sampled_from((1, 2, 4, 8, 16)),
        strategies.sampled_from(test_checks.HOSTS))
    @hypothesis.example(
        {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0'}, 2,
        test_checks.HOSTS[2])
    @hypothesis.example(
        {'hw:cpu_policy': 'dedicated',
         'pci_passthrough:alias': 'nvme:1,nvme:1'}, 2,
        check_samples.host(devices=[('nvme', 0)]))
    # To nova devices of one product are alike, whatever a file calls them.
    @hypothesis.example(
        {'hw:cpu_policy': 'dedicated', 'pci_passthrough:alias': 'nvme:2'}, 2,
        check_samples.host(devices=[('nvme', 0), ('gpu', 0)]))
    def test_hosts_fit_as_in_a_preview(self, specs, vcpus, host):
        """Where P601 sees no way, neither does nova's own code."""
        flavor = check_samples.flavor(
            {key: value for key, value in specs.items()
             if not key.startswith(('resources', 'hw:mem_encryption'))},
            vcpus=vcpus)
        with nova_judgement.judging([flavor]) as judge:
            judgement = judge(flavor)
        hypothesis.assume(judgement.is_accepted)
        subject = checked.CheckedFlavor(flavor, {}, judgement.guest, True,
                                        target.targets([host]))
        found = {one.code for one in flavor_check_run.RULES.run(subject)
                 if one.severity == 'error'}
        refusal = preview.preview_guest(flavor, {}, host).refusal
        hypothesis.assume(
            refusal is None or not refusal.reason.startswith('nova-'))
        fits = not {'P102', 'P601', 'P603'} & found
        self.assertEqual(refusal is None, fits, (found, refusal))


def _ids(text):
    for part in text.split(','):
        first, _dash, last = part.partition('-')
        yield from map(str, range(int(first), int(last or first) + 1))
