# SPDX-License-Identifier: Apache-2.0

import pathlib

import ddt
import fixtures

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import server_cloud
from nova_pinning.tests.unit.instance_bench.platforms import cloud_fakes
from nova_pinning.tests.unit import unit_base


@ddt.ddt
class TestCloud(unit_base.TestCase):

    def cloud(self, *servers, **how):
        self.compute = cloud_fakes.Connection(*servers, **how)
        return server_cloud.ServerCloud(self.compute, 'here')

    def test_boot(self):
        nova = self.cloud()
        made = nova.boot('a-0', 'f', 'i')
        self.assertEqual(f'{nova.run}-a-0', made.name)
        self.assertEqual('none', self.compute.asked[-1]['networks'])

    def test_runs_differ(self):
        self.assertNotEqual(self.cloud().run, self.cloud().run)

    def await_active(self, status, **more):
        nova = self.cloud()
        made = nova.boot('a-0', 'f', 'i')
        self.compute.there[made.id] = cloud_fakes.server(
            'a', status, id=made.id, **more)
        return nova.await_active(made, 10)

    def test_active(self):
        self.assertEqual('compute-1', self.await_active('BUILD').compute_host)
        self.assertEqual([10], self.compute.waited)

    @ddt.data(({'message': 'No valid host'}, 'No valid host'),
              (None, 'it transitioned to ERROR'))
    @ddt.unpack
    def test_error(self, fault, expected):
        error = self.assertRaises(
            bench_errors.InstanceError, self.await_active, 'ERROR',
            fault=fault)
        self.assertIn(f'-a-0: {expected}', str(error))
        self.assertIn('nova-scheduler', error.advice)

    def test_may_not_see_hosts(self):
        self.assertFalse(self.cloud(sees_hosts=False).sees_hosts())

    def test_only_ours(self):
        nova = self.cloud(cloud_fakes.server('nova-pinning-bench-1-a'),
                          cloud_fakes.server('x-nova-pinning-bench-1'))
        self.assertEqual(['nova-pinning-bench-1-a'],
                         [server.name for server in nova.servers()])

    def test_delete_waits(self):
        nova = self.cloud(cloud_fakes.server('nova-pinning-bench-1-a'))
        nova.delete(nova.servers())
        self.assertEqual({}, self.compute.there)
        self.assertEqual([server_cloud.DELETE_SECONDS], self.compute.waited)

    def test_delete_takes_too_long(self):
        nova = self.cloud(cloud_fakes.server('nova-pinning-bench-1-a'))
        self.compute.stays = True
        error = self.assertRaises(
            bench_errors.InstanceError, nova.delete, nova.servers())
        self.assertEqual('cloud here: nova-pinning-bench-1-a is there',
                         str(error))

    def test_one_cannot_be_deleted(self):
        nova = self.cloud(cloud_fakes.server('nova-pinning-bench-1-a'),
                          cloud_fakes.server('nova-pinning-bench-1-b'),
                          fails=('id-nova-pinning-bench-1-a',))
        self.assertRaises(bench_errors.InstanceError, nova.delete,
                          nova.servers())
        self.assertEqual(['id-nova-pinning-bench-1-b'], self.compute.deleted)

    def test_delete_own(self):
        nova = self.cloud()
        for name in (f'{nova.run}-a', 'nova-pinning-bench-1-a'):
            self.compute.there[f'id-{name}'] = cloud_fakes.server(name)
        nova.delete_own()
        self.assertEqual([f'id-{nova.run}-a'], self.compute.deleted)

    def test_sweep(self):
        nova = self.cloud()
        here = server_cloud.machine()
        for name, text in (
                (f'{nova.run}-a', here), ('nova-pinning-bench-1-left', here),
                ('nova-pinning-bench-1-elsewhere', 'other'),
                ('nova-pinning-bench-1-none', '')):
            self.compute.there[f'id-{name}'] = cloud_fakes.server(
                name, metadata={server_cloud.OWNER_KEY: text} if text else {})
        self.assertEqual(1, nova.sweep())
        self.assertEqual(['id-nova-pinning-bench-1-left'],
                         self.compute.deleted)


class TestMachine(unit_base.TestCase):

    def machine(self, machine_id, boot_id='b', namespace='pid:[1]'):
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for path, text in (('etc/machine-id', machine_id),
                           ('proc/sys/kernel/random/boot_id', boot_id)):
            (root / path).parent.mkdir(parents=True)
            (root / path).write_text(f'{text}\n')
        (root / 'proc/self/ns').mkdir(parents=True)
        (root / 'proc/self/ns/pid').symlink_to(namespace)
        return server_cloud.machine(str(root))

    def test_machines(self):
        one = self.machine('m')
        # Another boot is no other machine; what is made from the same image
        # without an ID, or another container, is.
        self.assertEqual(one, self.machine('m', boot_id='c'))
        self.assertNotEqual(one, self.machine('n'))
        self.assertNotEqual(one, self.machine('m', namespace='pid:[2]'))
        self.assertNotEqual(self.machine(''), self.machine('', boot_id='c'))

    def test_who_has_another_lock(self):
        """Its runs may go on at the same time."""
        one = self.machine('m')
        self.useFixture(fixtures.MonkeyPatch(
            'nova_pinning.instance_bench.workspace.PARENT',
            self.useFixture(fixtures.TempDir()).path))
        self.assertNotEqual(one, self.machine('m'))
