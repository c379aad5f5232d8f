# SPDX-License-Identifier: Apache-2.0

import collections

from nova_pinning.tests.oracle import claims
from nova_pinning.tests.oracle import fleet_oracle
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import shrink
from nova_pinning.tests.unit.oracle import oracle_cases


class TestFleets(oracle_cases.TestCase):

    def test_reproducible(self):
        for number in range(50):
            case = fleet_oracle.fleet(7, number)
            self.assertEqual(case.data, fleet_oracle.fleet(7, number).data)
            self.assertEqual(
                case.data, oracle_case.Case.parse(str(case)).data)
        self.assertNotEqual(fleet_oracle.fleet(7, 1).data,
                            fleet_oracle.fleet(8, 1).data)

    def test_what_there_is_to_see(self):
        seen = collections.Counter()
        count = 500
        for number in range(count):
            data = fleet_oracle.fleet(3, number).data
            guest, pci = data['guest'], data['pci']
            vcpus = {len(cell['dedicated']) + len(cell['shared'])
                     for cell in guest['cells']}
            seen['uneven vCPUs'] += len(vcpus) > 1
            seen['uneven memory'] += len(
                {cell['memory'] for cell in guest['cells']}) > 1
            seen['fleet'] += bool(data['others'])
            seen['hasty'] += data['hasty']
            seen['odd'] += data['odd']
            seen['first vCPU floats'] += (
                guest['policy'] == 'mixed' and len(guest['cells']) == 2 and
                [len(cell['shared']) for cell in guest['cells']] == [1, 0])
            seen['host cells', len(data['host'])] += 1
            seen['guest cells', len(guest['cells'])] += 1
            seen['networks'] += bool(data['limits']['network'])
            for key in ('policy', 'emulator', 'threads', 'pagesize'):
                seen[key, guest[key]] += 1
            if pci:
                seen['pools'] += len(pci['pools']) > 1
                seen['mapping'] += bool(pci['mapping'])
                for request in pci['requests']:
                    seen['devices', request['policy']] += 1
        for key in ('uneven vCPUs', 'uneven memory'):
            self.assertGreater(seen[key], count / 4, key)
        for key in ('fleet', 'pools', 'first vCPU floats',
                    ('emulator', 'isolate'), ('host cells', 2),
                    ('host cells', 4), ('policy', 'mixed'),
                    ('pagesize', -2), ('pagesize', -3)):
            self.assertGreater(seen[key], 20, key)
        for key in ('hasty', 'odd', 'mapping', 'networks', ('host cells', 8),
                    ('guest cells', 3), ('guest cells', 4),
                    ('pagesize', -1), ('pagesize', 4), ('pagesize', 2048),
                    ('pagesize', 1048576), ('threads', 'require'),
                    ('devices', 'required'), ('devices', 'legacy'),
                    ('devices', 'preferred'), ('devices', 'socket')):
            self.assertGreater(seen[key], 2, key)

    def test_hosts(self):
        case = next(
            case for case in (fleet_oracle.fleet(1, n) for n in range(1000))
            if len(case.data['others']) > 1 and case.data['pci'])
        hosts = fleet_oracle.hosts(case)
        self.assertEqual(case.data, hosts[0].data)
        self.assertEqual(len(case.data['others']) + 1, len(hosts))
        for host, other in zip(hosts[1:], case.data['others'], strict=True):
            self.assertEqual(other['host'], host.data['host'])
            self.assertEqual(other['pools'], host.data['pci']['pools'])
            self.assertEqual(case.data['pci']['requests'],
                             host.data['pci']['requests'])
            self.assertEqual(case.data['guest'], host.data['guest'])
            self.assertEqual(1, len(fleet_oracle.hosts(host)))

    def test_limits(self):
        """In nova-scheduler there always are some."""
        host, = fleet_oracle.hosts(oracle_cases.plain())
        self.assertIsNotNone(host.limits())

    def test_claims_that_are_right(self):
        """Enough of them, and enough that are not."""
        hosts = [host for number in range(400)
                 for host in fleet_oracle.hosts(fleet_oracle.fleet(5, number))]
        right = 0
        for host in hosts:
            with host.configured():
                right += not claims.claim(host, host.host(), range(
                    len(host.data['guest']['cells'])))
        self.assertTrue(0.2 < right / len(hosts) < 0.7, right / len(hosts))

    def test_shrink(self):
        """Of the hosts, only the one that matters is left."""
        case = next(
            case for case in (fleet_oracle.fleet(1, n) for n in range(1000))
            if len(case.data['others']) > 2 and
            max(map(len, (o['host'] for o in case.data['others']))) > 2)

        def holds(case):
            return any(len(host.data['host']) > 2
                       for host in fleet_oracle.hosts(case)) and bool(
                fleet_oracle.hosts(case)[-1].inputs())

        small = shrink.shrink(case, holds)
        self.assertEqual([], small.data['others'])
        self.assertEqual(3, len(small.data['host']))
        self.assertFalse(small.data['hasty'])
