#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import dataclasses
import pathlib

import ddt
import fixtures
import testtools

from nova_pinning.bench import errors as bench_errors
from nova_pinning.bench.image import manifest
from nova_pinning.bench import model
from nova_pinning.bench.platforms import base
from nova_pinning.bench.platforms import domain
from nova_pinning.bench.platforms import guest
from nova_pinning.bench.platforms import link
from nova_pinning.bench.platforms import settings
from nova_pinning.bench.workloads import catalogue
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import domain as host_domain
from nova_pinning.host import tree as host_tree
from nova_pinning.model import hostclass

CPUS = cpuset.CpuSet.parse
PLACE = base.Place(vcpus=(CPUS('2'), CPUS('3')), emulator=CPUS('0-1'))
WISH = domain.Wish(
    name='one', accelerator='tcg', memory_mib=512, place=PLACE, shares=512,
    nodes=CPUS('1'), kernel=pathlib.Path('/i/vmlinuz'),
    initrd=pathlib.Path('/i/initrd'), arguments='a=b',
    disk=pathlib.Path('/w/one.qcow2'), cache='none',
    console=pathlib.Path('/w/one.console'))
IMAGE = manifest.Manifest(
    suite='bookworm', architecture='amd64', kernel='6.1', size_gib=4,
    ssh=False, workloads=('stream',), packages={'sysbench': '1'},
    programs={})
#: A virsh that knows create and destroy, and echoes as the real one.
VIRSH = """#!/bin/sh
while read -r line; do
    echo "virsh # $line"
    case $line in
    create*) {answer} ;;
    destroy*) echo gone >>{log} ;;
    echo*) printf '%s' "${{line#echo }}" ;;
    pwd) pwd ;;
    esac
done
"""


def request(workload='stream', memory_mib=512):
    tenant = model.Tenant(
        name='t', role=model.Role.MEASURED, workload=workload,
        platform=model.PlatformName.GUEST,
        provisioning=model.Provisioning.PINNED,
        guest_class=hostclass.HostClass.DEDICATED,
        size=model.Size(vcpus=2, memory_mib=memory_mib))
    return base.Request(name='t-0', tenant=tenant, place=PLACE,
                        workload=catalogue.shipped()[workload])


class XmlTestCase(testtools.TestCase):

    def test_reads_back(self):
        found = host_domain.parse(domain.xml(WISH))
        self.assertEqual('one', found.name)
        self.assertEqual(2, found.vcpus)
        self.assertEqual({0: CPUS('2'), 1: CPUS('3')}, found.vcpu_pins)
        self.assertEqual(CPUS('0-1'), found.emulator_pin)
        self.assertEqual(512, found.shares)
        self.assertEqual(CPUS('1'), found.memory_nodes)
        self.assertEqual((), found.interfaces)

    def test_link(self):
        made = link.choose(['npbench0'])
        self.assertEqual(('npbench1', '198.18.0.5', '198.18.0.6'),
                         (made.device, made.host, made.guest))
        text = domain.xml(dataclasses.replace(WISH, link=made))
        self.assertEqual(1, len(host_domain.parse(text).interfaces))

    def test_kvm(self):
        text = domain.xml(dataclasses.replace(WISH, accelerator='kvm'))
        self.assertIn('type="kvm"', text)
        self.assertIn('host-passthrough', text)


class DomainTestCase(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.log = self.home / 'log'

    def start(self, answer):
        path = self.home / 'virsh'
        path.write_text(VIRSH.format(answer=answer, log=self.log))
        path.chmod(0o755)
        return domain.Domain((str(path),), 'one', self.home / 'one.xml')

    def test_start_and_close(self):
        running = self.start("echo Domain \"'one'\" created")
        running.close()
        running.close()
        self.assertEqual('gone\n', self.log.read_text())

    def test_refused(self):
        error = self.assertRaises(
            bench_errors.InstanceError, self.start,
            'echo "error: Failed to create"; echo "error: no such CPU"')
        self.assertIn('no such CPU', str(error))
        self.assertIn('/qemu/one.log', error.advice)

    def test_virsh_hangs(self):
        self.useFixture(fixtures.MockPatchObject(
            domain, '_ANSWER_SECONDS', 0.1))
        error = self.assertRaises(
            bench_errors.InstanceError, self.start, 'exec sleep 1000')
        self.assertIn('virsh has ended', str(error))

    def test_virsh_ends(self):
        error = self.assertRaises(
            bench_errors.InstanceError, self.start, 'exit 1')
        self.assertIn('virsh has ended', str(error))


@ddt.ddt
class CheckTestCase(testtools.TestCase):

    def check(self, *requests, image=IMAGE, **how):
        guest._check_requests(requests, image, settings.Settings(**how))

    def test_enough(self):
        self.check(request(), request('sysbench-cpu'))

    def test_lacking(self):
        error = self.assertRaises(
            errors.InputError, self.check, request('mutex-up'))
        self.assertIn('--workload mutex-up --workload stream', error.advice)

    def test_memory(self):
        self.assertRaises(errors.InputError, self.check,
                          request(memory_mib=64))

    def test_ssh(self):
        self.useFixture(fixtures.MockPatch('os.geteuid', lambda: 0))
        self.assertRaises(errors.InputError, self.check, request(),
                          channel=settings.Channel.SSH)
        self.check(request(), channel=settings.Channel.SSH,
                   image=dataclasses.replace(IMAGE, ssh=True))

    def test_versions_of_what_is_measured(self):
        """Those of the image, of the packages that figures depend on."""
        image = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (image / manifest.MANIFEST).write_text(manifest.as_text(
            dataclasses.replace(IMAGE, workloads=('sysbench-cpu',), packages={
                'sysbench': '1.0', 'other': '2'})))
        for patch in (
                fixtures.MockPatch('shutil.which', lambda name: name),
                fixtures.MockPatch(
                    'nova_pinning.bench.platforms.hypervisor.Hypervisor.'
                    'version', lambda _libvirt: '7.2')):
            self.useFixture(patch)
        platform = guest.GuestPlatform(settings.Settings(
            image=str(image), accelerator='tcg'))
        platform.check([request('sysbench-cpu')])
        self.assertEqual(
            {'qemu': '7.2', 'guest kernel': '6.1', 'guest': 'bookworm',
             'accelerator': 'tcg', 'sysbench (guest)': '1.0'},
            platform.versions())

    @ddt.data('qemu:///session', 'qemu+ssh://far/system', 'lxc:///')
    def test_other_libvirt(self, uri):
        how = settings.Settings(connect=uri)
        self.assertRaises(errors.InputError,
                          guest.GuestPlatform(how)._check_libvirt)


@ddt.ddt
class HostTestCase(testtools.TestCase):

    def tree(self, **files):
        home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name, text in files.items():
            path = home / 'sys/devices/system/node' / name / 'cpulist'
            path.parent.mkdir(parents=True)
            path.write_text(text)
        return host_tree.Tree(home)

    @ddt.data(('0-3', '0'), ('4', '1'), ('3-4', '0-1'))
    @ddt.unpack
    def test_nodes(self, cpus, nodes):
        tree = self.tree(node0='0-3\n', node1='4-7\n')
        self.assertEqual(CPUS(nodes), guest.nodes(tree, CPUS(cpus)))

    def test_one_node(self):
        self.assertFalse(guest.nodes(self.tree(node0='0-3'), CPUS('1')))
