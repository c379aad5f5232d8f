# SPDX-License-Identifier: Apache-2.0

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

from oslo_config import cfg
from oslotest import base as oslotest
from requests_mock.contrib import fixture

from nova_pinning.bridge.importer import nova_placement
from nova_pinning import errors

URL = 'http://placement.example'


class NovaPlacementTestCase(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.http = self.useFixture(fixture.Fixture())

    def conf(self, text):
        [path] = self.create_tempfiles([('nova', text)], '.conf')
        conf = cfg.ConfigOpts()
        conf(['--config-file', path], project='nova')
        return conf

    def connect(self):
        return nova_placement.connect(self.conf(
            f'[placement]\nauth_type = none\nendpoint_override = {URL}\n'))

    def test_connected(self):
        self.http.get(f'{URL}/resource_providers', json={
            'resource_providers': []})
        self.assertEqual((), self.connect().providers())

    def test_fails(self):
        self.http.get(f'{URL}/resource_providers', status_code=403, json={})
        self.assertRaises(errors.CloudError, self.connect().providers)

    def test_not_told_how(self):
        error = self.assertRaises(
            errors.InputError, nova_placement.connect, self.conf('[x]\n'))
        self.assertIn('[placement]: it does not say how to log in', str(error))

    def test_nonsense(self):
        self.assertRaises(
            errors.InputError, nova_placement.connect,
            self.conf('[placement]\nauth_type = nonsense\n'))
