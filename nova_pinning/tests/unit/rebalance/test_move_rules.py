# SPDX-License-Identifier: Apache-2.0

import dataclasses

import ddt
from oslotest import base

from nova_pinning.admission import devices
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import pci_alias
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.rebalance import move_rules
from nova_pinning.rebalance import plan_model
from nova_pinning.rebalance import plan_request
from nova_pinning.tests.unit import builders

LIVE, COLD = plan_model.MigrationKind.LIVE, plan_model.MigrationKind.COLD
DEDICATED = hostclass.HostClass.DEDICATED
CPU = offered_host.HostCpuModel(
    arch='x86_64', vendor='Intel', model='Cascadelake-Server',
    features=frozenset({'pku', 'rdpid'}))
DEVICES = (devices.PciUse(devices.device_keys('8086', '154c'), 0, 1),)

ALIASES = {name: pci_alias.PciAlias((devices.device_keys(
    '10de', '20b5', **values),)) for name, values in (
        ('gpu', {'live_migratable': 'true'}), ('old', {}))}


def host(name, **values):
    return offered_host.OfferedHost(**{
        'name': name, 'cells': (builders.host_cell(0, range(8)),),
        'host_class': DEDICATED, 'cpu_model': CPU} | values)


def guest(uuid='g', **values):
    return resident_guest.ResidentGuest(**{
        'uuid': uuid, 'host': 'h0', 'vcpus': 4, 'memory_mib': 1024,
        'guest_class': DEDICATED, 'flavor': 'f'} | values)


class TestCase(base.BaseTestCase):

    def rules(self, moved, target=None, source=None, others=(), specs=None,
              aggregates=(), groups=(), settings=None, taken_at='',
              more_hosts=(), dirty_limit_mib=None, default_zone='nova'):
        self.guest = moved
        self.target = host('h1', **target or {})
        fleet = snapshot.Fleet(
            hosts=(host('h0', **source or {}), self.target, *more_hosts),
            guests=(moved, *others), aggregates=tuple(aggregates),
            server_groups=tuple(groups), taken_at=taken_at,
            rules=scheduler_rules.SchedulerRules(default_zone=default_zone),
            pci_aliases=ALIASES,
            flavors=(flavor_model.Flavor(
                name='f', vcpus=4, memory_mib=1024,
                extra_specs=specs or {}),))
        return move_rules.MoveRules(fleet, plan_request.RuleSettings(
            **settings or {}), dirty_limit_mib)

    def refused(self, text, *arguments, **values):
        rules = self.rules(*arguments, **values)
        self.assertIn(text, rules.host_refusal(self.guest, self.target))
        self.assertTrue(rules.host_refusal(self.guest, self.target))

    def moves(self, kind, *arguments, **values):
        rules = self.rules(*arguments, **values)
        self.assertEqual('', rules.guest_refusal(self.guest))
        self.assertEqual('', rules.host_refusal(self.guest, self.target))
        self.assertIs(kind, rules.kind(self.guest, self.target))

    def stays(self, text, *arguments, **values):
        rules = self.rules(*arguments, **values)
        self.assertIn(text, rules.guest_refusal(self.guest))
        self.assertTrue(rules.guest_refusal(self.guest))


