# SPDX-License-Identifier: Apache-2.0
"""Hosts kept for guests of lost hosts, under nova's own services."""

from demo import cloud
from nova_pinning.scheduler import reserve
from nova_pinning.tests.functional import functional_base


class TestReserve(functional_base.TestCase):

    def setUp(self):
        super().setUp()
        reserve.forget()
        self.addCleanup(reserve.forget)
        for name in ('one', 'spare'):
            self.nova.start_host(name, functional_base.small_host())
        self.flavor = self.enterprise_flavor()

    def keep(self, use):
        self.nova.create_aggregate('kept', ['spare'],
                                   {'pinning:reserve': use})

    def test_evacuations(self):
        self.keep('evacuations')
        server = self.nova.boot('a', self.flavor)
        self.assert_active([server], 'one')
        self.assert_refused(self.nova.boot('b', self.flavor),
                            'the host is kept for guests of lost hosts')
        # One that is moved off a host that is well is no better.
        self.assertRaises(cloud.RefusedError, self.nova.migrate, server)
        self.nova.fail_host('one')
        self.assertEqual('spare', self.nova.evacuate(server).host)

    def test_last(self):
        self.keep('last')
        self.assert_active([self.nova.boot('a', self.flavor)], 'one')
        self.assert_active([self.nova.boot('b', self.flavor)], 'spare')
