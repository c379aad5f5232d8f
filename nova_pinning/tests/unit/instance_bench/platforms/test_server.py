# SPDX-License-Identifier: Apache-2.0

import os

import ddt
import fixtures
import testtools

from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import server
from nova_pinning.instance_bench.platforms import server_cloud
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.tests.unit.instance_bench.platforms import cloud_fakes
from nova_pinning.tests.unit.instance_bench.platforms import platform_fakes
from nova_pinning.tests.unit.instance_bench.platforms import virsh_fakes

FLAVORS = (
    flavor_model.Flavor(name='pinned', id='f1', vcpus=1, memory_mib=512,
                        extra_specs={'hw:cpu_policy': 'dedicated'}),
    flavor_model.Flavor(name='plain', id='f2', vcpus=1, memory_mib=512),
)
PIN = "<vcpupin vcpu='0' cpuset='2'/><emulatorpin cpuset='2'/>"


class ServerTestCase(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch(
            'shutil.which', lambda name: f'/usr/bin/{name}'))
        self.agents = self.useFixture(platform_fakes.GuestAgents())
        self.cloud = cloud_fakes.Connection()
        self.asked = []
        self.xml = PIN
        self.floats = ''

    def run_command(self, command, *_how):
        host = virsh_fakes.VirshHost(
            self.floats, self.xml, [('CPU 0/KVM', '2'), ('qemu', '2')])
        host.xml = host.xml.replace('>2</vcpu>', '>1</vcpu>')
        if 'dumpxml' in command:
            self.asked.append(command[-1])
        return host(command)

    def platform(self, **how):
        for place, name, fake in (
                (server, 'connect', lambda how: server_cloud.ServerCloud(
                    self.cloud, 'here')),
                (server_cloud.ServerCloud, 'flavors', lambda cloud: FLAVORS),
                (process, 'run', self.run_command)):
            self.useFixture(fixtures.MockPatchObject(place, name, fake))
        return server.ServerPlatform(settings.PlatformSettings(**how))


@ddt.ddt
class TestCheck(ServerTestCase):

    def setUp(self):
        super().setUp()
        self.sweep = self.useFixture(fixtures.MockPatchObject(
            server_cloud.ServerCloud, 'sweep', return_value=0)).mock

    def problems(self, *requests, **how):
        with self.platform(**how) as platform:
            error = self.assertRaises(
                errors.InputError, platform.check,
                requests or [platform_fakes.request()])
        self.sweep.assert_not_called()
        return str(error).splitlines()

    def test_good(self):
        with self.platform() as platform:
            platform.check(
                [platform_fakes.request(0), platform_fakes.request(1)])
        self.sweep.assert_called_once_with()
        self.assertTrue(self.cloud.is_closed)

    def test_nothing_says_which_cloud(self):
        for name in list(os.environ):
            if name.startswith('OS_'):
                self.useFixture(fixtures.EnvironmentVariable(name))
        self.useFixture(fixtures.MonkeyPatch(
            'openstack.config.loader.CONFIG_FILES', []))
        error = self.assertRaises(errors.InputError, server.ServerPlatform(
            settings.PlatformSettings()).__enter__)
        self.assertIn('cloud of the environment: ', str(error))
        self.assertIn('OS_AUTH_URL', str(error))

    def test_no_cloud(self):
        self.cloud = cloud_fakes.Connection(fails=('find_image',))
        problem, = self.problems()
        self.assertEqual(
            'cloud here: find_image fails; name one of clouds.yaml, or set '
            'OS_AUTH_URL and its like', problem)

    @ddt.data(
        (None, "the cloud has no image 'bench'; upload what"),
        (cloud_fakes.image(status='queued'),
         "image 'bench' is not active"),
        (cloud_fakes.image(hw_qemu_guest_agent=None),
         "image 'bench' does not say that it has a QEMU guest agent; if it "
         'has one: openstack image set --property hw_qemu_guest_agent=yes '
         'bench'))
    @ddt.unpack
    def test_image(self, image, expected):
        self.cloud = cloud_fakes.Connection(image=image)
        problem, = self.problems(server_image='bench')
        self.assertIn(expected, problem)

    def test_all_at_once(self):
        self.cloud = cloud_fakes.Connection(image=None, sees_hosts=False)
        self.useFixture(fixtures.MonkeyPatch(
            'shutil.which', lambda name: None))
        found = self.problems(
            platform_fakes.request(0, weight=7),
            platform_fakes.request(1, weight=7))
        self.assertEqual(4, len(found), found)

    def test_libvirt_alone_is_not_enough(self):
        problem, = self.problems(connect='qemu+ssh://{host}/system')
        self.assertIn("--hypervisor 'ssh {host}'", problem)