@ddt.ddt
class GuestTestCase(TestCase):

    def test_usual(self):
        self.moves(LIVE, guest())

    @ddt.data(('active', LIVE), ('paused', LIVE), ('stopped', COLD),
              ('', LIVE))
    @ddt.unpack
    def test_states(self, state, kind):
        self.moves(kind, guest(vm_state=state))

    @ddt.data(
        ({'is_movable': False, 'vm_state': 'error'}, 'nova does not move it '
         '(error)'),
        ({'metadata': {'pinning:movable': 'false'}}, 'false in its metadata'),
        ({'tags': ('a', 'keep')}, 'has the tag keep'))
    @ddt.unpack
    def test_stays(self, values, text):
        self.stays(text, guest(**values), settings={
            'fixed_tags': frozenset({'keep', 'other'})})

    def test_flavor(self):
        specs = {'pinning:movable': 'no'}
        self.stays('false in its flavor', guest(), specs=specs)
        self.moves(LIVE, guest(metadata={'pinning:movable': 'true'}),
                   specs=specs)

    @ddt.data(({'devices': DEVICES}, {}), ({}, {'hw:tpm_version': '2.0'}),
              ({}, {'hw:mem_encryption': 'true'}))
    @ddt.unpack
    def test_cold_only(self, values, specs):
        self.moves(COLD, guest(**values), specs=specs)
        self.stays('cannot move live: ', guest(**values), specs=specs,
                   settings={'allows_cold': False})

    def test_devices_stay(self):
        self.stays('has PCI devices', guest(devices=DEVICES),
                   settings={'moves_devices': False})

    def test_policy_that_is_lost_on_the_way(self):
        """The claim of a move knows that of the alias only."""
        built = guest(
            devices=DEVICES, topology=builders.guest((2, 512)),
            device_policy='preferred', fit=model.Fit((
                model.CellFit(0, ((0, 0), (1, 1))),)))
        specs = {'pci_passthrough:alias': 'old:1'}
        for node, may_move in ((0, True), (1, False)):
            rules = self.rules(built, specs=specs, target={
                'pci_pools': (devices.PciPool(
                    devices.device_keys('10de', '20b5'), node, 1),)})
            self.assertEqual('', rules.cold_refusal(built))
            # Near: with policy preferred it would be had from either node.
            found = rules.admission().room(
                rules.request(built), host_occupancy.of_host(self.target))
            self.assertIs(may_move, isinstance(found, model.Fit), found)
        self.stays('with which affinity policy', guest(
            devices=DEVICES, device_policy=None), specs=specs)

    @ddt.data(
        # The flavor's alias, what the guest was built with, the device.
        ('gpu', None, 'true', ''), ('gpu', True, 'yes', ''),
        ('other', True, 'true', ''),
        ('gpu', False, 'true', 'was not built to have those'),
        ('gpu', True, None, '10de:20b5 that are not marked live_migratable'),
        ('gpu', None, 'false', 'that are not marked live_migratable'),
        ('old', None, 'true', 'alias old, which does not ask for'),
        ('gpu:1,old', None, 'true', 'alias old, which does not ask for'),
        ('other', None, 'true', 'alias other, which is not known'),
        (None, None, 'true', 'its flavor is not known to ask for'),
        # Neutron, and not a tag, says whether one of a port moves.
        (None, None, None, 'its flavor is not known to ask for'),
        (None, False, None, 'that are not marked live_migratable'))
    @ddt.unpack
    def test_devices_that_move_live(self, alias, asks, marked, refusal):
        moved = guest(asks_live_devices=asks, devices=(devices.PciUse(
            devices.device_keys('10de', '20b5', **(
                {'live_migratable': marked} if marked else {})), 0, 1),))
        for settings in ({}, {'moves_devices': False}):
            rules = self.rules(
                moved, settings=settings,
                specs={'pci_passthrough:alias': alias} if alias else {})
            found = rules.cold_reason(self.guest, self.target)
            self.assertIn(refusal, found)
            self.assertEqual(bool(refusal), bool(found))
        is_doubt = 'known' in refusal
        self.assertIs(LIVE if is_doubt or not refusal else COLD,
                      rules.hopeful.kind(self.guest, self.target))

    def test_devices_that_the_api_does_not_tell(self):
        """The flavor's alias is all that is known of them."""
        for alias, kind in (('gpu', LIVE), ('old', COLD), ('other', COLD)):
            self.moves(kind, guest(), specs={'pci_passthrough:alias': alias})

    @ddt.data(({}, {}, '', LIVE), ({'nova_release': '2025.1'},
                                   {'nova_release': '2025.1'}, '', LIVE),
              ({'nova_release': '2024.2'}, {}, '', COLD),
              ({}, {}, '2024.1', COLD),
              ({'nova_release': '2025.1'}, {}, '2024.1', COLD))
    @ddt.unpack
    def test_releases_that_move_devices(self, source, target, usual, kind):
        self.moves(kind, guest(), source=source, target=target,
                   settings={'release': usual, 'is_restarted': True},
                   specs={'pci_passthrough:alias': 'gpu:2'})

    @ddt.data(
        ('', 'CUSTOM_NVIDIA_11', 8001000, 9000000, ''),
        ('_GPU', 'CUSTOM_NVIDIA_11', 8001000, 8001000, ''),
        ('', 'CUSTOM_NVIDIA_11', 8000000, 9000000, 'that of h0 is older'),
        ('', 'CUSTOM_NVIDIA_11', 8001000, None, 'that of h1 is not known'),
        ('', 'CUSTOM_PINNING_DEDICATED', 8001000, 9000000,
         'whose type its flavor does not tell'))
    @ddt.unpack
    def test_vgpus(self, suffix, trait, source, target, refusal):
        rules = self.rules(
            guest(), specs={f'resources{suffix}:VGPU': '1',
                            f'trait{suffix}:{trait}': 'required'},
            source={'hypervisor_version': source},
            target={'hypervisor_version': target})
        self.assertIn(refusal, rules.cold_reason(self.guest, self.target))
        self.assertIs(COLD if refusal else LIVE,
                      rules.kind(self.guest, self.target))
        self.assertIs(COLD if 'older' in refusal else LIVE,
                      rules.hopeful.kind(self.guest, self.target))

    def test_vgpus_of_a_flavor_that_is_not_known(self):
        self.moves(COLD, guest(flavor='x', resources={'VGPU': 1}))

    def test_tpm_secret_of_host(self):
        self.moves(LIVE, guest(), specs={
            'hw:tpm_version': '2.0', 'hw:tpm_secret_security': 'host'})

    @ddt.data(
        ({'nova_release': '2025.1'}, {}, COLD),
        ({'nova_release': '2026.1'}, {'nova_release': '2025.2'}, COLD),
        ({'nova_release': '2026.1'}, {'nova_release': '2026.2'}, LIVE),
        ({'nova_release': '2026.1'}, {}, LIVE),
        # Nova asks for the oldest nova-compute of the cell.
        ({'nova_cell': 'north', 'nova_release': '2026.2'},
         {'nova_cell': 'north', 'nova_release': '2025.1'}, COLD),
        ({'nova_cell': 'north', 'nova_release': '2026.2'},
         {'nova_release': '2025.1'}, COLD))
    @ddt.unpack
    def test_tpm_secret_of_host_beside_old_ones(self, source, other, kind):
        """Even where neither source nor target is the old one."""
        rules = self.rules(guest(), source=source, specs={
            'hw:tpm_version': '2.0', 'hw:tpm_secret_security': 'host'},
            more_hosts=(host('h2', **other),))
        self.assertIs(kind, rules.kind(self.guest, self.target))
        text = rules.cold_reason(self.guest, self.target)
        self.assertEqual(kind is COLD, 'which nova moves live from 2026.1 on'
                         in text, text)

    def test_tpm_secret_of_host_beside_another_cell(self):
        rules = self.rules(
            guest(), source={'nova_cell': 'north'},
            target={'nova_cell': 'north'}, specs={
                'hw:tpm_version': '2.0', 'hw:tpm_secret_security': 'host'},
            more_hosts=(host('h2', nova_cell='south',
                             nova_release='2025.1'),))
        self.assertIs(LIVE, rules.kind(self.guest, self.target))

    def test_accelerators(self):
        self.stays('has accelerators', guest(), specs={
            'accel:device_profile': 'fpga'})

    def test_paused_with_devices(self):
        self.stays('cannot move live: has PCI devices 8086:154c that are not '
                   'marked live_migratable; nor cold: is paused',
                   guest(vm_state='paused', devices=DEVICES),
                   specs={'pci_passthrough:alias': 'gpu:1'})

    @ddt.data(('2026-01-21T12:00:00Z', 'is 10.0 days old, and 20 are'),
              ('2025-01-01T12:00:00Z', 'days old, and 90 are allowed'),
              ('', 'is of unknown age'))
    @ddt.unpack
    def test_ages(self, launched, text):
        self.stays(text, guest(launched_at=launched),
                   taken_at='2026-01-31T12:00:00Z', settings={
                       'least_age_days': 20, 'most_age_days': 90})

    def test_right_age(self):
        self.moves(LIVE, guest(launched_at='2026-01-01T12:00:00Z'),
                   taken_at='2026-01-31T12:00:00Z', settings={
                       'least_age_days': 20, 'most_age_days': 90})

    def test_no_time(self):
        error = self.assertRaises(
            errors.InputError, self.rules, guest(), settings={
                'least_age_days': 20})
        self.assertIn('does not say when it was taken', str(error))

    @ddt.data((None, LIVE), (1000.0, LIVE), (500.0, COLD))
    @ddt.unpack
    def test_dirty(self, limit, kind):
        self.moves(kind, guest(metadata={'pinning:dirty_rate': 'high'}),
                   dirty_limit_mib=limit)

    def test_defect(self):
        """A bug of 2026.1 in live migrations of guests that it did not start.

        """
        topology = builders.guest((2, 64))
        values = {'source': {'nova_release': '2026.1'},
                  'target': {'nova_release': '2026.1'}}
        pinned = guest(topology=topology)
        self.moves(COLD, pinned, **values)
        rules = self.rules(pinned, **values)
        self.assertIn('bug 2152697', rules.cold_reason(
            self.guest, self.target))
        self.moves(LIVE, pinned, **values, settings={'is_restarted': True})


