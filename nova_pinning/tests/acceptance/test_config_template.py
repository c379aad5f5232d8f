# SPDX-License-Identifier: Apache-2.0
"""What OpenStack-Ansible's own parser makes of the variables on its page."""

import pathlib
import tempfile

from nova.conf import scheduler
from oslo_config import cfg
import testtools

from nova_pinning.conf import pinning
from nova_pinning.tests.acceptance import kolla_images
from nova_pinning.tests import deployment_page

# As the role's own template has them.
_TEMPLATE = """\
[filter_scheduler]
enabled_filters = {{ nova_scheduler_default_filters | join(',') }}
"""


class TestConfigTemplate(testtools.TestCase):

    def test_shadow_mode(self):
        """Nova reads the same as on the page about nova.conf."""
        directory = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory()))
        page = deployment_page.DeploymentPage('openstack-ansible')
        (directory / 'variables.yml').write_text(
            page.block('nova_nova_conf_overrides'))
        (directory / 'template.j2').write_text(_TEMPLATE)
        kolla_images.play(directory, directory / 'variables.yml', [
            {'config_template': {
                'src': str(directory / 'template.j2'),
                'dest': str(directory / 'nova.conf'), 'config_type': 'ini',
                'config_overrides': '{{ nova_nova_conf_overrides }}'}}])
        (directory / 'shadow.conf').write_text(deployment_page.shadow_mode())
        ansible, plain = (self._read(directory / name) for name in (
            'nova.conf', 'shadow.conf'))
        self.assertEqual('observe', ansible.pinning.mode)
        for option in ('available_filters', 'weight_classes'):
            self.assertEqual(plain.filter_scheduler[option],
                             ansible.filter_scheduler[option])
        enabled = ansible.filter_scheduler.enabled_filters
        self.assertEqual(plain.filter_scheduler.enabled_filters[-3:],
                         enabled[-3:])
        self.assertLessEqual(set(plain.filter_scheduler.enabled_filters),
                             set(enabled))

    def _read(self, path):
        conf = cfg.ConfigOpts()
        scheduler.register_opts(conf)
        pinning.register_opts(conf)
        conf([], default_config_files=[str(path)])
        return conf
