# SPDX-License-Identifier: Apache-2.0
"""The pages about deployment tools have what acceptance tests take of them."""

import pathlib
import tempfile

import ddt
from nova.conf import scheduler
from oslo_config import cfg
from oslotest import base

from nova_pinning.conf import pinning
from nova_pinning.tests import deployment_page


@ddt.ddt
class TestPages(base.BaseTestCase):

    @ddt.data(
        ('kolla', 'python -m build'), ('kolla', 'kolla-build'),
        ('kolla', 'install -d'), ('kolla', 'kolla_set_configs'),
        ('kolla', 'kill -HUP'), ('packages', 'apt-get install'),
        ('packages', 'pip install'))
    @ddt.unpack
    def test_command(self, page, words):
        self.assertNotIn('\n', deployment_page.DeploymentPage(page).command(
            words))

    @ddt.data(
        ('kolla', 'nova-base-plugin'),
        ('kolla', 'nova_scheduler_extra_volumes'),
        ('openstack-ansible', 'nova_nova_conf_overrides'))
    @ddt.unpack
    def test_file(self, page, words):
        self.assertIn(words, deployment_page.DeploymentPage(page).block(words))

    @ddt.data('observe', 'enforce')
    def test_shadow_mode(self, mode):
        """Nova reads both lists of filters, and the mode."""
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()),
                            'nova.conf')
        path.write_text(deployment_page.in_mode(
            deployment_page.shadow_mode(metrics_directory='/metrics'), mode))
        conf = cfg.ConfigOpts()
        scheduler.register_opts(conf)
        pinning.register_opts(conf)
        conf([], default_config_files=[str(path)])
        self.assertEqual((mode, '/metrics'), (
            conf.pinning.mode, conf.pinning.metrics_directory))
        self.assertEqual(2, len(conf.filter_scheduler.available_filters))
        self.assertEqual(
            ['HostClassFilter', 'PinnedTopologyFilter', 'NUMATopologyFilter'],
            conf.filter_scheduler.enabled_filters[-3:])
