# SPDX-License-Identifier: Apache-2.0
"""What an upgrade hits, and when."""

import collections
import dataclasses

import ddt

from nova_pinning.checks import check_rule
from nova_pinning import errors
from nova_pinning.fleet import snapshot
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.tests.unit import unit_base
from nova_pinning.tests.unit.upgrade import test_hits
from nova_pinning.upgrade import defect_model
from nova_pinning.upgrade import hits
from nova_pinning.upgrade import known_hits
from nova_pinning.upgrade import nova_version
from nova_pinning.upgrade import register
from nova_pinning.upgrade import upgrade_check

ERROR, WARNING, NOTE = check_rule.Severity
SHARED = model.CpuPolicy.SHARED
LIVE_MIGRATION = defect_model.Operation.LIVE_MIGRATION


def guest(uuid, host, *sizes, **changes):
    return dataclasses.replace(
        test_hits.guest(*sizes, **changes), uuid=uuid, host=host)


def host(name, release=None, **changes):
    return dataclasses.replace(
        test_hits.host(**changes), name=name, nova_release=release)


def fleet(*hosts, guests=()):
    return snapshot.Fleet(hosts=hosts, guests=tuple(guests))


def check(found, before, after, upgraded_at=''):
    upgrade = upgrade_check.upgrade_of(found, before, after, upgraded_at)
    return upgrade_check.check(found, upgrade, 'fleet.json')


def of_code(report, code):
    return [finding for finding in report.findings if finding.code == code]