class TestLaunch(ServerTestCase):

    def test_servers(self):
        with self.platform() as platform:
            requests = [platform_fakes.request(0), platform_fakes.request(1)]
            first, second = platform.launch(requests)
            self.assertEqual(
                [('enterprise-0', 'f1', 'i', 'none'),
                 ('enterprise-1', 'f1', 'i', 'none')],
                [(asked['name'].split('-', 4)[-1], asked['flavor_id'],
                  asked['image_id'], asked['networks'])
                 for asked in self.cloud.asked])
            self.assertEqual(('enterprise-0', '0', ''),
                             (first.name, str(first.cpus), first.peer))
            first.start('true')
            self.assertEqual(['true'], self.agents.commands)
            self.assertEqual(list(self.cloud.there), self.asked)
            self.assertEqual(
                [('vCPU 0', '2', '2', True), ('emulator', '2', '2', True)],
                virsh_fakes.seen(second.affinities()))
            self.assertEqual({'qemu': '7.2.22', 'nova': '2.98'},
                             platform.versions())
            first.close()
            first.close()
            self.assertEqual(self.asked[1:], list(self.cloud.there))
        self.assertEqual({}, self.cloud.there)

    def launch_fails(self, *requests):
        with self.platform() as platform:
            error = self.assertRaises(
                bench_errors.InstanceError, platform.launch, requests or [
                    platform_fakes.request(0), platform_fakes.request(1)])
            left = list(self.cloud.there)
        self.assertEqual({}, self.cloud.there)
        self.assertTrue(self.cloud.is_closed)
        return str(error), left

    def test_not_booted(self):
        self.cloud = cloud_fakes.Connection(fails=('get_server',))
        self.assertEqual(('cloud here: get_server fails', []),
                         self.launch_fails())

    def test_answer_lost(self):
        # What nobody knows of is found by its name in the end.
        self.cloud = cloud_fakes.Connection(fails=('create_server-2',))
        error, (left,) = self.launch_fails()
        self.assertEqual('cloud here: create_server-2 fails', error)
        self.assertIn('enterprise-1', left)

    def test_silent(self):
        self.agents.silent = 'enterprise-1'
        self.assertEqual(('silent', []), self.launch_fails())

    def test_host_not_known(self):
        self.cloud = cloud_fakes.Connection(sees_hosts=False)
        self.assertIn('nova does not say which host server',
                      self.launch_fails()[0])

    def test_image_gone(self):
        self.cloud = cloud_fakes.Connection(image=None)
        self.assertIn('is gone', self.launch_fails()[0])

    def test_not_pinned(self):
        self.xml, self.floats = '', " cpuset='0-1'"
        self.assertIn('enterprise-0 are not pinned', self.launch_fails()[0])

    def test_pinned_nevertheless(self):
        self.assertIn('are pinned, although', self.launch_fails(
            platform_fakes.request(**platform_fakes.FLOATING))[0])

    def test_interrupted(self):
        def interrupt(*_unused, **_more):
            raise KeyboardInterrupt
        self.cloud.wait_for_server = interrupt
        try:
            with self.platform() as platform:
                platform.launch([platform_fakes.request()])
        except KeyboardInterrupt:
            pass
        self.assertEqual({}, self.cloud.there)

    def test_cannot_be_deleted(self):
        self.cloud = cloud_fakes.Connection(fails=('delete_server',))
        platform = self.platform().__enter__()
        only, = platform.launch([platform_fakes.request()])
        for end in only.close, platform.__exit__:
            self.assertIn('cloud here: servers could not be deleted', str(
                self.assertRaises(bench_errors.BenchError, end)))
        self.assertTrue(self.cloud.is_closed)

    def test_versions_without_cloud(self):
        self.cloud = cloud_fakes.Connection(fails=('get_endpoint_data',))
        with self.platform() as platform:
            self.assertEqual({}, platform.versions())
