#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What the rules find in a cloud, and that their commands mend it."""

import dataclasses
import pathlib

import ddt
import fixtures
import hypothesis

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.flavors import guest_class
from nova_pinning.host import model as host_model
from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import provider_config
from nova_pinning.placement import traits
from nova_pinning.segregation.audit import configs
from nova_pinning.segregation.audit import rule
from nova_pinning.segregation.audit import run
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.segregation import auditcloud as fake

DEDICATED, SHARED = fake.DEDICATED, fake.SHARED
L3 = (traits.l3_trait(8), traits.l3_trait(16))
PINNED = {'hw:cpu_policy': 'dedicated'}


def view(*hosts, aggregates=(), flavors=(), offers=None, **changes):
    """A cloud in which all but what is given is in order."""
    cloud = fake.FakeCloud(hosts, flavors=flavors, aggregates=aggregates)
    cloud.offers.update(offers or {})
    return rule.View(**{
        'hosts': cloud.hosts(), 'aggregates': tuple(aggregates),
        'flavors': tuple(flavors), 'inventories': cloud.offers,
        'members': {one.uuid: cloud.members(one) for one in aggregates
                    if one.isolated_for},
        'known_traits': frozenset(traits.TRAIT_OF.values()), **changes})


def findings(seen):
    return [one.finding(problem) for one in run.RULES.values() if one.find
            for problem in one.find(seen)]


def entry(*names, **changes):
    """What a provider.yaml says."""
    return provider_config.ProviderEntry(
        traits=frozenset(names), where=errors.Location('x.yaml', 3),
        **changes)


def dedicated(name='d', *more, **changes):
    return fake.host(name, traits.DEDICATED, *more, **changes)


def shared(name='s', *more, **changes):
    return fake.host(name, traits.SHARED, *more, **changes)


EMULATOR = fake.flavor('e', {
    **fake.DEDICATED_SPECS, 'hw:emulator_threads_policy': 'share'})
MIXED = fake.flavor('x', {
    **fake.DEDICATED_SPECS, 'hw:cpu_policy': 'mixed'})
BOTH = fake.inventories(PCPU=6, VCPU=2)