class TestUpgradeCheck(unit_base.TestCase):

    def one(self, before, after, release=None, launched_at='', upgraded_at=''):
        found = fleet(host('h', release), guests=[guest(
            'g', 'h', 2, launched_at=launched_at)])
        return of_code(check(found, before, after, upgraded_at), 'U101')

    def test_without_iothread(self):
        finding, = self.one('2025.1', '2026.1')
        self.assertEqual(
            ('guest g', ERROR, ['during', 'after'], '2152697',
             {'2026.2': '34.0.0'}, ()),
            (finding.subject, finding.severity, finding.details['phases'],
             finding.details['bug'], finding.details['fixed'],
             finding.remediation))
        self.assertIn('was started before 2026.1', finding.message)
        self.assertIn('drain a host while its nova-compute is still the old',
                      finding.advice)

    def test_floating_without_iothread(self):
        """Nova pins the emulator threads of floating cells as well."""
        found = fleet(host('h', '2026.1'), guests=[
            guest('a', 'h', 0, policy=SHARED, floating=2),
            guest('b', 'h')])
        for code, before, after in (('U101', '2026.1', '2026.2'),
                                    ('U102', '2025.1', '2026.1')):
            finding, = of_code(check(found, before, after), code)
            self.assertEqual('guest a', finding.subject)
            self.assertIn('it has NUMA cells', finding.message)

    def test_release_without_it(self):
        self.assertEqual([], self.one('2025.1', '2025.2'))

    def test_to_the_fixed_release(self):
        """While hosts run the old one, guests cannot leave them."""
        finding, = self.one('2026.1', '2026.2')
        self.assertEqual(['during'], finding.details['phases'])
        self.assertEqual((), finding.remediation)
        self.assertIn('upgrade nova-compute with these guests on its host',
                      finding.advice)
        self.assertNotIn('still the old one', finding.advice)

    def test_started_by_the_new_release(self):
        launched, upgraded = '2026-06-02T00:00:00Z', '2026-06-01T00:00:00Z'
        self.assertEqual([], self.one(
            '2025.1', '2026.1', '2026.1', launched, upgraded))
        for told in ((upgraded, launched), ('', upgraded), (launched, '')):
            finding, = self.one('2025.1', '2026.1', '2026.1', *told)
            self.assertEqual(('openstack server reboot --hard --wait g',),
                             finding.remediation)
            self.assertIn('unless it was restarted on 2026.1',
                          finding.message)
        # On a host that is not upgraded it cannot have been.
        self.assertEqual(1, len(self.one(
            '2025.1', '2026.1', '2025.1', launched, upgraded)))

    def test_way_back(self):
        """Only what the new release has started has an I/O thread."""
        found = fleet(host('new', '2026.1'), host('old', '2025.1'), guests=[
            guest('a', 'new', 2), guest('b', 'old', 2)])
        report = check(found, '2025.1', '2026.1')
        finding, = of_code(report, 'U102')
        self.assertEqual(('guest a', ['during']),
                         (finding.subject, finding.details['phases']))
        self.assertEqual([], of_code(
            check(found, '2026.1', '2026.2'), 'U102'))

    def test_of_the_conductor(self):
        """Nova-conductor runs the new release from the start."""
        found = fleet(host('h'), guests=[
            guest('g', 'h', 1, policy=test_hits.MIXED, floating=1)])
        for before, after, phases in (
                ('2025.1', '2026.1', ['during', 'after']),
                ('2026.1', '2026.2', None)):
            findings = of_code(check(found, before, after), 'U103')
            self.assertEqual(phases, findings[0].details['phases']
                             if findings else None)

    def test_of_the_computes(self):
        found = fleet(host('h', pci_pools=test_hits.near(2)),
                      guests=[guest('g', 'h', 2)])
        finding, = of_code(check(found, '2026.1', '2026.2'), 'U201')
        self.assertEqual(['during'], finding.details['phases'])
        self.assertIn('as on 2026.1', finding.message)

    def test_not_new(self):
        """What an upgrade neither brings nor meets is a note."""
        found = fleet(host('h'), guests=[guest(
            'g', 'h', 2, 4, devices=test_hits.DEVICES)])
        report = check(found, '2025.1', '2026.1')
        severities = {finding.code: finding.severity
                      for finding in report.findings}
        self.assertEqual(NOTE, severities['U205'])
        # Hosts are drained by live migration.
        self.assertEqual(WARNING, severities['U104'])

    def test_cannot_start(self):
        found = fleet(host('h'), guests=[guest('g', 'h')])
        finding, = of_code(check(found, '2025.1', '2026.1'), 'U302')
        self.assertEqual(('host h', ERROR),
                         (finding.subject, finding.severity))

    def test_too_old(self):
        found = fleet(host('a', '2024.1'), host('b', '2025.1'))
        finding, = of_code(check(found, '2025.1', '2026.1'), 'U901')
        self.assertEqual('runs 2024.1; 2026.1 takes no older than 2025.1',
                         finding.message)

    def test_too_new(self):
        found = fleet(host('a', '2026.2'), host('b', '2025.1'))
        finding, = of_code(check(found, '2025.1', '2026.1'), 'U902')
        self.assertEqual('host a', finding.subject)

    def test_point_release(self):
        found = fleet(host('h'), guests=[guest(
            'g', 'h', 2, devices=test_hits.DEVICES)])
        self.assertEqual([], of_code(
            check(found, '2025.1', '2026.1'), 'U105'))
        finding, = of_code(check(found, '31.0.0', '2026.1'), 'U105')
        self.assertEqual(['during'], finding.details['phases'])

    def test_from_is_the_oldest(self):
        found = fleet(host('a', '2025.2'), host('b', '2025.1'))
        self.assertEqual('2025.1', check(found, '', '2026.1').head['from'][
            'release'])

    def test_versions_not_told(self):
        found = fleet(host('a'))
        error = self.assertRaises(
            errors.InputError, check, found, '', '2026.1')
        self.assertIn('does not tell which nova its hosts run; say it with '
                      '--from', str(error))
        report = check(found, '2025.1', '2026.1')
        self.assertEqual(
            ['the snapshot names no release of nova that is known here for '
             'host a; taken for 2025.1 (nova 31.3.1)'],
            report.head['remarks'])

    def test_newer_than_tested(self):
        found = fleet(host('a', '2026.2'))
        for after in ('2027.1', '35.0.0'):
            remark, = check(found, '', after).head['remarks']
            self.assertIn(f'{after} is newer than 2026.2', remark)

    def test_between_tested_ones(self):
        remark, = check(fleet(host('a', '2024.2')), '', '2025.1').head[
            'remarks']
        self.assertTrue(remark.startswith(
            '2024.2 (nova 30.3.0) is not among the releases that all this is '
            'tested with: what is told of it is not tried'), remark)

    def test_undated_guests(self):
        found = fleet(host('a', '2025.1'), guests=[guest('g', 'a', 1)])
        remark, = check(found, '', '2026.1').head['remarks']
        self.assertIn('when 1 guest was launched', remark)

    def test_guest_on_no_host(self):
        dated = {'launched_at': '2026-01-01T00:00:00Z'}
        found = fleet(host('a', '2025.1'), guests=[
            guest('g', 'b', 1, **dated), guest('i', 'c', 1, **dated)])
        report = check(found, '', '2026.1')
        self.assertEqual((), report.findings)
        self.assertEqual(
            ['nothing is told of 2 guests on hosts that are not in the fleet, '
             'such as b'], report.head['remarks'])

    def test_stopped(self):
        """Nova live-migrates no such guest, and starts it from new XML."""
        dated = {'launched_at': '2026-01-01T00:00:00Z'}
        for state, codes in (
                ('', ['U101']), ('active', ['U101']), ('paused', ['U101']),
                ('stopped', []), ('shelved', [])):
            found = fleet(host('a', '2025.1'), guests=[
                guest('g', 'a', 1, vm_state=state, **dated)])
            report = check(found, '', '2026.1')
            self.assertEqual(
                codes, [finding.code for finding in report.findings
                        if finding.code == 'U101'], state)
            self.assertEqual(
                [] if codes else [
                    'nothing of live migration is told of 1 guest in a state '
                    'in which nova moves none live, such as stopped'],
                report.head['remarks'])

    def test_stopped_guest_of_other_defects(self):
        """What other operations do wrong too hits it as well."""
        found = fleet(host('h', pci_pools=test_hits.near(2)), guests=[
            guest('g', 'h', 2, vm_state='stopped')])
        self.assertEqual(1, len(of_code(
            check(found, '2025.1', '2026.1'), 'U201')))

    def test_nothing(self):
        found = fleet(host('a', '2025.1'), guests=[])
        report = check(found, '', '2026.1')
        self.assertEqual((), report.findings)
        self.assertEqual('nothing found in 1 hosts and 0 guests, from 2025.1 '
                         '(nova 31.3.1) to 2026.1 (nova 33.0.2)',
                         report.totals)

    def test_details_count(self):
        report = check(fleet(host('a', '2025.1'), host('b')), '', '2026.1')
        self.assertEqual({'2025.1': 2}, report.head['releases'])


