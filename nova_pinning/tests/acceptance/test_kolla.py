# SPDX-License-Identifier: Apache-2.0
"""Into shadow mode with Kolla, as its page says."""

import time

from nova_pinning.tests.acceptance import kolla_images
from nova_pinning.tests.acceptance import shadow_mode
from nova_pinning.tests import deployment_page

# As the page has it, in the container and on the machine.
_METRICS = '/var/lib/nova-pinning/metrics'


class TestKolla(shadow_mode.ShadowModeTest):

    page = deployment_page.DeploymentPage('kolla')

    @property
    def release(self):
        return kolla_images.release()

    def test_shadow_mode(self):
        kolla_images.make_base(self.engine)
        began = time.monotonic()
        image = kolla_images.build(self.engine, self.page, self.directory)
        (self.directory / 'globals.yml').write_text(
            self.page.block('nova_scheduler_extra_volumes'))
        (self.directory / 'nova.conf').write_text(
            self.nova_conf(log_dir='/var/log/kolla/nova'))
        self.engine.run(self._in_scratch(self.page.command('install -d')))
        added = [option for volume in self._configure('observe')
                 for option in ('--volume', self._in_scratch(volume))]
        self.assertIn(f'{self.metrics}:{_METRICS}', added)
        self.addCleanup(self.engine.run, [
            'docker', 'volume', 'rm', '--force', 'kolla_logs'])
        # As Kolla Ansible would.
        self.run_scheduler(
            '--env', 'KOLLA_CONFIG_STRATEGY=COPY_ALWAYS', '--env',
            'KOLLA_SERVICE_NAME=nova-scheduler', '--volume',
            f'{self.directory}/nova-scheduler:/var/lib/kolla/config_files:ro',
            '--volume', 'kolla_logs:/var/log/kolla/', *added, image)
        self.wait_for_self_test(began)
        self.judge()

    def log(self):
        path = (self.engine.directory / 'data' / 'volumes' / 'kolla_logs'
                / '_data' / 'nova' / 'nova-scheduler.log')
        return path.read_text() if path.exists() else ''

    def change_mode(self, mode):
        self._configure(mode)
        self.engine.run(self.page.command('kolla_set_configs'))
        self.engine.run(self.page.command('kill -HUP'))

    def _configure(self, mode):
        """Write what the container reads; returns volumes to be added."""
        (self.directory / 'nova-scheduler.conf').write_text(
            deployment_page.in_mode(deployment_page.shadow_mode(
                metrics_directory=_METRICS), mode))
        return kolla_images.configure(self.directory)

    def _in_scratch(self, text):
        """Return a command or volume with our directory for the machine's."""
        self.assertIn(_METRICS, text)
        return text.replace(_METRICS, str(self.metrics), 1)
