# SPDX-License-Identifier: Apache-2.0

import dataclasses
import re
import subprocess
import sys

import ddt
import hypothesis
from hypothesis import strategies
from nova import exception
from nova import objects
from nova.virt import hardware

from nova_pinning.bridge.offline import nova_judgement
from nova_pinning.document import schema
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors.checks import flavor_check_run
from nova_pinning.flavors.checks import guest_topology
from nova_pinning.flavors.checks import target
from nova_pinning.model import hostclass
from nova_pinning.tests.unit.flavors import check_samples
from nova_pinning.tests.unit.flavors.check_samples import GIB
from nova_pinning.tests.unit import unit_base


_NUMBER = strategies.integers(-1, 20).map(str)
_CPUS = strategies.sampled_from(
    ('0', '0-3', '^0', '^0-1', '2-7', '4-7', '0-7', '0-63', '9'))
_FLAG = strategies.sampled_from(('yes', 'no', 'True', '0', 'maybe'))
#: Values that mean something, by key.
SENSIBLE = {
    'hw:cpu_policy': strategies.sampled_from(
        ('dedicated', 'shared', 'mixed')),
    'hw:cpu_thread_policy': strategies.sampled_from(
        ('prefer', 'require', 'isolate')),
    'hw:emulator_threads_policy': strategies.sampled_from(
        ('share', 'isolate')),
    'hw:cpu_dedicated_mask': _CPUS,
    'hw:cpu_realtime': _FLAG,
    'hw:cpu_realtime_mask': _CPUS,
    'hw:locked_memory': _FLAG,
    'hw:mem_page_size': strategies.sampled_from(
        ('small', 'large', 'any', '2048', '1GB', '7', '2Mb')),
    'hw:numa_nodes': _NUMBER,
    'hw:numa_cpus.0': _CPUS,
    'hw:numa_cpus.1': _CPUS,
    'hw:numa_mem.0': _NUMBER,
    'hw:numa_mem.1': _NUMBER,
    'hw:cpu_sockets': _NUMBER,
    'hw:cpu_cores': _NUMBER,
    'hw:cpu_threads': _NUMBER,
    'hw:cpu_max_sockets': _NUMBER,
    'hw:cpu_max_threads': _NUMBER,
    'hw:pci_numa_affinity_policy': strategies.sampled_from(
        ('required', 'preferred', 'legacy', 'socket')),
    'hw:mem_encryption': _FLAG,
    'hw:vif_multiqueue_enabled': _FLAG,
    'pci_passthrough:alias': strategies.sampled_from(
        ('nvme:1', 'nvme:2,gpu:1', 'nvme', 'gpu:x', ',', 'a:1:2')),
    'quota:cpu_shares': _NUMBER,
    'quota:cpu_period': _NUMBER,
    'quota:cpu_quota': _NUMBER,
    'resources:PCPU': _NUMBER,
    'resources:VCPU': _NUMBER,
    'trait:HW_CPU_HYPERTHREADING': strategies.sampled_from(
        ('required', 'forbidden')),
    'trait:CUSTOM_PINNING_DEDICATED': strategies.sampled_from(
        ('required', 'forbidden')),
    'pinning:class': strategies.sampled_from(('dedicated', 'shared')),
}
SENSIBLE_SPECS = strategies.fixed_dictionaries({}, optional=SENSIBLE)
#: Anything under any of these keys, and under any other.
GARBAGE_SPECS = strategies.dictionaries(
    strategies.one_of(
        strategies.sampled_from(sorted(SENSIBLE)),
        strategies.text(max_size=20),
        strategies.builds('{}:{}'.format, strategies.sampled_from(
            ('hw', 'quota', 'trait', 'resources', 'pinning', 'hv')),
            strategies.text(max_size=10))),
    strategies.one_of(
        strategies.text(max_size=20), strategies.integers().map(str),
        strategies.from_regex(r'\A[0-9^,:-]{1,30}\Z')),
    max_size=8)
HOSTS = (
    check_samples.host(devices=[('nvme', 0), ('nvme', 1), ('gpu', None)]),
    check_samples.host('two', threads=1, shared='0-3', dedicated='4-35'),
    check_samples.host('three', dedicated=None, traits=()),
)


