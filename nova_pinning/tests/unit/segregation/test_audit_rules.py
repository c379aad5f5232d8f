# SPDX-License-Identifier: Apache-2.0
"""What the rules find in a cloud, and that their commands fix it."""

import dataclasses
import pathlib

import ddt
import fixtures
import hypothesis

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import host_model
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import placement_traits
from nova_pinning.segregation.audit import audit_run
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation.audit import scheduler_options
from nova_pinning.tests.unit.segregation import audit_cloud
from nova_pinning.tests.unit import unit_base

DEDICATED, SHARED = audit_cloud.DEDICATED, audit_cloud.SHARED
L3 = (placement_traits.l3_trait(8), placement_traits.l3_trait(16))
PINNED = {'hw:cpu_policy': 'dedicated'}


def view(*hosts, aggregates=(), flavors=(), offers=None, packs_cells=None,
         **changes):
    """A cloud in which all but what is given is in order."""
    cloud = audit_cloud.FakeCloud(hosts, flavors=flavors,
                                  aggregates=aggregates)
    cloud.offers.update(offers or {})
    settings = {name: changes.pop(name) for name in (
        'scheduler', 'descriptions', 'configs', 'emulator_cpus')
        if name in changes}
    return audited.AuditedCloud(
        settings=audited.AuditSettings(**{
            'scheduler': audited.SchedulerOptions(packs_cells), **settings}),
        **{'hosts': cloud.hosts(), 'aggregates': tuple(aggregates),
           'flavors': tuple(flavors), 'inventories': cloud.offers,
           'members': {aggregate.uuid: cloud.members(aggregate)
                       for aggregate in aggregates if aggregate.isolated_for},
           'known_traits': frozenset(placement_traits.TRAIT_OF.values()),
           **changes})


def runs(*names, observes=False):
    """Filters that nova-scheduler runs."""
    return audited.SchedulerOptions(False, names, observes)


def findings(seen):
    return list(audit_run.RULES.run(seen))


def packs(**hosts):
    """Host files that say in which order hosts take NUMA cells."""
    return {name: host_model.HostDescription(
        name, (), nova=host_model.NovaSettings(packs_cells=packs_cells))
        for name, packs_cells in hosts.items()}


def dedicated(name='d', *more, **changes):
    return audit_cloud.host(name, placement_traits.DEDICATED, *more, **changes)


def shared(name='s', *more, **changes):
    return audit_cloud.host(name, placement_traits.SHARED, *more, **changes)


def of_both(name='a'):
    return dedicated(name, placement_traits.SHARED)


EMULATOR = audit_cloud.flavor('e', {
    **audit_cloud.DEDICATED_SPECS, 'hw:emulator_threads_policy': 'share'})
MIXED = audit_cloud.flavor('x', {
    **audit_cloud.DEDICATED_SPECS, 'hw:cpu_policy': 'mixed'})
BOTH = audit_cloud.inventories(PCPU=6, VCPU=2)


