# SPDX-License-Identifier: Apache-2.0

import io
import pathlib
import tarfile

import ddt
import fixtures
from oslotest import base as oslotest

from benchmarks import azure
from nova_pinning import errors

FILES = {
    'flav_map.txt': '1,1.75 b\n8,56 o\n\n',
    'v1.interval_map.txt': '0 0\n300 1\n600 1\n',
    'v1.test.txt': '2100000 b,b,|,o,|\n2100600 b,|\n',
    'v1.test.c2591400.txt': '2100000 U0,U1,|,C1,|\n2100600 U0,|\n',
}


@ddt.ddt
class TestAzure(oslotest.BaseTestCase):

    def archive(self, **changes):
        path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path, 'azure.tar.xz')
        with tarfile.open(path, 'w:xz') as archive:
            for name, text in FILES.items():
                data = changes.get(name.replace('.', '_'), text).encode()
                member = tarfile.TarInfo(f'./{name}')
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return path

    def test_read(self):
        found = azure.read(self.archive())
        self.assertEqual(
            [(0.0, 'vm0', 0, 1, 1792), (100.0, 'vm1', 0, 1, 1792),
             (200.0, 'vm2', 1, 8, 57344), (600.0, 'vm3', 2, 1, 1792)],
            [machine[:5] for machine in found])
        short, longer, running, last = [
            machine.lifetime_seconds for machine in found]
        self.assertIsNone(running)
        for lifetime, low, high in ((short, 0, 300), (longer, 300, 900),
                                    (last, 0, 300)):
            self.assertTrue(low <= lifetime <= high, lifetime)

    @ddt.data(
        {'flav_map_txt': '1 b\n'}, {'v1_interval_map_txt': 'x 1\n'},
        {'v1_test_txt': '2100000 b,b,|,o,|\n'},
        {'v1_test_txt': FILES['v1.test.txt'].replace('o', 'z')},
        {'v1_test_c2591400_txt': FILES['v1.test.c2591400.txt'].replace(
            'U1', 'U9')})
    def test_changed(self, changes):
        error = self.assertRaises(
            errors.InputError, azure.read, self.archive(**changes))
        self.assertIn('or was changed', str(error))