class CheckTest(unit_base.TestCase):

    def test_flavors_one_by_one_nova_first(self):
        bad = {'hw:numa_nodes': '3', 'trait:CUSTOM_PINNING_DEDICATED': 'x'}
        found = check_samples.check([
            check_samples.flavor({**check_samples.SHARED, **bad}, name='one'),
            check_samples.flavor({**check_samples.SHARED, **bad}, name='two')])
        self.assertEqual(
            [(name, code) for name in ('one', 'two')
             for code in ('N001', 'N003', 'P501')],
            [(one.name, one.code) for one in found])

    def test_where_an_extra_spec_comes_from(self):
        place = errors.Location('flavors.yaml', 9, 5, 'families.a.threads')
        specs = {**check_samples.SHARED, 'hw:cpu_threads': '2'}
        one, = check_samples.check([check_samples.flavor(
            specs, origins={'hw:cpu_threads': place})])
        self.assertEqual(place, one.location)

    def test_where_something_is_missing(self):
        flavor = check_samples.flavor({'hw:cpu_policy': 'shared'})
        one, = check_samples.check([flavor])
        self.assertEqual(flavor.where, one.location)

    def test_where_a_size_comes_from(self):
        place = errors.Location('flavors.yaml', 9, 5, 'sizes.large.vcpus')
        one, = check_samples.check([check_samples.flavor(
            check_samples.DEDICATED, origins={'vcpus': place})],
            [check_samples.host(nodes=1)])
        self.assertEqual(('P602', place), (one.code, one.location))

    def test_where_an_image_is_to_blame(self):
        one, = check_samples.check(
            [check_samples.flavor(check_samples.SHARED)],
            image_properties={'hw_numa_mem.0': '1024'})
        self.assertEqual(
            errors.Location('--image-property', key='hw_numa_mem.0'),
            one.location)

    def test_a_cloud(self):
        where = errors.Location('cloud a', key='flavor large')
        one, = check_samples.check([check_samples.flavor(
            {'hw:cpu_policy': 'shared'}, where=where)])
        self.assertEqual(where, one.location)

    def test_hosts_of_one_shape_are_told_together(self):
        one, = check_samples.check(
            [check_samples.flavor(check_samples.DEDICATED)],
            [check_samples.host(name, nodes=1) for name in ('a', 'b', 'c')])
        self.assertEqual(
            '4 guests on host a and 2 alike, 4 of 36 dedicated CPUs '
            '(11.1%) stay unsold: cell 0 has 4 free dedicated CPUs, 8 needed',
            one.message)

    def test_why_no_host(self):
        one, = check_samples.check(
            [check_samples.flavor(check_samples.DEDICATED)],
            [check_samples.host('a', cores=3),
             check_samples.host('b', traits=['CUSTOM_PINNING_SHARED']),
             check_samples.host('c', cores=3)])
        self.assertEqual(
            'fits none of the 3 hosts given; a and c: cells 0-1 have 6 '
            'dedicated CPUs in all, 8 needed; b: it has no trait '
            'CUSTOM_PINNING_DEDICATED, which is required', one.message)

    def test_which_cell_of_the_guest(self):
        found = check_samples.check([check_samples.flavor({
            **check_samples.DEDICATED, 'hw:numa_nodes': '2',
            'hw:numa_cpus.0': '0-1', 'hw:numa_cpus.1': '2-7',
            'hw:numa_mem.0': '8192', 'hw:numa_mem.1': '8192'})],
            [check_samples.host(cores=2, nodes=4)])
        self.assertEqual(
            ['does not fit on the host given; host1: for guest cell 1: cells '
             '0-3 have 4 dedicated CPUs in all, 6 needed'],
            [one.message for one in found if one.code == 'P601'])

    def test_pcpus_that_are_named_have_no_fallback(self):
        """Nova then asks for PCPU only, which such a host does not have."""
        legacy = check_samples.host(dedicated=None, traits=())
        for specs, is_found in (
                ({'hw:cpu_policy': 'dedicated'}, False),
                ({'resources:PCPU': '8'}, True)):
            codes = [one.code for one in check_samples.check(
                [check_samples.flavor({
                    'hw:mem_page_size': 'large', **specs})], [legacy])]
            self.assertEqual(is_found, 'P601' in codes)

    def test_traits_of_the_image_count(self):
        host = check_samples.host(cores=16)
        found = check_samples.check(
            [check_samples.flavor(check_samples.DEDICATED)], [host],
            {'trait:CUSTOM_GOLD': 'required'})
        self.assertEqual(['P601'], [one.code for one in found])

    def test_an_image_without_properties_is_not_any_image(self):
        wanted = check_samples.flavor({**check_samples.SHARED,
                                       'hw:mem_encryption': 'true'})
        self.assertEqual([], check_samples.check([wanted]))
        self.assertEqual(['N004'], [
            one.code for one in check_samples.check(
                [wanted], image_properties={})])

    def test_smaller_sizes_fill_what_is_left(self):
        host = check_samples.host(nodes=1)
        sizes = [check_samples.flavor(
            {**check_samples.DEDICATED, 'hw:cpu_cores': str(vcpus // 2),
             'pinning:family': family},
            name=f'{family}.{vcpus}', vcpus=vcpus, memory_mib=vcpus * GIB)
            for family, all_sizes in (('a', (8, 4, 2)), ('b', (8,)))
            for vcpus in all_sizes]
        found = check_samples.check(sizes, [host])
        self.assertEqual([('P602', 'b.8')],
                         [(one.code, one.name) for one in found])

    def test_host_cells_that_differ_are_told_up_to_three(self):
        host = check_samples.host(nodes=5, dedicated='0,36-37,72-74,108-111,'
                                  '144-148')
        one, _divided = check_samples.check(
            [check_samples.flavor(check_samples.DEDICATED)], [host])
        self.assertEqual(3, one.message.count('8 needed'))
        self.assertTrue(one.message.endswith('; and so on'), one.message)

    def test_an_image_property_that_there_is_not(self):
        error = self.assertRaises(
            errors.InputErrors, check_samples.check, [],
            image_properties={'hw_cpu_polcy': 'shared', 'hw_numa_nodes': 'x'})
        self.assertEqual(
            ['--image-property: hw_cpu_polcy: nova knows no image property '
             'hw_cpu_polcy; did you mean hw_cpu_policy?',
             "--image-property: hw_numa_nodes: hw_numa_nodes=x cannot be "
             "used: ValueError: invalid literal for int() with base 10: 'x'"],
            list(map(str, error.errors)))

    def test_nova_is_handed_in(self):
        script = ('import sys\n'
                  'from nova_pinning.flavors.checks import '
                  'flavor_check_run\n'
                  'sys.exit(bool({"nova", "nova_pinning.bridge"} '
                  '& set(sys.modules)))')
        subprocess.run([sys.executable, '-c', script], check=True)

    @unit_base.settings(60)
    @hypothesis.given(
        GARBAGE_SPECS, strategies.integers(1, 5000),
        strategies.integers(1, 1 << 20))
    def test_never_raises(self, specs, vcpus, memory_mib):
        flavor = check_samples.flavor(specs, vcpus=vcpus,
                                      memory_mib=memory_mib)
        for one in check_samples.check([flavor], HOSTS):
            self.assertIn(one.code, flavor_check_run.RULES)
            self.assertNotIn('\n', one.message)

    @unit_base.settings(100)
    @hypothesis.given(
        SENSIBLE_SPECS, strategies.integers(1, 16),
        strategies.sampled_from((1, 4096, 16384)))
    def test_never_raises_on_what_makes_sense(self, specs, vcpus, memory):
        flavor = check_samples.flavor(specs, vcpus=vcpus, memory_mib=memory)
        check_samples.check([flavor], HOSTS)


@ddt.ddt
class SubjectTest(unit_base.TestCase):
    """What is worked out without nova is what nova makes of it."""

    @unit_base.settings(150)
    @hypothesis.given(SENSIBLE_SPECS)
    def test_policies(self, specs):
        flavor = check_samples.flavor(specs)
        with nova_judgement.judging([flavor]) as judge:
            judgement = judge(flavor)
        guest = judgement.guest
        subject = checked.CheckedFlavor(flavor)
        if guest:
            self.assertEqual(guest.cpu_policy, subject.cpu_policy)
            self.assertEqual(guest.thread_policy, subject.thread_policy)
        elif judgement.is_accepted:
            self.assertFalse(subject.is_pinned)

    @ddt.data('yes', 'YES ', 'on', '1', 't', 'y', 'true', 'no', '', 'maybe',
              '2', 'off', None)
    def test_flags(self, text):
        flavor = {'extra_specs': {'hw:cpu_realtime': text}}
        self.assertEqual(hardware.is_realtime_enabled(flavor),
                         checked.is_true(text))

    def test_devices(self):
        subject = checked.CheckedFlavor(check_samples.flavor(
            {'pci_passthrough:alias': 'nvme:2, gpu:1'}))
        self.assertEqual((('nvme', 2), ('gpu', 1)), subject.devices)


class GuestTopologyTest(unit_base.TestCase):

    @unit_base.settings(150)
    @hypothesis.given(
        strategies.integers(1, 24),
        strategies.dictionaries(strategies.sampled_from(
            [f'hw:cpu_{kind}{name}' for kind in ('', 'max_')
             for name in ('sockets', 'cores', 'threads')]),
            strategies.integers(0, 13).map(str)),
        strategies.dictionaries(strategies.sampled_from(
            [f'hw_cpu_{kind}{name}' for kind in ('', 'max_')
             for name in ('sockets', 'cores', 'threads')]),
            strategies.integers(0, 13).map(str), max_size=2))
    def test_as_nova(self, vcpus, specs, properties):
        image = nova_judgement.image_meta(properties)
        flavor = objects.Flavor(vcpus=vcpus, extra_specs=specs)
        wish = guest_topology.topology_constraints(checked.CheckedFlavor(
            check_samples.flavor(specs, vcpus=vcpus), properties))
        got = guest_topology.choose(vcpus, wish.preferred, wish.limits)
        try:
            nova = hardware.get_best_cpu_topology(flavor, image)
        except exception.ImageVCPULimitsRangeImpossible:
            self.assertIsNone(got)
        except (exception.ImageVCPULimitsRangeExceeded,
                exception.ImageVCPUTopologyRangeExceeded):
            # Refused before there is anything to choose.
            pass
        else:
            self.assertEqual((nova.sockets, nova.cores, nova.threads), got)


class FillTest(unit_base.TestCase):

    def order(self, specs=check_samples.DEDICATED, **values):
        flavor = check_samples.flavor(specs, **values)
        with nova_judgement.judging([flavor]) as judge:
            guest = judge(flavor).guest
        return checked.CheckedFlavor(flavor, guest=guest).request

    def fill(self, host, **values):
        return target.targets([host])[0].fill(self.order(**values))

    def test_by_cpus(self):
        filled = self.fill(check_samples.host())
        self.assertEqual((8, 8), (filled.guests, filled.unsold))
        self.assertFalse(filled.has_cpus)

    def test_by_pages(self):
        filled = self.fill(check_samples.host(memory_gib=48))
        self.assertEqual((4, 40), (filled.guests, filled.unsold))
        self.assertTrue(filled.has_cpus)

    def test_by_the_memory_that_placement_gives(self):
        filled = self.fill(check_samples.host(
            nodes=1, memory_gib=80, reserved_memory_mib=40 * 1024))
        self.assertEqual((2, 20), (filled.guests, filled.unsold))
        self.assertIn('Placement', filled.why)

    def test_isolated_emulator_threads_take_a_cpu(self):
        filled = self.fill(check_samples.host(nodes=1), specs={
            **check_samples.DEDICATED,
            'hw:emulator_threads_policy': 'isolate'})
        self.assertEqual((4, 0), (filled.guests, filled.unsold))

    def test_shared_cpus_of_mixed_guests(self):
        filled = self.fill(
            check_samples.host(nodes=1, shared='0-3', dedicated='4-35',
                               cpu_allocation_ratio=2.0),
            specs={**check_samples.DEDICATED, 'hw:cpu_policy': 'mixed',
                   'hw:cpu_dedicated_mask': '4-7'})
        self.assertEqual((2, 24), (filled.guests, filled.unsold))
        self.assertTrue(filled.has_cpus)

    def test_cpus_of_one_cell_are_not_enough(self):
        filled = self.fill(
            check_samples.host(dedicated='0-47'), specs={
                **check_samples.DEDICATED, 'hw:numa_nodes': '2',
                'hw:cpu_sockets': '2', 'hw:cpu_cores': '5'},
            vcpus=20, memory_mib=16 * 1024)
        self.assertEqual((1, 28), (filled.guests, filled.unsold))
        self.assertFalse(filled.has_cpus)

    def test_advice_is_about_what_runs_out(self):
        for host, words in (
                (check_samples.host(nodes=1), 'divides the dedicated CPUs'),
                (check_samples.host(memory_gib=48), 'less of what runs out')):
            found, = check_samples.check(
                [check_samples.flavor(check_samples.DEDICATED)], [host])
            self.assertEqual('P602', found.code)
            self.assertIn(words, found.advice)

    def test_threads_that_isolate_leaves_empty(self):
        # Where no CPUs are set aside, isolate keeps cores to itself.
        filled = self.fill(
            check_samples.host(nodes=1, dedicated=None),
            specs={
                **check_samples.DEDICATED, 'hw:cpu_thread_policy': 'isolate'})
        self.assertEqual((2, 4), (filled.guests, filled.unsold))

    def test_memory_of_the_node_with_the_devices(self):
        """The guest fits the host, but not where its devices are."""
        large = check_samples.host(devices=[('nvme', 1)])
        nodes = (large.nodes[0],
                 dataclasses.replace(large.nodes[1], huge_pages={1048576: 8}))
        found, = (found for found in check_samples.check(
            [check_samples.flavor({
                **check_samples.DEDICATED,
                'pci_passthrough:alias': 'nvme:1'})],
            [dataclasses.replace(large, nodes=nodes)])
            if found.code == 'P601')
        self.assertIn('alias nvme: 1 wanted, 1 free of 1 (node 1: 1 of 1); '
                      'near these cell 1 has', found.message)

    def test_devices_are_used_up(self):
        filled = self.fill(
            check_samples.host(devices=[('nvme', 0)] * 3),
            specs={
                **check_samples.DEDICATED, 'pci_passthrough:alias': 'nvme:1',
                'hw:pci_numa_affinity_policy': 'required'})
        self.assertEqual(3, filled.guests)
        self.assertIn('alias nvme: 1 wanted, 0 free of 3', filled.why)


@ddt.ddt
class DevicesTest(unit_base.TestCase):

    def test_devices_that_serve_the_host(self):
        host, = target.targets([check_samples.host(
            devices=[('', 0), ('nvme', 0), ('nvme', 0), ('nvme', None)])])
        self.assertEqual(
            [(0, 2), (None, 1)],
            [(pool.numa_node, pool.total) for pool in host.host.pci_pools])

    def test_an_alias_twice(self):
        """Nova makes two requests of it, which do not share devices."""
        for specs, count, codes in (
                (check_samples.DEDICATED, 1, ['P601']),
                (check_samples.DEDICATED, 2, []),
                (check_samples.SHARED, 1, ['P601']),
                (check_samples.SHARED, 2, [])):
            flavor = check_samples.flavor({
                **specs, 'pci_passthrough:alias': 'nvme:1,nvme:1'})
            host = check_samples.host(
                nodes=1, devices=[('nvme', 0)] * count, shared='18-35',
                dedicated='0-17',
                traits=() if specs is check_samples.SHARED else (
                    'CUSTOM_PINNING_DEDICATED',))
            self.assertEqual(codes, [
                one.code for one in check_samples.check([flavor], [host])
                if one.code == 'P601'])

    @ddt.data(
        ('nvme-switch-0:2', 'required', []),
        ('nvme-switch-1:2', 'required', ['P601']),
        ('nvme-switch-1:3', 'legacy', ['P601']),
        ('nvme-switch-1:2', 'preferred', []), ('nvme:4', 'preferred', []),
        ('nvme-switch-7:1', 'legacy', ['P601']))
    @ddt.unpack
    def test_groups(self, alias, policy, codes):
        """Two of switch 0 on one node, and of switch 1 one on each."""
        host = check_samples.host(devices=[('nvme', 0)] * 3 + [('nvme', 1)])
        host = dataclasses.replace(host, pci_devices=tuple(
            dataclasses.replace(
                device, resource_class='CUSTOM_NVME',
                traits=(f'CUSTOM_NVME_SWITCH_{number // 2}',))
            for number, device in enumerate(host.pci_devices)))
        flavor = check_samples.flavor({
            **check_samples.DEDICATED, 'pci_passthrough:alias': alias,
            'hw:pci_numa_affinity_policy': policy})
        self.assertEqual(codes, [
            one.code for one in check_samples.check([flavor], [host])
            if one.code in ('P601', 'P606')])

    def test_devices_of_one_product(self):
        """To nova they are alike, whatever a host file calls them."""
        flavor = check_samples.flavor({**check_samples.DEDICATED,
                                       'pci_passthrough:alias': 'nvme:2'})
        host = check_samples.host(devices=[('nvme', 0), ('gpu', 0)])
        self.assertNotIn('P601', [
            one.code for one in check_samples.check([flavor], [host])])

    def test_floating_guests_take_any(self):
        flavor = check_samples.flavor({**check_samples.SHARED,
                                       'pci_passthrough:alias': 'nvme:2'})
        host = check_samples.host(dedicated=None, traits=(),
                                  devices=[('nvme', 1), ('nvme', None)])
        self.assertNotIn('P601', [
            one.code for one in check_samples.check([flavor], [host])])


class GuestClassTest(unit_base.TestCase):

    @unit_base.settings(100)
    @hypothesis.given(strategies.dictionaries(
        strategies.sampled_from((
            'hw:cpu_policy', 'resources:PCPU', 'resources_CPUS:PCPU',
            'resources12:PCPU', 'pinning:class')),
        strategies.sampled_from(
            ('dedicated', 'shared', 'mixed', 'Shared ', '0', '4'))))
    def test_as_the_filter_takes_it(self, specs):
        """Or as if the flavor did not name it, where it names nonsense."""
        subject = checked.CheckedFlavor(check_samples.flavor(specs))
        try:
            expected = hostclass.class_of_guest(specs)
        except hostclass.UnknownClass:
            del specs['pinning:class']
            expected = hostclass.class_of_guest(specs)
        self.assertEqual(expected, subject.host_class)


@ddt.ddt
class InCatalogueTest(unit_base.TestCase):
    """Advice in the words of what the flavor was read from."""

    TEXT = ('version: 2\nname: n\nfamilies:\n  f:\n    class: dedicated\n'
            '    sizes: {s: {vcpus: 4, memory: 4GiB}}\n')

    def test_by_source(self):
        flavor, = catalogue.parse(self.TEXT, 'f.yaml').flavors
        live = dataclasses.replace(
            flavor, where=errors.Location('cloud c: flavor f.s'), origins={})
        # Of another tool's file, which has lines, but no such words.
        foreign = dataclasses.replace(flavor, extra_specs={
            'hw:cpu_policy': 'dedicated'}, origins={})
        for one, words in ((flavor, 'cpu_topology: match-host'),
                           (live, 'set hw:cpu_sockets'),
                           (foreign, 'set hw:cpu_sockets')):
            told = {found.code: found.advice
                    for found in check_samples.check([one])}
            self.assertIn(words, told['P105'])

    def test_cells_that_differ_cannot_have_a_socket_each(self):
        """Nobody is told to write what stands there."""
        flavor, = catalogue.parse(self.TEXT.replace(
            'class:', 'page_size: large\n    cpu_topology: match-host\n'
            '    numa_nodes: 2\n    class:').replace(
                'vcpus: 4', 'vcpus: 5'), 'f.yaml').flavors
        found, = (found for found in check_samples.check([flavor])
                  if found.code == 'P115')
        self.assertEqual('note', found.severity)
        self.assertNotIn('match-host', found.advice)

    @ddt.data(('P105', 'require', ''), ('P108', 'prefer', '{threads: 2}'),
              ('P109', 'require', '{threads: 1}'))
    @ddt.unpack
    def test_interleaved_cells_match_no_host(self, code, policy, topology):
        """Nobody is told to write what would be refused."""
        own = f'    cpu_topology: {topology}\n' * bool(topology)
        text = self.TEXT.replace('class:', (
            f'page_size: large\n{own}    thread_policy: {policy}\n'
            "    numa_nodes: [{vcpus: '0-1,4-5', memory: 2GiB},"
            " {vcpus: '2-3,6-7', memory: 2GiB}]\n    class:")).replace(
                'vcpus: 4,', 'vcpus: 8,')
        flavor, = catalogue.parse(text, 'f.yaml').flavors
        found, = (found for found in check_samples.check([flavor])
                  if found.code == code)
        self.assertIn('follow each other', found.advice)
        self.assertRaises(
            errors.InputError, catalogue.parse, text.replace(own, '').replace(
                'page_size: large',
                'page_size: large\n    cpu_topology: match-host'), 'f')

    def test_only_words_that_a_catalogue_has(self):
        properties = schema.shipped(
            catalogue.__package__, 'catalogue-2.json')[
                '$defs']['family']['properties']
        known = {*properties, 'forbidden', 'required', 'vcpus', 'hw:pmu'}
        for one in flavor_check_run.RULES.values():
            self.assertLessEqual(
                set(re.findall(r'([\w:]+): ', one.in_catalogue)), known,
                one.code)