@ddt.ddt
class TestFindings(unit_base.TestCase):

    @ddt.data(
        ('', view()),
        ('', view(dedicated(), shared())),
        # Flavors.
        ('', view(flavors=[
            audit_cloud.flavor('a', audit_cloud.SHARED_SPECS),
            audit_cloud.flavor('b', {audit_cloud.SHARED_KEY: 'required'}),
            audit_cloud.flavor('c', audit_cloud.DEDICATED_SPECS),
            audit_cloud.flavor('d', {'resources:VCPU': '0'})])),
        ('S201', view(flavors=[audit_cloud.flavor('a', PINNED)])),
        ('S201', view(flavors=[audit_cloud.flavor('a', {
            'resources:PCPU': '1'})])),
        ('S201', view(flavors=[audit_cloud.flavor('a', {
            'pinning:class': 'dedicated'})])),
        ('S202', view(flavors=[audit_cloud.flavor('a')])),
        ('S202', view(dedicated(), flavors=[audit_cloud.flavor('a')])),
        ('S203', view(flavors=[audit_cloud.flavor('a', {
            **audit_cloud.DEDICATED_SPECS,
            audit_cloud.SHARED_KEY: 'required'})])),
        ('S203', view(flavors=[audit_cloud.flavor('a', {
            **audit_cloud.SHARED_SPECS,
            audit_cloud.SHARED_KEY: 'forbidden'})])),
        ('S203', view(flavors=[audit_cloud.flavor('a', {
            **PINNED, audit_cloud.DEDICATED_KEY: 'forbidden'})])),
        ('S203', view(flavors=[audit_cloud.flavor('a', {
            audit_cloud.SHARED_KEY: 'forbidden'})])),
        ('S204', view(flavors=[audit_cloud.flavor('a', {
            **PINNED, **audit_cloud.SHARED_SPECS,
            'pinning:class': 'shared'})])),
        ('S204', view(flavors=[audit_cloud.flavor('a', {
            **PINNED, 'pinning:class': 'shared'})])),
        ('S205', view(flavors=[audit_cloud.flavor('a', {
            **audit_cloud.SHARED_SPECS, 'pinning:class': 'x'})])),
        ('', view(flavors=[audit_cloud.flavor('a', {
            **audit_cloud.SHARED_SPECS, 'trait:CUSTOM_A': 'any',
            'trait:HW_CPU_X86_AVX': 'required'})])),
        ('S206', view(flavors=[audit_cloud.flavor('a', {
            **audit_cloud.SHARED_SPECS, 'trait_nic:CUSTOM_A': 'required'})])),
        ('S206', view(known_traits=frozenset(), flavors=[
            audit_cloud.flavor('a', audit_cloud.SHARED_SPECS)])),
        ('', view(dedicated(), offers={'rp-d': BOTH}, emulator_cpus=2)),
        # What marks a host.
        ('S301', view(of_both())),
        ('S302', view(audit_cloud.host('a'))),
        ('', view(shared(), aggregates=[audit_cloud.aggregate('x', 's')])),
        ('S303', view(dataclasses.replace(shared(), traits=None))),
        ('S301', view(shared(), aggregates=[
            audit_cloud.aggregate('x', 's', pinning_class='dedicated')])),
        ('S301', view(audit_cloud.host('a'), aggregates=[
            audit_cloud.aggregate('x', 'a', pinning_class='dedicated'),
            audit_cloud.aggregate('y', 'a', pinning_class='shared')])),
        ('S301', view(of_both(), aggregates=[
            audit_cloud.aggregate('x', 'a', pinning_class='dedicated')])),
        ('', view(shared('s', L3[0]))),
        ('S305', view(shared('s', *L3))),
        # Aggregates.
        ('', view(shared(), aggregates=[
            audit_cloud.aggregate('x', 's', pinning_class='Shared ')])),
        ('S401', view(shared(), aggregates=[
            audit_cloud.aggregate('x', 's', pinning_class='neither')])),
        ('S402', view(audit_cloud.host('a'), aggregates=[
            audit_cloud.isolating('x', SHARED, 'a')])),
        ('S402', view(audit_cloud.host('a'), aggregates=[
            audit_cloud.aggregate('x', 'a', pinning_class='shared')])),
        ('S403', view(dedicated('a'), dedicated('b'), aggregates=[
            audit_cloud.isolating('x', DEDICATED, 'a')])),
        ('', view(dedicated('a'), dedicated('b'), aggregates=[
            audit_cloud.isolating('x', DEDICATED, 'a'),
            audit_cloud.isolating('y', DEDICATED, 'b')])),
        # Nobody gets into this one, which is told once there are hosts in it.
        ('', view(dedicated(), aggregates=[dataclasses.replace(
            audit_cloud.aggregate('x'), metadata={
                audit_cloud.DEDICATED_KEY: 'required',
                audit_cloud.SHARED_KEY: 'required'})])),
        ('S404', view(shared(), members={'uuid-x': frozenset()}, aggregates=[
            audit_cloud.isolating('x', SHARED, 's')])),
        ('S303', view(
            dataclasses.replace(shared(), traits=None),
            members={'uuid-x': frozenset()},
            aggregates=[audit_cloud.isolating('x', SHARED, 's')])),
        ('S405', view(shared(), dedicated(), aggregates=[
            audit_cloud.isolating('x', SHARED, 's')],
            members={'uuid-x': {'rp-s', 'rp-d', 'another'}})),
        # Inventories.
        ('S501', view(dedicated(), offers={
            'rp-d': audit_cloud.inventories()})),
        ('S501', view(dedicated(), offers={
            'rp-d': audit_cloud.inventories(PCPU=0)})),
        ('S501', view(dedicated(), offers={
            'rp-d': audit_cloud.inventories(VCPU=9)})),
        ('S502', view(shared(), offers={'rp-s': audit_cloud.inventories()})),
        ('S502', view(shared(), offers={
            'rp-s': audit_cloud.inventories(PCPU=2)})),
        ('S503', view(shared(), offers={'rp-s': BOTH})),
        ('', view(dedicated(), inventories={})),
        ('S504', view(dedicated(), offers={'rp-d': BOTH})),
        ('S504', view(dedicated(), offers={'rp-d': BOTH}, flavors=[
            EMULATOR], emulator_cpus=1)),
        ('', view(dedicated(), offers={'rp-d': BOTH}, flavors=[
            EMULATOR], emulator_cpus=2)),
        ('', view(dedicated(), offers={'rp-d': BOTH}, flavors=[MIXED])),
        ('S505', view(shared(), offers={'rp-s': audit_cloud.inventories(
            VCPU=1, PCPU=client.ProviderInventory(0, 0, 2.0))})),
        ('S505', view(dedicated(), offers={'rp-d': audit_cloud.inventories(
            PCPU=client.ProviderInventory(8, 0, 0.5))})),
        ('S506', view(dedicated(), flavors=[MIXED], offers={
            'rp-d': audit_cloud.inventories(
                PCPU=8, VCPU=client.ProviderInventory(2, 0, 1.5))})),
        ('', view(shared(), offers={'rp-s': audit_cloud.inventories(
            VCPU=client.ProviderInventory(2, 0, 16.0),
            MEMORY_MB=client.ProviderInventory(2, 0, 1.5))})),
        ('S507', view(dedicated(), offers={'rp-d': audit_cloud.inventories(
            PCPU=8, MEMORY_MB=client.ProviderInventory(2, 0, 1.5))})),
        # The order of NUMA cells.
        ('', view(shared(), aggregates=[
            audit_cloud.packing('x', 'True', 's'),
            audit_cloud.packing('y', ' yes', 's'),
            audit_cloud.packing('z', 'no')])),
        ('S701', view(shared(), aggregates=[
            audit_cloud.packing('x', '', 's')])),
        ('S701', view(aggregates=[audit_cloud.packing('x', 'pack')])),
        ('S702', view(shared(), packs_cells=True, aggregates=[
            audit_cloud.packing('x', 'on', 's'),
            audit_cloud.packing('y', 'off', 's')])),
        ('', view(shared(), dedicated(), packs_cells=True,
                  descriptions=packs(s=True, gone=False))),
        ('', view(shared(), descriptions=packs(s=True))),
        ('', view(shared(), packs_cells=True, descriptions=packs(s=None))),
        ('S703', view(shared(), packs_cells=True,
                      descriptions=packs(s=False))),
        # An aggregate outweighs the option.
        ('', view(shared(), packs_cells=True, descriptions=packs(s=False),
                  aggregates=[audit_cloud.packing('x', '0', 's')])),
        ('S703', view(shared(), packs_cells=True, descriptions=packs(s=True),
                      aggregates=[audit_cloud.packing('x', '0', 's')])),
        ('S703', view(shared(), descriptions=packs(s=True),
                      aggregates=[audit_cloud.packing('x', '0', 's')])),
        # But not one that tells nothing.
        ('S701 S703', view(
            shared(), packs_cells=True, descriptions=packs(s=False),
            aggregates=[audit_cloud.packing('x', 'spread', 's')])),
        ('S702 S703', view(
            shared(), packs_cells=True, descriptions=packs(s=False),
            aggregates=[audit_cloud.packing('x', '0', 's'),
                        audit_cloud.packing('y', '1', 's')])),
        ('S702', view(
            shared(), descriptions=packs(s=False),
            aggregates=[audit_cloud.packing('x', '0', 's'),
                        audit_cloud.packing('y', '1', 's')])),
        # The order of filters.
        ('', view(scheduler=runs('A', 'PinnedTopologyFilter'))),
        ('', view(scheduler=runs('PinnedTopologyFilter', 'A',
                                 observes=True))),
        ('S801', view(scheduler=runs('PinnedTopologyFilter', 'A'))),
        ('S802', view(dedicated(), scheduler=audited.SchedulerOptions(
            multipliers={'RAMWeigher': 0.5}))),
        *((code, view(dedicated(), flavors=(audit_cloud.flavor('n', {
            **audit_cloud.DEDICATED_SPECS, **devices}),),
            scheduler=audited.SchedulerOptions(multipliers={
                **pci, 'FragmentationWeigher': 8.0,
                'CacheLocalityWeigher': 4.0})))
          for code, pci, devices in (
              ('S803', {'PCIWeigher': 11.0},
               {'pci_passthrough:alias': 'nvme:1'}),
              ('', {'PCIWeigher': 12.0}, {'pci_passthrough:alias': 'nvme:1'}),
              ('S803', {}, {'pci_passthrough:alias': 'nvme:1'}),
              ('', {'PCIWeigher': 1.0}, {}))),
        *((code, view(dedicated(), flavors=(audit_cloud.flavor('n', {
            **audit_cloud.DEDICATED_SPECS, **devices}),),
            scheduler=runs(*filters)))
          for code, filters, devices in (
              ('S804', ['A'], {'pci_passthrough:alias': 'nvme:1'}),
              ('', ['PciPassthroughFilter'],
               {'pci_passthrough:alias': 'nvme:1'}),
              ('', [], {'pci_passthrough:alias': 'nvme:1'}),
              ('', ['A'], {}))),
    )
    @ddt.unpack
    def test_codes(self, expected, seen):
        found = findings(seen)
        self.assertEqual(expected.split(), [one.code for one in found],
                         found)
        for one in found:
            self.assertRegex(one.message, r'^\S(.*[^\s.])?$')

    def test_host_files_tell_the_cpus_of_emulators(self):
        for cpus, expected in (('6-7', []), ('7', ['S504'])):
            description = host_model.HostDescription(
                'd', (host_model.NumaNode(0, 0, tuple(
                    (cpu,) for cpu in range(8)), 1024),),
                nova=host_model.NovaSettings(
                    cpuset.CpuSet.parse('0-5'), cpuset.CpuSet.parse(cpus)))
            # Whatever flavors say.
            for flavors in ((), (MIXED,), (EMULATOR,)):
                found = findings(view(
                    dedicated(), offers={'rp-d': BOTH}, flavors=flavors,
                    descriptions={'d': description}, emulator_cpus=0))
                self.assertEqual(expected, [one.code for one in found])

    def test_while_the_class_is_unclear(self):
        """Nothing is proposed that takes either class for granted."""
        marked = view(
            dedicated(), offers={'rp-d': audit_cloud.inventories(VCPU=2)},
            aggregates=[
                audit_cloud.aggregate('x', 'd', pinning_class='shared'),
                audit_cloud.isolating('y', DEDICATED)])
        self.assertEqual(
            [('S301', ('openstack pinning host set --class shared d',)),
             ('S501', ())], [(finding.code, finding.remediation)
                             for finding in findings(marked)])

    def test_an_order_that_is_no_boolean(self):
        """What the files of all its hosts say is set, or it is taken out."""
        key = placement_traits.PACKING_KEY
        for said, mend in (
                ((True, True, None), f'set --property {key}=true x'),
                ((False, None, True), f'set --property {key}=false x'),
                ((True, False, None), f'unset --property {key} x'),
                ((None, None, None), f'unset --property {key} x')):
            files = packs(**dict(zip(('a', 'b', 'other'), said)))
            [found] = findings(view(
                shared('a'), shared('b'), descriptions=files,
                aggregates=[audit_cloud.packing('x', 'maybe', 'a', 'b')]))
            self.assertEqual(('S701', 'x', (f'openstack aggregate {mend}',)),
                             (found.code, found.name, found.remediation))

    def test_orders_that_differ(self):
        _disagree, other = findings(view(
            shared('a'), shared('b'), descriptions=packs(b=True),
            aggregates=[audit_cloud.packing('x', '1', 'a'),
                        audit_cloud.packing('y', '0', 'a', 'b'),
                        audit_cloud.packing('zz', 'f', 'a')]))
        self.assertEqual(
            f'{placement_traits.PACKING_KEY} is false by y, zz, true by x',
            _disagree.message)
        self.assertEqual(
            ('b', 'packing_host_numa_cells_allocation_strategy is true by '
             'its host file, false by aggregate y'),
            (other.host, other.message))

    def test_a_slip_is_not_made_known(self):
        slip = placement_traits.DEDICATED.replace('PINN', 'PIN')
        [found] = findings(view(flavors=[audit_cloud.flavor('a', {
            **audit_cloud.SHARED_SPECS, f'trait:{slip}': 'required'})]))
        self.assertEqual(('S206', ()), (found.code, found.remediation))
        self.assertIn(f'perhaps {placement_traits.DEDICATED} is meant',
                      found.advice)

    def test_flavors_that_aggregates_hold_off(self):
        bare = audit_cloud.flavor('bare')
        for members, severity in ((['d', 'e'], 'note'), (['d'], 'warning')):
            isolating = audit_cloud.isolating('x', DEDICATED, 'd', 'e')
            [one] = [finding for finding in findings(view(
                dedicated('d'), dedicated('e'), shared(),
                flavors=[bare], aggregates=[isolating],
                members={'uuid-x': {f'rp-{name}' for name in members}}))
                if finding.code == 'S202']
            self.assertEqual(severity, one.severity)

        # One that requires the trait is let in.
        astray = audit_cloud.flavor('astray',
                                    {audit_cloud.DEDICATED_KEY: 'required'})
        [one] = findings(view(dedicated('d'), flavors=[astray], aggregates=[
            audit_cloud.isolating('x', DEDICATED, 'd')]))
        self.assertEqual(('S202', 'warning'), (one.code, one.severity))
        self.assertNotIn('keep it off', one.message)

        # Where there are no dedicated hosts yet, nothing holds it off.
        [one] = findings(view(shared(), flavors=[bare]))
        self.assertEqual('warning', one.severity)

    def test_no_trait_is_worse_where_it_isolates(self):
        for made, severity in (
                (audit_cloud.isolating('x', SHARED, 'a'), 'error'),
                (audit_cloud.aggregate('x', 'a', pinning_class='shared'),
                 'warning')):
            [one] = findings(view(audit_cloud.host('a'), aggregates=[made]))
            self.assertEqual(severity, one.severity)

    def test_an_availability_zone_is_the_last_choice(self):
        [one] = findings(view(dedicated('a'), dedicated('b'), aggregates=[
            dataclasses.replace(made, metadata={
                **made.metadata, 'availability_zone': 'z'})
            if made.name == 'x' else made
            for made in (audit_cloud.isolating('x', DEDICATED, 'a'),
                         audit_cloud.isolating('yy', DEDICATED, 'a'))]))
        self.assertEqual(('openstack aggregate add host yy b',),
                         one.remediation)


