# SPDX-License-Identifier: Apache-2.0
"""What systemd itself says of the units and drop-ins."""

import dataclasses
import os
import pathlib
import shutil
import subprocess

import ddt
import fixtures

from nova_pinning.host import hardware
from nova_pinning.host import render
from nova_pinning.host.render import options
from nova_pinning.host.render import systemd
from nova_pinning.host.render import tuned
from nova_pinning.tests.unit.host.render import render_samples
from nova_pinning.tests.unit import unit_base

_UNITS = 'etc/systemd/system/'
_ANALYZE = shutil.which('systemd-analyze')
_BY_AFFINITY = options.RenderOptions(
    confinement=options.Confinement.AFFINITY)


@ddt.ddt
class TestVerify(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        if _ANALYZE is None:
            self.skipTest('systemd-analyze is not installed')
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def _lay_out(self, files):
        """The units, with scripts that are there; returns their names."""
        names = set()
        for path, file in files.items():
            if not path.startswith(_UNITS):
                continue
            place = self.root / path.removeprefix(_UNITS)
            place.parent.mkdir(exist_ok=True)
            place.write_text(file.text.replace(
                '=/usr/local', f'={self.root}/usr/local'))
            names.add(path.removeprefix(_UNITS).split('/')[0].removesuffix(
                '.d'))
        for path, file in files.items():
            if file.executable:
                script = self.root / path
                script.parent.mkdir(parents=True, exist_ok=True)
                script.write_text(file.text)
                script.chmod(0o755)
        return names

    def _verify(self, names):
        """What systemd-analyze complains of."""
        done = subprocess.run(
            [_ANALYZE, '--man=no', '--generators=no', 'verify',
             *sorted(names)],
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env=os.environ | {
                # Empty at the end: the usual places after ours.
                'SYSTEMD_UNIT_PATH': f'{self.root}:'})
        return done.returncode, done.stderr

    @ddt.data(*options.Confinement)
    def test_units(self, confinement):
        host = render_samples.polling(pages=(1024, 512),
                                      system=hardware.System())
        names = self._lay_out(render.files(host, options.RenderOptions(
            confinement=confinement, services=('ceph-osd@1.service',))))
        for name in names:
            if name.endswith('.service') and not (self.root / name).exists():
                (self.root / name).write_text(
                    '[Service]\nExecStart=/bin/true\n')
        self.assertLess(1, len(names))
        self.assertEqual((0, ''), self._verify(names))

    def test_it_would_be_noticed(self):
        """Or else the test above would say nothing."""
        names = self._lay_out(render.files(
            render_samples.planned(), dataclasses.replace(
                _BY_AFFINITY, services=('nova-compute.service',))))
        for name in names:
            if not (self.root / name).exists():
                (self.root / name).write_text(
                    '[Service]\nExecStart=/bin/true\n')
        drop_in = next((self.root / 'nova-compute.service.d').iterdir())
        drop_in.write_text(drop_in.read_text().replace(
            'CPUAffinity=0', 'CPUAffinity=x'))
        self.assertIn("affinity 'x'", self._verify(names)[1])


@ddt.ddt
class TestServices(unit_base.TestCase):

    def test_a_service_by_name(self):
        wanted = dataclasses.replace(
            _BY_AFFINITY, services=('own.service', 'nova-compute.service'))
        files = render.files(render_samples.polling(), wanted)
        self.assertEqual(['own', 'nova-compute'], [
            path.split('/')[3].removesuffix('.service.d')
            for path in files if '.service.d/' in path])
        self.assertIn('\nCPUAffinity=\nCPUAffinity=0,4\n', files[
            f'{_UNITS}own.service.d/50-nova-pinning.conf'].text)

    @ddt.data(*options.Confinement)
    def test_confinement(self, confinement):
        files = render.files(render_samples.polling(),
                             options.RenderOptions(confinement=confinement))
        self.assertNotIn('.service.d/', ' '.join(files))
        self.assertEqual(confinement == 'affinity',
                         systemd.MANAGER_PATH in files)
        self.assertEqual(confinement == 'tuned', tuned.PATH in files)