@ddt.ddt
class HostTestCase(TestCase):

    def test_own_host(self):
        rules = self.rules(guest())
        self.assertIn('within its host', rules.host_refusal(
            self.guest, host('h0')))

    def test_default_zone_of_the_fleet(self):
        values = {'target': {'aggregates': ('a',)}, 'default_zone': 'west',
                  'aggregates': (offered_host.Aggregate('a', 'east'),)}
        self.refused('not in availability zone west',
                     guest(availability_zone=''), **values)
        self.moves(LIVE, guest(availability_zone='west'), **values)

    @ddt.data(
        ({'host_class': hostclass.HostClass.SHARED}, 'is a shared host'),
        ({'is_enabled': False, 'disabled_reason': 'fan'}, 'is disabled: fan'),
        ({'nova_cell': 'south'}, 'another cell of nova (south)'),
        ({'aggregates': ('zone',)}, 'not in availability zone nova'),
        ({'aggregates': ('theirs',)}, 'is for other projects'))
    @ddt.unpack
    def test_refused(self, target, text):
        self.refused(text, guest(project='p'), target,
                     source={'nova_cell': 'north'}, aggregates=(
                             offered_host.Aggregate('zone', 'east'),
                             offered_host.Aggregate('theirs', None, {
                                 'filter_tenant_id': 'q, r'})))

    def test_isolated_aggregate(self):
        values = {'target': {'aggregates': ('a',)}, 'aggregates': (
            offered_host.Aggregate('a', None, {'trait:HW_X': 'required'}),)}
        self.moves(LIVE, guest(), **values)
        self.refused('whether the guest requires trait:HW_X', guest(),
                     **values, settings={'isolates': True})

    @ddt.data(('ssd', True), ('<or> hdd <or> ssd', True), ('hdd', False),
              ('s== ssd', True), ('<in> sd', True), ('<or> hdd', False))
    @ddt.unpack
    def test_extra_specs(self, wanted, passes):
        values = {
            'specs': {'aggregate_instance_extra_specs:disk': wanted},
            'target': {'aggregates': ('a',)}, 'aggregates': (
                offered_host.Aggregate('a', None, {'disk': 'nvme, ssd'}),)}
        if passes:
            self.moves(LIVE, guest(), **values)
        else:
            self.refused('in no aggregate with disk', guest(), **values)

    @ddt.data((None, False), ('', False), ('', True), ('nova', True),
              ('east', False))
    @ddt.unpack
    def test_zones(self, asked, crosses):
        """To another zone, and to one that it was asked for in.

        To nova, the default zone is any.
        """
        rules = self.rules(
            guest(availability_zone=asked), {'aggregates': ('a',)},
            aggregates=(offered_host.Aggregate('a', 'east'),),
            settings={'crosses_zones': crosses})
        self.assertIs(asked in ('east', 'nova') or (asked == '' and crosses),
                      not rules.host_refusal(self.guest, self.target))
        # Nova evacuates who has asked for no zone to any of them.
        self.assertIs(asked in ('east', 'nova', ''), not (
            rules.evacuation_host_refusal(self.guest, self.target)))

    @ddt.data(
        ({'model': 'Icelake-Server'}, 'of model Intel Icelake-Server'),
        ({'vendor': 'AMD'}, 'of model AMD'),
        ({'features': frozenset({'pku'})}, 'without features of its own '
                                           "host's: rdpid"))
    @ddt.unpack
    def test_cpu_model(self, changes, text):
        values = {'target': {'cpu_model': dataclasses.replace(
            CPU, **changes)}}
        self.moves(COLD, guest(), **values)
        self.refused(text, guest(), **values, settings={'allows_cold': False})
        # Evacuated it boots, with the CPUs that it finds.
        rules = self.rules(guest(), **values)
        self.assertEqual('', rules.evacuation_host_refusal(
            self.guest, self.target))
        self.moves(LIVE, guest(cpu_model='Haswell'), **values)

    @ddt.data(
        {'cpu_model': None},
        {'cpu_model': dataclasses.replace(
            CPU, features=CPU.features | {'avx512'})},
        {'hypervisor_version': 8000000}, {'nova_release': '2026.2'})
    def test_live(self, target):
        self.moves(LIVE, guest(), target, source={
            'hypervisor_version': 7002000, 'nova_release': '2025.1'})

    @ddt.data({'hypervisor_version': 6000000}, {'nova_release': '2024.2'})
    def test_older(self, target):
        self.moves(COLD, guest(), target, source={
            'hypervisor_version': 7002000, 'nova_release': '2025.1'})