@ddt.ddt
class TestClassOf(unit_base.TestCase):

    @ddt.data((DEDICATED, dedicated(), 'shared'),
              (SHARED, shared(), 'shared'),
              (SHARED, audit_cloud.host('a'), 'shared'),
              (None, audit_cloud.host('a'), 'x'),
              (None, of_both(), None),
              (None, of_both(), 'shared'),
              (DEDICATED, dataclasses.replace(shared(), traits=None),
               'dedicated'))
    @ddt.unpack
    def test_class_of(self, expected, host, named):
        aggregates = () if named is None else (
            audit_cloud.aggregate('x', host.name, pinning_class=named),)
        self.assertIs(expected, audited.class_of(
            dataclasses.replace(host, aggregates=aggregates)))


class TestLikelyClass(unit_base.TestCase):

    def test_by_its_aggregates_or_else_its_cpus(self):
        both = of_both()
        for host, named, offers, expected in (
                # What it has CPUs for, if they are for one class only.
                (dedicated('a'), 'shared', audit_cloud.inventories(VCPU=1),
                 SHARED),
                (both, 'shared', audit_cloud.inventories(PCPU=1), DEDICATED),
                (dedicated('a'), 'shared', BOTH, DEDICATED),
                (both, 'shared', BOTH, SHARED),
                (both, 'x', audit_cloud.inventories(PCPU=1), DEDICATED),
                (both, 'x', audit_cloud.inventories(VCPU=1), SHARED),
                (audit_cloud.host('a'), 'x', audit_cloud.inventories(PCPU=1),
                 DEDICATED),
                (audit_cloud.host('a'), 'x', audit_cloud.inventories(VCPU=1),
                 SHARED)):
            seen = view(host, offers={'rp-a': offers}, aggregates=[
                audit_cloud.aggregate('x', 'a', pinning_class=named)])
            self.assertIs(expected, seen.likely_class(seen.hosts[0]))


