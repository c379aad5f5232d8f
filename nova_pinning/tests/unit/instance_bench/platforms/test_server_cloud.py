# SPDX-License-Identifier: Apache-2.0

import os
import pathlib

import ddt
import fixtures
import testtools

from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import server_cloud
from nova_pinning.tests.unit.instance_bench.platforms import cloud_fakes
from nova_pinning.tests.unit.instance_bench.platforms import platform_fakes


class CloudTestCase(testtools.TestCase):

    def cloud(self, *servers, **how):
        self.compute = cloud_fakes.Connection(*servers, **how)
        self.time = self.useFixture(platform_fakes.PassingTime())
        return server_cloud.ServerCloud(self.compute, 'here')


class TestCloud(CloudTestCase):

    def test_boot(self):
        nova = self.cloud()
        made = nova.boot('a-0', 'f', 'i')
        self.assertEqual(f'{nova.run}-a-0', made.name)
        self.assertEqual('none', self.compute.asked[-1]['networks'])
        self.assertEqual(nova.owner, made.owner)

    def test_runs_differ(self):
        self.assertNotEqual(self.cloud().run, self.cloud().run)

    def await_active(self, *answers):
        nova = self.cloud()
        self.compute.answers = list(answers)
        return nova.await_active(nova.boot('a-0', 'f', 'i'), 10)

    def test_active(self):
        found = self.await_active(
            cloud_fakes.server('a', 'BUILD'), cloud_fakes.server(
                'a', compute_host='h'))
        self.assertEqual('h', found.host)

    def test_error(self):
        error = self.assertRaises(
            bench_errors.InstanceError, self.await_active,
            cloud_fakes.server(
                'a', 'ERROR', fault={'message': 'No valid host'}))
        self.assertIn('could not boot server a: No valid host', str(error))

    def test_late(self):
        error = self.assertRaises(
            bench_errors.InstanceError, self.await_active,
            *[cloud_fakes.server('a', 'BUILD')] * 100)
        self.assertEqual('server a is BUILD after 10 s', str(error))

    def test_may_not_see_hosts(self):
        self.assertFalse(self.cloud(sees_hosts=False).sees_hosts())

    def test_only_ours(self):
        nova = self.cloud(cloud_fakes.server('nova-pinning-bench-1-a'),
                          cloud_fakes.server('x-nova-pinning-bench-1'))
        self.assertEqual(['nova-pinning-bench-1-a'],
                         [server.name for server in nova.servers()])

    def test_delete_waits(self):
        nova = self.cloud(cloud_fakes.server('nova-pinning-bench-1-a'))
        self.compute.stays = 3
        nova.delete(nova.servers())
        self.assertEqual({}, self.compute.there)
        self.assertLess(0, self.time.now)

    def test_delete_takes_too_long(self):
        nova = self.cloud(cloud_fakes.server('nova-pinning-bench-1-a'))
        self.compute.stays = 1000
        error = self.assertRaises(
            errors.CloudError, nova.delete, nova.servers())
        self.assertIn('1 are still there after 120 s', str(error))

    def test_one_cannot_be_deleted(self):
        nova = self.cloud(cloud_fakes.server('nova-pinning-bench-1-a'),
                          cloud_fakes.server('nova-pinning-bench-1-b'),
                          fails=('id-nova-pinning-bench-1-a',))
        self.assertRaises(errors.CloudError, nova.delete, nova.servers())
        self.assertEqual(['id-nova-pinning-bench-1-b'], self.compute.deleted)

    def test_delete_own(self):
        nova = self.cloud()
        for name in (f'{nova.run}-a', 'nova-pinning-bench-1-a'):
            self.compute.there[f'id-{name}'] = cloud_fakes.server(name)
        nova.delete_own()
        self.assertEqual([f'id-{nova.run}-a'], self.compute.deleted)

    def test_sweep(self):
        nova = self.cloud()
        owner = nova.owner
        names = {
            'mine': str(owner),
            'gone': f'{owner.machine} {owner.pid} {owner.started + 1}',
            'elsewhere': f'other {owner.pid} {owner.started + 1}',
            'odd': 'what is this', 'none': ''}
        for name, text in names.items():
            name = f'nova-pinning-bench-1-{name}'
            self.compute.there[f'id-{name}'] = cloud_fakes.server(
                name, metadata={server_cloud.OWNER_KEY: text} if text else {})
        self.assertEqual(1, nova.sweep())
        self.assertEqual(['id-nova-pinning-bench-1-gone'],
                         self.compute.deleted)


@ddt.ddt
class TestOwner(testtools.TestCase):

    def test_myself(self):
        owner = server_cloud.myself()
        self.assertEqual(os.getpid(), owner.pid)
        self.assertFalse(owner.has_gone())
        self.assertEqual(owner, server_cloud.Owner.parse(str(owner)))

    def machine(self, machine_id, boot_id='b', namespace='pid:[1]'):
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for path, text in (('etc/machine-id', machine_id),
                           ('proc/sys/kernel/random/boot_id', boot_id)):
            (root / path).parent.mkdir(parents=True)
            (root / path).write_text(f'{text}\n')
        (root / 'proc/self/ns').mkdir(parents=True)
        (root / 'proc/self/ns/pid').symlink_to(namespace)
        return server_cloud.myself(str(root)).machine

    def test_machines(self):
        one = self.machine('m')
        # Another boot is no other machine; what is made from the same image
        # without an ID, or another container, is.
        self.assertEqual(one, self.machine('m', boot_id='c'))
        self.assertNotEqual(one, self.machine('n'))
        self.assertNotEqual(one, self.machine('m', namespace='pid:[2]'))
        self.assertNotEqual(self.machine(''), self.machine('', boot_id='c'))

    @ddt.data('', 'a b', 'a b c', '1 2 3 4')
    def test_odd(self, text):
        self.assertIsNone(server_cloud.Owner.parse(text))

    def test_start_not_known(self):
        root = self.useFixture(fixtures.TempDir()).path
        owner = server_cloud.myself(root)
        self.assertEqual(0, owner.started)
        # Nobody can tell, so it is left alone.
        self.assertFalse(owner.has_gone(root))


@ddt.ddt
class TestImage(CloudTestCase):

    def test_none(self):
        self.assertIsNone(self.cloud(image=None).image('bench'))

    @ddt.data(('yes', True), (True, True), ('no', False), (None, False))
    @ddt.unpack
    def test_agent(self, value, has_agent):
        self.assertEqual(
            server_cloud.Image('i', 'bench', True, has_agent),
            self.cloud(image=cloud_fakes.image(
                hw_qemu_guest_agent=value)).image('bench'))