@ddt.ddt
class TestPhases(unit_base.TestCase):

    @ddt.data(*register.shipped().defects)
    def test_follow_from_the_register(self, defect):
        """Each pair of releases by hand: who runs what, and has it."""
        defects = register.shipped()
        versions = [defects.of_release(name) for name in defects.newest]
        for before in versions:
            for after in versions:
                try:
                    nova_version.check_path(before, after)
                except errors.InputError:
                    continue
                for own in (before, after):
                    told = upgrade_check.phases(
                        defect, upgrade_check.NovaUpgrade(before, after), own)
                    self.assertEqual(
                        self.expected(defect, before, after, own), set(told))

    @staticmethod
    def expected(defect, before, after, own):
        if defect.beside:
            return {upgrade_check.UpgradePhase.DURING} if (
                own.release >= defect.beside
                and defect.affects(before)) else set()
        running = {upgrade_check.UpgradePhase.AFTER: [after],
                   upgrade_check.UpgradePhase.DURING: [after]}
        if defect.service == 'nova-compute':
            running[upgrade_check.UpgradePhase.DURING].append(own)
        return {phase for phase, found in running.items()
                if any(map(defect.affects, found))}


class TestKnownDefects(unit_base.TestCase):

    def told(self, place, version=None):
        known = known_hits.KnownDefects(
            register.shipped().version(version, '') if version else None)
        return collections.Counter(
            hit.defect.code for hit in known.hitting(LIVE_MIGRATION, place))

    def test_by_the_host(self):
        place = hits.GuestOnHost(guest('g', 'h', 2), host('h', '2026.1'))
        self.assertEqual({'U101': 1}, self.told(place))
        self.assertEqual({'U101': 1}, self.told(place, '2025.1'))

    def test_by_the_usual(self):
        place = hits.GuestOnHost(guest('g', 'h', 2), host('h'))
        self.assertEqual({}, self.told(place))
        self.assertEqual({'U101': 1}, self.told(place, '33.0.2'))
        self.assertEqual({}, self.told(place, '2026.2'))

    def test_stopped(self):
        place = hits.GuestOnHost(
            guest('g', 'h', 2, vm_state='stopped'), host('h', '2026.1'))
        self.assertEqual({}, self.told(place))

    def test_unknown_place(self):
        for host_class, expected in (
                (hostclass.HostClass.DEDICATED, {'U101': 1}),
                (hostclass.HostClass.SHARED, {})):
            self.assertEqual(expected, self.told(known_hits.unknown_place(
                'g', 'h', host_class), '2026.1'))

    def test_unknown_place_with_cells(self):
        """Which a shared guest has where its flavor asks for them."""
        self.assertEqual({'U101': 1, 'U103': 1}, self.told(
            known_hits.unknown_place(
                'g', 'h', hostclass.HostClass.SHARED, True), '2026.1'))

    def test_sentence(self):
        place = hits.GuestOnHost(guest('g', 'h', 2), host('h', '2026.1'))
        hit, = known_hits.KnownDefects().hitting(LIVE_MIGRATION, place)
        self.assertEqual(
            'guest with NUMA cells that has not been restarted cannot be '
            'live-migrated (bug 2152697): it has pinned CPUs, unless it was '
            'restarted on 2026.1', known_hits.told([hit]))
        self.assertEqual(
            ('U101', '2152697', {'2026.2': '34.0.0'}, False),
            tuple(hit.as_dict()[key]
                  for key in ('code', 'bug', 'fixed', 'is_sure')))
