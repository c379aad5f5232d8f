# SPDX-License-Identifier: Apache-2.0
"""Into shadow mode with Debian's own packages of nova, as their page says."""

import sys
import time

from nova_pinning.tests.acceptance import kolla_images
from nova_pinning.tests.acceptance import shadow_mode
from nova_pinning.tests import deployment_page

_SUITE = 'trixie'
_IMAGE = 'nova-pinning/debian-nova-scheduler'
_METRICS = '/var/lib/nova/pinning'
_NOVA = """\
FROM {debian}
RUN echo 'APT::Get::Assume-Yes "true";' >/etc/apt/apt.conf.d/assume-yes \\
    && apt-get update && DEBIAN_FRONTEND=noninteractive {install}
"""
_WITH_US = """\
FROM {nova}
COPY {wheel} .
RUN {install}
RUN install -d -o nova -g nova {metrics}
USER nova
CMD ["nova-scheduler", "--config-file", "/etc/nova/nova.conf", \\
     "--log-file", "/var/log/nova/nova-scheduler.log"]
"""


class TestDebianPackages(shadow_mode.ShadowModeTest):
    """Those of Debian 13, without systemd."""

    page = deployment_page.DeploymentPage('packages')
    release = '2025.1'

    def test_shadow_mode(self):
        nova = f'{_IMAGE}:{_SUITE}'
        if not self.engine.has(nova):
            debian = self.engine.make_debian(_SUITE, (
                'adduser', 'ca-certificates', 'python3-pip'))
            self.engine.build(nova, _NOVA.format(
                debian=debian, install=self.page.command('apt-get install')),
                {})
        began = time.monotonic()
        self.engine.run([sys.executable, '-m', 'build', '--wheel', '--outdir',
                         self.directory, kolla_images.ROOT])
        wheel, = self.directory.glob('*.whl')
        self.engine.build(_IMAGE, _WITH_US.format(
            nova=nova, wheel=wheel.name, metrics=_METRICS,
            install=self.page.command('pip install').replace(
                'nova_pinning-1.0.0-py3-none-any.whl', wheel.name)),
            {wheel.name: wheel.read_bytes()})
        for directory in (self.metrics, self.directory / 'log'):
            directory.mkdir()
            # For nova, whose number only the container knows.
            directory.chmod(0o777)
        self._configure('observe')
        self.run_scheduler(
            '--volume', f'{self.directory}/nova.conf:/etc/nova/nova.conf',
            '--volume', f'{self.metrics}:{_METRICS}',
            '--volume', f'{self.directory}/log:/var/log/nova', _IMAGE)
        self.wait_for_self_test(began)
        self.judge()

    def log(self):
        path = self.directory / 'log' / 'nova-scheduler.log'
        return path.read_text() if path.exists() else ''

    def change_mode(self, mode):
        self._configure(mode)
        # In the place of systemctl.
        self.engine.run('kill -HUP '
                        "$(docker inspect -f '{{.State.Pid}}' nova_scheduler)")

    def _configure(self, mode):
        """Write nova.conf, which a container that runs has a hold of."""
        (self.directory / 'nova.conf').write_text(
            self.nova_conf() + deployment_page.in_mode(
                deployment_page.shadow_mode(metrics_directory=_METRICS),
                mode))