@ddt.ddt
class TestFindings(base.TestCase):

    @ddt.data(
        ('', view()),
        ('', view(dedicated(), shared())),
        # Flavors.
        ('', view(flavors=[fake.flavor('a', fake.SHARED_SPECS),
                           fake.flavor('b', {fake.SHARED_KEY: 'required'}),
                           fake.flavor('c', fake.DEDICATED_SPECS),
                           fake.flavor('d', {'resources:VCPU': '0'})])),
        ('S201', view(flavors=[fake.flavor('a', PINNED)])),
        ('S201', view(flavors=[fake.flavor('a', {'resources:PCPU': '1'})])),
        ('S201', view(flavors=[fake.flavor('a', {
            'pinning:class': 'dedicated'})])),
        ('S202', view(flavors=[fake.flavor('a')])),
        ('S202', view(dedicated(), flavors=[fake.flavor('a')])),
        ('S203', view(flavors=[fake.flavor('a', {
            **fake.DEDICATED_SPECS, fake.SHARED_KEY: 'required'})])),
        ('S203', view(flavors=[fake.flavor('a', {
            **fake.SHARED_SPECS, fake.SHARED_KEY: 'forbidden'})])),
        ('S203', view(flavors=[fake.flavor('a', {
            **PINNED, fake.DEDICATED_KEY: 'forbidden'})])),
        ('S203', view(flavors=[fake.flavor('a', {
            fake.SHARED_KEY: 'forbidden'})])),
        ('S204', view(flavors=[fake.flavor('a', {
            **PINNED, **fake.SHARED_SPECS, 'pinning:class': 'shared'})])),
        ('S204', view(flavors=[fake.flavor('a', {
            **PINNED, 'pinning:class': 'shared'})])),
        ('S205', view(flavors=[fake.flavor('a', {
            **fake.SHARED_SPECS, 'pinning:class': 'x'})])),
        ('', view(flavors=[fake.flavor('a', {
            **fake.SHARED_SPECS, 'trait:CUSTOM_A': 'any',
            'trait:HW_CPU_X86_AVX': 'required'})])),
        ('S206', view(flavors=[fake.flavor('a', {
            **fake.SHARED_SPECS, 'trait_nic:CUSTOM_A': 'required'})])),
        ('S206', view(known_traits=frozenset(), flavors=[
            fake.flavor('a', fake.SHARED_SPECS)])),
        ('', view(dedicated(), offers={'rp-d': BOTH}, emulator_cpus=2)),
        # What marks a host.
        ('S301', view(fake.host('a', traits.DEDICATED, traits.SHARED))),
        ('S302', view(fake.host('a'))),
        ('', view(shared(), aggregates=[fake.aggregate('x', 's')])),
        ('S303', view(dataclasses.replace(shared(), traits=None))),
        ('S304', view(shared(), aggregates=[
            fake.aggregate('x', 's', pinning_class='dedicated')])),
        ('S304', view(fake.host('a'), aggregates=[
            fake.aggregate('x', 'a', pinning_class='dedicated'),
            fake.aggregate('y', 'a', pinning_class='shared')])),
        ('S301 S304', view(
            fake.host('a', traits.DEDICATED, traits.SHARED), aggregates=[
                fake.aggregate('x', 'a', pinning_class='dedicated')])),
        ('', view(shared('s', L3[0]))),
        ('S305', view(shared('s', *L3))),
        # Aggregates.
        ('', view(shared(), aggregates=[
            fake.aggregate('x', 's', pinning_class='Shared ')])),
        ('S401', view(shared(), aggregates=[
            fake.aggregate('x', 's', pinning_class='neither')])),
        ('S402', view(fake.host('a'), aggregates=[
            fake.isolating('x', SHARED, 'a')])),
        ('S402', view(fake.host('a'), aggregates=[
            fake.aggregate('x', 'a', pinning_class='shared')])),
        ('S403', view(dedicated('a'), dedicated('b'), aggregates=[
            fake.isolating('x', DEDICATED, 'a')])),
        ('', view(dedicated('a'), dedicated('b'), aggregates=[
            fake.isolating('x', DEDICATED, 'a'),
            fake.isolating('y', DEDICATED, 'b')])),
        # Nobody gets into this one, which is told once there are hosts in it.
        ('', view(dedicated(), aggregates=[dataclasses.replace(
            fake.aggregate('x'), metadata={
                fake.DEDICATED_KEY: 'required',
                fake.SHARED_KEY: 'required'})])),
        ('S404', view(shared(), members={'uuid-x': frozenset()}, aggregates=[
            fake.isolating('x', SHARED, 's')])),
        ('S303', view(
            dataclasses.replace(shared(), traits=None),
            members={'uuid-x': frozenset()},
            aggregates=[fake.isolating('x', SHARED, 's')])),
        ('S405', view(shared(), dedicated(), aggregates=[
            fake.isolating('x', SHARED, 's')],
            members={'uuid-x': {'rp-s', 'rp-d', 'another'}})),
        # Inventories.
        ('S501', view(dedicated(), offers={'rp-d': fake.inventories()})),
        ('S501', view(dedicated(), offers={
            'rp-d': fake.inventories(PCPU=0)})),
        ('S501', view(dedicated(), offers={
            'rp-d': fake.inventories(VCPU=9)})),
        ('S502', view(shared(), offers={'rp-s': fake.inventories()})),
        ('S502', view(shared(), offers={'rp-s': fake.inventories(PCPU=2)})),
        ('S503', view(shared(), offers={'rp-s': BOTH})),
        ('', view(dedicated(), inventories={})),
        ('S504', view(dedicated(), offers={'rp-d': BOTH})),
        ('S504', view(dedicated(), offers={'rp-d': BOTH}, flavors=[
            EMULATOR], emulator_cpus=1)),
        ('', view(dedicated(), offers={'rp-d': BOTH}, flavors=[
            EMULATOR], emulator_cpus=2)),
        ('', view(dedicated(), offers={'rp-d': BOTH}, flavors=[MIXED])),
        ('S505', view(shared(), offers={'rp-s': fake.inventories(
            VCPU=1, PCPU=client.Inventory(0, 0, 2.0))})),
        ('S505', view(dedicated(), offers={'rp-d': fake.inventories(
            PCPU=client.Inventory(8, 0, 0.5))})),
        ('S506', view(dedicated(), flavors=[MIXED], offers={
            'rp-d': fake.inventories(
                PCPU=8, VCPU=client.Inventory(2, 0, 1.5))})),
        ('', view(shared(), offers={'rp-s': fake.inventories(
            VCPU=client.Inventory(2, 0, 16.0),
            MEMORY_MB=client.Inventory(2, 0, 1.5))})),
        ('S507', view(dedicated(), offers={'rp-d': fake.inventories(
            PCPU=8, MEMORY_MB=client.Inventory(2, 0, 1.5))})),
        # provider.yaml.
        ('S303', view(dataclasses.replace(shared(), traits=None), configs={
            's': (entry(traits.DEDICATED),)})),
        ('', view(shared(), configs={'s': (entry(traits.SHARED),)})),
        ('', view(shared(), configs={'s': (entry('CUSTOM_OTHER'),)})),
        ('', view(shared(), configs={'s': (
            entry(traits.DEDICATED, uuid='another'),)})),
        ('S601', view(shared(), configs={'s': (
            entry(traits.SHARED, *L3),)})),
        ('S302 S601', view(fake.host('a'), configs={'a': (
            entry(traits.SHARED, uuid='rp-a'),)})),
        ('S602', view(shared(), configs={'s': (entry(traits.DEDICATED),)})),
        ('S602', view(shared(), configs={'s': (
            entry(traits.SHARED), entry(traits.DEDICATED, uuid='',
                                        name='node-s'))})),
        ('S402 S602', view(
            fake.host('a'), aggregates=[fake.isolating('x', SHARED, 'a')],
            configs={'a': (entry(traits.DEDICATED),)})),
        ('S301 S602', view(
            fake.host('a', traits.DEDICATED, traits.SHARED),
            configs={'a': (entry(traits.DEDICATED),)})),
        ('S603', view(shared(), configs={'s': (
            entry(traits.DEDICATED, traits.SHARED),)})),
        ('S604', view(shared(), configs={'s': (
            entry(uuid='rp-s'), entry(uuid='', name='node-s'))})),
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
                'd', (host_model.Node(0, 0, tuple(
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
            dedicated(), offers={'rp-d': fake.inventories(VCPU=2)},
            aggregates=[
                fake.aggregate('x', 'd', pinning_class='shared'),
                fake.isolating('y', DEDICATED)])
        self.assertEqual(
            [('S304', ('openstack pinning host set --class shared d',)),
             ('S501', ())],
            [(one.code, one.mends) for one in findings(marked)])

    def test_a_slip_is_not_made_known(self):
        slip = traits.DEDICATED.replace('PINN', 'PIN')
        [found] = findings(view(flavors=[fake.flavor('a', {
            **fake.SHARED_SPECS, f'trait:{slip}': 'required'})]))
        self.assertEqual(('S206', ()), (found.code, found.mends))
        self.assertIn(f'perhaps {traits.DEDICATED} is meant', found.advice)

    def test_flavors_that_aggregates_hold_off(self):
        bare = fake.flavor('bare')
        for members, severity in ((['d', 'e'], 'note'), (['d'], 'warning')):
            isolating = fake.isolating('x', DEDICATED, 'd', 'e')
            [one] = [one for one in findings(view(
                dedicated('d'), dedicated('e'), shared(),
                flavors=[bare], aggregates=[isolating],
                members={'uuid-x': {f'rp-{name}' for name in members}}))
                if one.code == 'S202']
            self.assertEqual(severity, one.severity)

        # One that requires the trait is let in.
        astray = fake.flavor('astray', {fake.DEDICATED_KEY: 'required'})
        [one] = findings(view(dedicated('d'), flavors=[astray], aggregates=[
            fake.isolating('x', DEDICATED, 'd')]))
        self.assertEqual(('S202', 'warning'), (one.code, one.severity))
        self.assertNotIn('keep it off', one.message)

        # Where there are no dedicated hosts yet, nothing holds it off.
        [one] = findings(view(shared(), flavors=[bare]))
        self.assertEqual('warning', one.severity)

    def test_no_trait_is_worse_where_it_isolates(self):
        for made, severity in (
                (fake.isolating('x', SHARED, 'a'), 'error'),
                (fake.aggregate('x', 'a', pinning_class='shared'),
                 'warning')):
            [one] = findings(view(fake.host('a'), aggregates=[made]))
            self.assertEqual(severity, one.severity)

    def test_an_availability_zone_is_the_last_choice(self):
        [one] = findings(view(dedicated('a'), dedicated('b'), aggregates=[
            dataclasses.replace(made, metadata={
                **made.metadata, 'availability_zone': 'z'})
            if made.name == 'x' else made
            for made in (fake.isolating('x', DEDICATED, 'a'),
                         fake.isolating('yy', DEDICATED, 'a'))]))
        self.assertEqual(('openstack aggregate add host yy b',), one.mends)


@ddt.ddt
class TestClassOf(base.TestCase):

    @ddt.data((DEDICATED, dedicated(), 'shared'),
              (SHARED, shared(), 'shared'),
              (SHARED, fake.host('a'), 'shared'),
              (None, fake.host('a'), 'x'),
              (None, fake.host('a', traits.DEDICATED, traits.SHARED), None),
              (None, fake.host('a', traits.DEDICATED, traits.SHARED),
               'shared'),
              (DEDICATED, dataclasses.replace(shared(), traits=None),
               'dedicated'))
    @ddt.unpack
    def test_class_of(self, expected, host, named):
        aggregates = () if named is None else (
            fake.aggregate('x', host.name, pinning_class=named),)
        self.assertIs(expected, rule.class_of(
            dataclasses.replace(host, aggregates=aggregates)))


class TestLikelyClass(base.TestCase):

    def test_by_its_aggregates_or_else_its_cpus(self):
        both = fake.host('a', traits.DEDICATED, traits.SHARED)
        for host, named, offers, expected in (
                # What it has CPUs for, if they are for one class only.
                (dedicated('a'), 'shared', fake.inventories(VCPU=1), SHARED),
                (both, 'shared', fake.inventories(PCPU=1), DEDICATED),
                (dedicated('a'), 'shared', BOTH, DEDICATED),
                (both, 'shared', BOTH, SHARED),
                (both, 'x', fake.inventories(PCPU=1), DEDICATED),
                (both, 'x', fake.inventories(VCPU=1), SHARED),
                (fake.host('a'), 'x', fake.inventories(PCPU=1), DEDICATED),
                (fake.host('a'), 'x', fake.inventories(VCPU=1), SHARED)):
            seen = view(host, offers={'rp-a': offers}, aggregates=[
                fake.aggregate('x', 'a', pinning_class=named)])
            self.assertIs(expected, seen.likely_class(seen.hosts[0]))


class TestConfigs(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(
            fixtures.TempDir()).path)

    def write(self, name, *names):
        path = self.directory / f'{name}.yaml'
        path.parent.mkdir(exist_ok=True)
        path.write_text(provider_config.text(
            provider_config.Made(entry(*names)), 'x'))

    def test_load(self):
        self.write('h1', traits.SHARED)
        self.write('h2/a', traits.DEDICATED)
        self.write('h2/b')
        self.write('.hidden', traits.DEDICATED)
        found = configs.load(str(self.directory))
        self.assertEqual({'h1': [{traits.SHARED}],
                          'h2': [{traits.DEDICATED}]},
                         {name: [one.traits for one in entries]
                          for name, entries in found.items()})

    def test_wrong(self):
        self.assertIn('there are no', str(self.assertRaises(
            errors.InputError, configs.load, str(self.directory))))
        self.assertIn('cannot be read', str(self.assertRaises(
            errors.InputError, configs.load, f'{self.directory}/none')))
        (self.directory / 'h1.yaml').write_text('x: 1')
        (self.directory / 'h2.yaml').write_text(']')
        self.write('h1/a', traits.SHARED)
        error = self.assertRaises(errors.InputErrors, configs.load,
                                  str(self.directory))
        for words in ('h2.yaml', 'both a file and a directory'):
            self.assertIn(words, str(error))


class TestAgreement(base.TestCase):

    @base.settings(200)
    @hypothesis.given(fake.FLAVOR_SPECS)
    def test_flavors_that_nothing_is_wrong_with_go_one_way(self, specs):
        found = findings(view(flavors=[fake.flavor('f', specs)]))
        if any(one.severity != 'note' for one in found):
            return
        host_class = guest_class.guest_class(specs, None)
        # Placement offers a flavor the hosts of its class and no others.
        for one in hostclass.HostClass:
            trait = traits.TRAIT_OF[one]
            other = traits.TRAIT_OF[one.other]
            is_offered = (
                specs.get(f'trait:{trait}') != 'forbidden'
                and specs.get(f'trait:{other}') != 'required')
            self.assertIs(one is host_class, is_offered)
