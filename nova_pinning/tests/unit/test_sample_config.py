# SPDX-License-Identifier: Apache-2.0

import pathlib

from oslo_config import generator
from oslotest import base

import nova_pinning

CHECKOUT = pathlib.Path(nova_pinning.__file__).resolve().parent.parent
ETC = CHECKOUT / 'etc' / 'nova-pinning'


class SampleConfigTest(base.BaseTestCase):

    def test_is_up_to_date(self):
        self.check('config-generator.conf', 'nova-pinning.conf.sample')

    def test_agent(self):
        self.check('agent-generator.conf', 'agent.conf.sample')

    def test_exporter(self):
        self.check('exporter-generator.conf', 'exporter.conf.sample')

    def check(self, generated_by, name):
        if not ETC.is_dir():
            self.skipTest('not run from a checkout')
        new = self.create_tempfiles([('new', '')])[0]
        generator.main([
            '--config-file', str(ETC / generated_by),
            '--output-file', new])
        old = ETC / name
        if old.read_text() != pathlib.Path(new).read_text():
            self.fail(f'{old.name} is stale; run tox -e genconfig')