class TestSchedulerOptions(unit_base.TestCase):

    def read(self, *texts):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        arguments = []
        for number, text in enumerate(texts):
            path = directory / f'{number}.conf'
            path.write_text(text)
            arguments += ['--config-file', str(path)]
        return scheduler_options.read(arguments)

    def test_read(self):
        option = 'packing_host_numa_cells_allocation_strategy'
        with fixtures.EnvironmentVariable(f'OS_COMPUTE__{option.upper()}',
                                          'true'):
            self.assertEqual(runs(), self.read('[compute]\nx = 1\n'))
        self.assertIs(True, self.read(
            f'[compute]\n{option} = yes\n').packs_cells)
        # The last word counts.
        self.assertIs(False, self.read(
            f'[compute]\n{option} = yes\n',
            f'[compute]\n{option} = no\n').packs_cells)
        self.assertEqual(
            runs('A', 'PinnedTopologyFilter', 'B', observes=True), self.read(
                '[filter_scheduler]\nenabled_filters = A,\n'
                '  PinnedTopologyFilter, B\n[pinning]\nmode = observe\n'))

    def test_multipliers(self):
        """They count where our weighers run, and have a say."""
        ours = ('[filter_scheduler]\n'
                'ram_weight_multiplier = -1.0\ncpu_weight_multiplier = 0.0\n'
                'weight_classes = nova.scheduler.weights.all_weighers,\n'
                '  nova_pinning.scheduler.weights.all_weighers\n')
        self.assertEqual({
            'RAMWeigher': -1.0, 'CPUWeigher': 0.0, 'DiskWeigher': 1.0,
            'NumInstancesWeigher': 0.0, 'PCIWeigher': 1.0,
            'FragmentationWeigher': 8.0, 'CacheLocalityWeigher': 4.0,
        }, self.read(ours).multipliers)
        # Those that do not run prefer no host.
        self.assertEqual({'FragmentationWeigher': 8.0}, self.read(
            ours, '[filter_scheduler]\nweight_classes = '
            'nova_pinning.scheduler.weights.FragmentationWeigher\n'
        ).multipliers)
        self.assertEqual({}, self.read(
            ours, '[pinning]\nfragmentation_weight_multiplier = 0\n'
        ).multipliers)

    def test_nova_weighs(self):
        options = dataclasses.replace(runs(), multipliers={
            'RAMWeigher': 1.0, 'CPUWeigher': 0.0})

        def found(options, **metadata):
            own = dataclasses.replace(
                audit_cloud.aggregate('x', 'd'), metadata=metadata)
            seen = view(dedicated(), shared(), aggregates=[own],
                        scheduler=options)
            return [finding.message for finding in findings(seen)
                    if finding.code == 'S802']

        message = ('ram_weight_multiplier is above 0 on 1 dedicated hosts, '
                   'd for one')
        for metadata, messages in (
                ({}, [message]),
                # As nova has it, an aggregate of the host outweighs it ...
                ({'ram_weight_multiplier': '0.0'}, []),
                ({'ram_weight_multiplier': '-1.0'}, []),
                # ... unless it is no number.
                ({'ram_weight_multiplier': 'none'}, [message])):
            self.assertEqual(messages, found(options, **metadata))
        self.assertEqual([], found(dataclasses.replace(
            options, observes=True)))
        self.assertEqual([], found(runs()))

    def test_wrong(self):
        option = 'packing_host_numa_cells_allocation_strategy'
        for texts, words in (((f'[compute]\n{option} = x\n',), option),
                             (('[pinning]\nmode = x\n',), 'mode'),
                             (('[filter_scheduler]\n'
                               'pci_weight_multiplier = -1\n',),
                              'pci_weight_multiplier'),
                             (('[compute\n',), '0.conf')):
            self.assertIn(words, str(self.assertRaises(
                errors.InputError, self.read, *texts)))
        for arguments in (['--config-file', '/none'],
                          ['--config-dir', '/none'], ['--config-file', '/']):
            self.assertIn('--config-', str(self.assertRaises(
                errors.InputError, scheduler_options.read, arguments)))

    def test_the_line_to_write(self):
        found, = findings(view(scheduler=runs('PinnedTopologyFilter', 'A')))
        self.assertEqual('service nova-scheduler', found.subject)
        self.assertTrue(found.message.endswith(
            'write enabled_filters = A, PinnedTopologyFilter'), found.message)


class TestAgreement(unit_base.TestCase):

    @unit_base.settings(200)
    @hypothesis.given(audit_cloud.FLAVOR_SPECS)
    def test_flavors_that_nothing_is_wrong_with_go_one_way(self, specs):
        found = findings(view(flavors=[audit_cloud.flavor('f', specs)]))
        if any(one.severity != 'note' for one in found):
            return
        host_class = hostclass.class_of_guest(specs)
        # Placement offers a flavor the hosts of its class and no others.
        for one in hostclass.HostClass:
            trait = placement_traits.TRAIT_OF[one]
            other = placement_traits.TRAIT_OF[one.other]
            is_offered = (
                specs.get(f'trait:{trait}') != 'forbidden'
                and specs.get(f'trait:{other}') != 'required')
            self.assertIs(one is host_class, is_offered)