@ddt.ddt
class GroupTestCase(TestCase):

    @ddt.data(
        ('anti-affinity', 1, (), True), ('anti-affinity', 1, ('h1',), False),
        ('anti-affinity', 2, ('h1',), True),
        ('anti-affinity', 2, ('h1', 'h1'), False),
        ('affinity', 1, (), False), ('affinity', 1, ('h0',), False),
        ('affinity', 1, ('h1',), True), ('soft-affinity', 1, ('h0',), True),
        ('soft-anti-affinity', 1, ('h1',), True))
    @ddt.unpack
    def test_policies(self, policy, most, others, passes):
        others = [guest(f'o{number}', host=name, server_group='i')
                  for number, name in enumerate(others)]
        rules = self.rules(
            guest(server_group='i'), others=others, groups=(
                offered_host.ServerGroup(
                    id='i', policy=offered_host.GroupPolicy(policy),
                    max_per_host=most),))
        self.assertIs(passes, not rules.group_refusal(
            self.guest, [one for one in others if one.host == 'h1']))
        self.assertIs(not policy.startswith('soft'),
                      rules.is_grouped(self.guest))

    def test_no_group(self):
        rules = self.rules(guest(server_group='gone'))
        self.assertEqual('', rules.group_refusal(self.guest, ()))
        self.assertFalse(rules.is_grouped(self.guest))


