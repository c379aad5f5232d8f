# SPDX-License-Identifier: Apache-2.0


import io

from oslotest import base

from nova_pinning.cli import base_command
from nova_pinning.presentation import failover_report
from nova_pinning.rebalance import failover_model

_YES, _NO, _UNKNOWN = failover_model.SurvivalVerdict


def _down(name='db-1', reason='no host has room for it', **values):
    return failover_model.DownGuest(**{
        'guest': f'uuid-{name}', 'name': name, 'host': 'a', 'vcpus': 8,
        'memory_mib': 16384, 'reason': reason, **values})


def _loss(name, verdict=_YES, **values):
    return failover_model.HostLoss(**{
        'name': name, 'hosts': (name,), 'guests': 3, 'vcpus': 24,
        'verdict': verdict, 'is_unguided': True, **values})


def _report(*losses, groups='host', **values):
    return failover_model.FailoverReport(groups=groups, losses=losses,
                                         **values)


_LOST = _loss('a', _NO, down=(_down(), _down('db-2')), least_down=1)


class TestReport(base.BaseTestCase):

    def _shown(self, report, width=100, **values):
        out = io.StringIO()
        failover_report.show(report, base_command.console(out, width),
                             **values)
        return out.getvalue()

    def test_survived(self):
        shown = self._shown(_report(_loss('a'), _loss('b')))
        self.assertIn('The fleet survives the loss of any one host', shown)
        self.assertIn('2 of 2 losses are survived', shown)
        self.assertNotIn('If a host is lost', shown)
        self.assertIn('If a host is lost', self._shown(
            _report(_loss('a'), _loss('b')), lists_all=True))

    def test_lost(self):
        shown = self._shown(_report(_LOST, _loss('b')))
        self.assertIn('does not survive the loss of any one host: 1 of 2',
                      shown)
        row = next(line for line in shown.splitlines()
                   if line.startswith('a '))
        self.assertEqual(['a', '3', '24'], row.split()[:3])
        self.assertEqual(['2', '1'], row.split()[3:])
        for name in ('db-1', 'db-2'):
            self.assertIn(name, shown)

    def test_many_losses(self):
        # The worst first.
        report = _report(*(
            _loss(f'h{number}', _NO, least_down=number + 1, down=tuple(
                _down(f'{number}-{guest}') for guest in range(number + 1)))
            for number in range(25)))
        shown = self._shown(report)
        self.assertLess(shown.index('h24'), shown.index('h23'))
        self.assertNotIn('h2 ', shown)
        self.assertIn('and 5 more, with --all', shown)
        self.assertIn('h2 ', self._shown(report, lists_all=True))

    def test_unknown(self):
        shown = self._shown(_report(_loss('a', _UNKNOWN, down=(_down(),)),
                                    _loss('b')))
        self.assertIn('It is not known whether', shown)

    def test_unguided(self):
        shown = self._shown(_report(_loss('a', is_unguided=False),
                                    _loss('b')))
        self.assertIn('1 of them only with the hosts named to nova', shown)

    def test_racks(self):
        lost = _loss('rack-a', _NO, hosts=('a', 'b'), down=(_down(),),
                     least_down=1)
        report = _report(lost, _loss('rack-b'), groups='rack',
                         ungrouped=('z',))
        shown = self._shown(report)
        self.assertIn('any one rack', shown)
        self.assertIn('If a rack is lost', shown)
        self.assertIn('1 host in no such group: z.', shown)
        self.assertIn('an aggregate', self._shown(
            _report(_LOST, groups='aggregate')))
        self.assertIn('does not survive the loss of rack-a\n', self._shown(
            _report(lost, groups='rack-a')))

    def test_many_guests(self):
        report = _report(_loss('a', _NO, least_down=30, down=tuple(
            _down(f'g{number}') for number in range(30))))
        shown = self._shown(report)
        self.assertIn('and 10 more, with --all', shown)
        self.assertNotIn('g29', shown)
        self.assertIn('g29', self._shown(report, lists_all=True))

    def test_reserve(self):
        def reserve(**values):
            return ' '.join(self._shown(_report(
                _LOST, reserve=failover_model.FailoverReserve(
                    **values))).split())

        self.assertIn('None is needed', reserve())
        text = reserve(hosts=(failover_model.ReserveHosts(
            like='b', count=2),), least=2)
        self.assertIn('2 empty hosts like b are enough', text)
        self.assertIn('It is proved that fewer will not do.', text)
        text = reserve(hosts=(failover_model.ReserveHosts(
            like='b', count=2),), least=1)
        self.assertIn('but that 1 at least are needed', text)
        text = reserve(unmended=(('a', 'a guest has a GPU'),))
        self.assertIn('No further hosts mend these: a a guest has a GPU',
                      text)

    def test_documents(self):
        report = _report(_LOST, _loss('b'), taken_at='2026-06-01T12:00:00Z')
        rows = list(failover_report.losses(report, report.losses).records())
        self.assertEqual([2, 0], [row['down'] for row in rows])
        found = failover_report.as_dict(report)
        self.assertEqual(('no', 'host'), (found['verdict'], found['groups']))
        self.assertEqual(['uuid-db-1', 'uuid-db-2'], [
            guest['guest'] for guest in found['losses'][0]['down']])
