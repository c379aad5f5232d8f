# SPDX-License-Identifier: Apache-2.0

import dataclasses
import pathlib

import ddt
import fixtures
import testtools

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import domain_xml
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import image_manifest
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import domain
from nova_pinning.instance_bench.platforms import guest
from nova_pinning.instance_bench.platforms import guest_shape
from nova_pinning.instance_bench.platforms import hypervisor
from nova_pinning.instance_bench.platforms import link
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.tests.unit.instance_bench import bench_fakes

CPUS = cpuset.CpuSet.parse
PLACE = platform_interface.InstanceCpus(vcpus=(CPUS('2'), CPUS('3')),
                                        emulator=CPUS('0-1'))
WISH = domain.DomainSpec(
    name='one', accelerator='tcg', memory_mib=512, instance_cpus=PLACE,
    shape=guest_shape.GuestShape(
        topology=domain_xml.DomainTopology(1, 2, 1), queues=2),
    kernel=pathlib.Path('/i/vmlinuz'),
    initrd=pathlib.Path('/i/initrd'), arguments='a=b',
    disk=pathlib.Path('/w/one.qcow2'), cache='none',
    console=pathlib.Path('/w/one.console'))
IMAGE = image_manifest.Manifest(
    suite='bookworm', kernel='6.1',
    workloads=('stream',), packages={'sysbench': '1'})
#: A virsh that knows create and destroy, and echoes as the real one.
VIRSH = """#!/bin/sh
[ "$1" = destroy ] && exec echo "$3 is gone" >>{log}
while read -r line; do
    echo "virsh # $line"
    case $line in
    create*) {answer} ;;
    esac
done
"""


def request(workload='stream', memory_mib=512):
    return platform_interface.InstanceRequest(
        name='t-0', instance_cpus=PLACE, tenant=bench_fakes.tenant(
            't', 2, memory_mib, workload=workload),
        workload=workload_catalogue.shipped()[workload])


class XmlTestCase(testtools.TestCase):

    def test_link(self):
        made = link.choose(['npbench0'])
        self.assertEqual(('npbench1', '198.18.0.5', '198.18.0.6'),
                         (made.device, made.host, made.guest))
        text = domain.domain_xml_of(dataclasses.replace(WISH, link=made))
        interface, = domain_xml.parse(text).interfaces
        self.assertEqual(2, interface.queues)

    def test_kvm(self):
        text = domain.domain_xml_of(
            dataclasses.replace(WISH, accelerator='kvm'))
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
        return domain.TransientDomain((str(path),), 'one',
                                      self.home / 'one.xml')

    def test_start_and_close(self):
        running = self.start("echo Domain \"'one'\" created from one.xml")
        running.close()
        running.close()
        self.assertEqual('one is gone\n', self.log.read_text())

    def test_refused(self):
        error = self.assertRaises(
            bench_errors.InstanceError, self.start,
            'echo "error: Failed to create"; echo "error: no such CPU"')
        self.assertIn('Failed to create no such CPU', str(error))
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

    def setUp(self):
        super().setUp()
        self.user = self.useFixture(fixtures.MockPatch(
            'os.geteuid', return_value=0)).mock

    def check(self, *requests, image=IMAGE, **how):
        guest._check_requests(requests, image,
                              settings.PlatformSettings(**how))

    def test_enough(self):
        self.check(request(), request('sysbench-cpu'))

    def test_lacking(self):
        error = self.assertRaises(
            errors.InputError, self.check, request('handover'))
        self.assertIn('lacks what is needed for handover', error.message)

    def test_not_root(self):
        self.user.return_value = 1000
        error = self.assertRaises(
            errors.InputError, self.check, request('handover'))
        self.assertEqual('run it with sudo', error.advice)

    def test_memory(self):
        self.assertRaises(errors.InputError, self.check,
                          request(memory_mib=64))

    def test_versions_of_what_is_measured(self):
        """Those of the image, of the packages that figures depend on."""
        image = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (image / image_manifest.MANIFEST).write_text(image_manifest.as_text(
            dataclasses.replace(IMAGE, workloads=('sysbench-cpu',), packages={
                'sysbench': '1.0', 'other': '2'})))
        for patch in (
                fixtures.MockPatch('shutil.which', return_value='there'),
                fixtures.MockPatchObject(
                    hypervisor.ComputeHypervisor, 'version',
                    lambda _libvirt: '7.2')):
            self.useFixture(patch)
        platform = guest.GuestPlatform(settings.PlatformSettings(
            image=str(image), accelerator='tcg'))
        platform.check([request('sysbench-cpu')])
        self.assertEqual(
            {'qemu': '7.2', 'guest kernel': '6.1', 'guest': 'bookworm',
             'accelerator': 'tcg', 'sysbench (guest)': '1.0'},
            platform.versions())

    @ddt.data('qemu:///session', 'qemu+ssh://far/system', 'lxc:///')
    def test_other_libvirt(self, uri):
        how = settings.PlatformSettings(connect=uri)
        self.assertRaises(errors.InputError,
                          guest.GuestPlatform(how)._check_libvirt)