@ddt.ddt
class EvacuationTestCase(TestCase):

    @ddt.data('evacuations', 'last')
    def test_reserve(self, use):
        """Guests are evacuated to it, and not moved otherwise."""
        values = {'target': {'aggregates': ('spare',)}, 'aggregates': [
            offered_host.Aggregate(
                name='spare', metadata={'pinning:reserve': use})]}
        self.refused('is kept for guests of lost hosts', guest(), **values)
        rules = self.rules(guest(), **values)
        self.assertEqual('', rules.evacuation_host_refusal(
            self.guest, self.target))

    @ddt.data(('active', True), ('stopped', True), ('error', True),
              ('paused', False), ('', True))
    @ddt.unpack
    def test_states(self, state, passes):
        """That it is not to be moved does not matter any more."""
        rules = self.rules(guest(vm_state=state, metadata={
            'pinning:movable': 'false'}, devices=DEVICES))
        self.assertIs(passes, not rules.evacuation_refusal(self.guest))

    def test_tpm(self):
        rules = self.rules(guest(), specs={'hw:tpm_version': '2.0'})
        self.assertIn('has a TPM', rules.evacuation_refusal(self.guest))


class KeyTestCase(TestCase):
    """What is alike is judged alike."""

    def test_keys(self):
        rules = self.rules(guest())
        self.assertEqual(rules.guest_key(guest('a')),
                         rules.guest_key(guest('b')))
        for changes in ({'availability_zone': 'east'}, {'project': 'p'},
                        {'vm_state': 'stopped'}, {'devices': DEVICES},
                        {'cpu_model': 'Haswell'}):
            self.assertNotEqual(rules.guest_key(guest()),
                                rules.guest_key(guest(**changes)))
        self.assertNotEqual(*[rules.guest_key(guest(fit=model.Fit((
            model.CellFit(0, page_size_kib=size),)))) for size in (4, 2048)])
        self.assertEqual(rules.host_key(host('a')), rules.host_key(host('b')))
        for changes in ({'is_enabled': False}, {'cpu_model': None},
                        {'aggregates': ('a',)}, {'nova_cell': 'south'}):
            self.assertNotEqual(rules.host_key(host('a')),
                                rules.host_key(host('a', **changes)))
