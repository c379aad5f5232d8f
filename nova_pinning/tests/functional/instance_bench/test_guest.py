# SPDX-License-Identifier: Apache-2.0
"""A guest under a libvirtd of the test's own, emulated."""

import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

import ddt
import fixtures
import testtools

from nova_pinning import cpuset
from nova_pinning.instance_bench import image_manifest
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import guest
from nova_pinning.instance_bench.platforms import hypervisor
from nova_pinning.instance_bench.platforms import nested
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.instance_bench.workloads import workload_catalogue
from nova_pinning.tests.unit.instance_bench.platforms import platform_fakes

IMAGE = os.environ.get('NOVA_PINNING_BENCH_IMAGE', '')
TOOLS = ('libvirtd', 'virsh', 'qemu-system-x86_64', 'qemu-img', 'nsenter')
#: Emulated, on a host that may have other things to do.
BOOT_SECONDS = 300.0
DIRECTORIES = {'etc': '/etc/libvirt', 'lib': '/var/lib/libvirt',
               'cache': '/var/cache/libvirt', 'log': '/var/log/libvirt',
               'run': '/run/libvirt'}
CONFIGURATION = {
    'libvirtd.conf': 'auth_unix_ro = "none"\nauth_unix_rw = "none"\n'
                     'unix_sock_group = "root"\nlog_outputs = "3:stderr"\n',
    'qemu.conf': 'user = "root"\ngroup = "root"\nsecurity_driver = "none"\n'
                 'stdio_handler = "file"\n',
}


class Libvirt(fixtures.Fixture):
    """A libvirtd in a mount namespace, with directories of its own."""

    def _setUp(self):
        home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        mounts = []
        pathlib.Path('/run/libvirt').mkdir(exist_ok=True)
        for name, path in DIRECTORIES.items():
            (home / name).mkdir()
            mounts.append(f'mount --bind {home / name} {path}')
        for name, text in CONFIGURATION.items():
            (home / 'etc' / name).write_text(text)
        log = self.useFixture(fixtures.TempDir()).join('libvirtd.log')
        with open(log, 'wb') as stderr:
            self.process = subprocess.Popen(
                ['unshare', '--mount', 'sh', '-ec',
                 '; '.join((*mounts, 'exec libvirtd'))],
                stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr,
                start_new_session=True)
        self.addCleanup(self.end)
        self.reached = hypervisor.ComputeHypervisor(
            prefix=('nsenter', '--mount', '--target', str(self.process.pid)),
            connect='qemu:///system')
        limit = time.monotonic() + 60
        while not (home / 'run/libvirt-sock').exists():
            if self.process.poll() is not None or time.monotonic() > limit:
                raise AssertionError(pathlib.Path(log).read_text())
            time.sleep(0.1)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@ddt.ddt
@unittest.skipUnless(
    IMAGE and os.geteuid() == 0 and all(map(shutil.which, TOOLS)),
    'needs root, QEMU, libvirtd, and $NOVA_PINNING_BENCH_IMAGE: a directory '
    'that nova-pinning bench run --image built')
class GuestTestCase(testtools.TestCase):

    def request(self):
        cpu, = list(os.sched_getaffinity(0))[-1:]
        image = image_manifest.read(IMAGE)
        workload = workload_catalogue.shipped()[image.workloads[0]]
        return platform_fakes.request(
            workload=workload, weight=50,
            instance_cpus=platform_interface.InstanceCpus(
                vcpus=(cpuset.CpuSet([cpu]),), emulator=cpuset.CpuSet([cpu])))

    def run_inside(self, instance, command):
        job = instance.start(command)
        while (outcome := job.poll()) is None:
            time.sleep(0.2)
        return outcome

    @ddt.data(guest.GuestPlatform, nested.NestedPlatform)
    def test_commands(self, kind):
        """In guests, and in containers of guests."""
        libvirt = self.useFixture(Libvirt()).reached
        how = settings.PlatformSettings(image=IMAGE, accelerator='tcg',
                                        boot_seconds=BOOT_SECONDS)
        with kind(how, libvirt) as platform:
            requests = [self.request()]
            platform.check(requests)
            instance, = platform.launch(requests)
            self.assertEqual('tcg', platform.versions()['accelerator'])
            affinities = instance.affinities()
            self.assertEqual(['vCPU 0', 'emulator'],
                             [affinity.thread for affinity in affinities])
            for affinity in affinities:
                self.assertTrue(affinity.is_in_force, affinity)
            shares = process.run((*libvirt.virsh, 'schedinfo', self.domain(
                libvirt)))
            self.assertRegex(shares, r'cpu_shares *: 50\b')

            outcome = self.run_inside(
                instance, 'nproc; ls; echo no >&2; exit 3')
            self.assertEqual((3, '1\n', 'no\n'), (
                outcome.status, outcome.stdout, outcome.stderr))
            self.check_clock(instance)
            self.check_counters(instance)
            outcome = self.run_inside(
                instance, 'head -c 3000000 /dev/zero | tr "\\0" x')
            self.assertEqual('x' * (2 * 1024 * 1024), outcome.stdout)

            # What runs yet ends with the guest.
            self.assertIsNone(instance.start('sleep 1000').poll())
        self.assertEqual('', self.domain(libvirt))

    def check_clock(self, instance):
        """What the agent tells is what ``date`` shows."""
        first = instance.clock()
        shown = int(self.run_inside(instance, 'date +%s%N').stdout) / 1e9
        last = instance.clock()
        for reading in first, last:
            self.assertGreater(reading.uncertainty, 0)
        self.assertLessEqual(first.inside, shown)
        self.assertLessEqual(shown, last.inside)

    def check_counters(self, instance):
        before = instance.counters()
        self.run_inside(instance, 'i=0; while [ $i -lt 9999 ]; do '
                                  'i=$((i + 1)); done')
        after = instance.counters()
        self.assertGreater(after['run_delay_seconds'],
                           before['run_delay_seconds'])

    def domain(self, libvirt):
        return process.run((*libvirt.virsh, 'list', '--name')).strip()
