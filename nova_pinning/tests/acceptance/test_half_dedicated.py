# SPDX-License-Identifier: Apache-2.0
"""The page "Make half of a running cloud dedicated", walked on a real cloud.

Commands and files are the page's own, in its order, and what is printed is
what the page shows, but for figures. WORDS has what is called otherwise here,
INSTEAD what is not simply run, and why.
"""

import itertools
import json
import os
import pathlib
import sys
import tempfile
import time

import testtools
from testtools import content

from nova_pinning.tests.acceptance import minicloud_runner
from nova_pinning.tests import road_page

#: What the page has, and what it is here: in commands, files and what is
#: printed.
WORDS = {
    'cmp-2, cmp-3, ...': 'cmp-2',
    'cmp-1': 'pinning-1',
    'cmp-2': 'pinning-2',
    '--image debian': '--image minicloud',
    '--network internal': '--nic none',
    # The machine may have no more than two CPUs, in one node, and its huge
    # pages are few.
    '--for 8:70,16:30': '--for 1 --page-size 2MiB',
    '0: 34, 1: 40': '0: 34',
    'vcpus: 8, memory: 32GiB': 'vcpus: 1, memory: 64MiB',
    'vcpus: 16, memory: 64GiB': 'vcpus: 2, memory: 128MiB',
    '--watch 30': '--watch 2',
    # Hosts have no /etc and /usr of their own.
    'rendered/usr /': 'rendered/usr {root}',
    'cd / ': 'cd {root} ',
    'systemctl enable nova': 'systemctl --root={root} enable nova',
    'systemctl disable nova': 'systemctl --root={root} disable nova',
    '/var/log/nova/nova-scheduler.log': '{log}',
}

#: Commands that take more than to run them, or that cannot be run, and the
#: method for that.
INSTEAD = {
    # minicloud has installed it, with pip.
    "pip install '.[tools]'": 'see_installed',
    'pip install --no-deps .': 'see_installed',
    # There are no systemd, no boot loader and no tuned, and the interrupts
    # are the machine's.
    'update-grub': 'read_command_line',
    'tuned-adm profile cpu-partitioning': 'read_tuned',
    'tuned-adm off': 'leave_alone',
    'systemctl disable irqbalance': 'leave_alone',
    'reboot': 'start_compute',
    'systemctl restart nova-scheduler': 'start_scheduler',
    # All hosts are marked as they should be, so there is nothing to see.
    "grep -E 'self-test|Observing' /var/log/nova/nova-scheduler.log":
        'watch_a_mistake',
    # These have findings at first.
    'nova-pinning host check plan.yaml --watch 30': 'check_host',
    'openstack pinning segregation check': 'check_classes',
}

#: What the page says to do, or what holds, after the commands of a block.
AFTERWARDS = {
    'step-3-empty': 'see_empty',
    'step-9-check': 'bring_scheduler_back',
    'step-10-back': 'sell_shared_again',
}

#: The scheduler of a cloud that has none of this.
BEFORE = """\
[filter_scheduler]
enabled_filters = ComputeFilter, ComputeCapabilitiesFilter,
    ImagePropertiesFilter, ServerGroupAntiAffinityFilter,
    ServerGroupAffinityFilter, NUMATopologyFilter
weight_classes = nova.scheduler.weights.all_weighers
"""

#: Of 2 MiB: for one guest of 64 MiB, and some more.
HUGE_PAGES = 64
FIRST, SECOND = HOSTS = ('pinning-1', 'pinning-2')
GUESTS = {'one': FIRST, 'two': FIRST, 'three': SECOND}
PROGRAMS = pathlib.Path(sys.executable).parent


class TestHalfDedicated(testtools.TestCase):

    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.root = self.directory / 'root'
        self.root.mkdir()
        before = self.write('before.conf', BEFORE)
        self.addOnException(self.tell_faults)
        # Of minicloud up, beside those that it began with.
        self.options = {}
        self.cloud = self.useFixture(minicloud_runner.MiniCloud(
            '--huge-pages', str(HUGE_PAGES), '--nova-conf', str(before),
            *(option for name in HOSTS
              for option in ('--host-cpus', f'{name}=shared:0-1'))))

    def write(self, name, text):
        path = self.directory / name
        path.write_text(text)
        return path

    def here(self, text):
        """What the page has, as it is here."""
        for theirs, ours in WORDS.items():
            text = text.replace(theirs, ours.format(
                root=self.root,
                log=self.cloud.state.log / 'nova-scheduler.log'))
        return text

    def openstack(self, command):
        return self.cloud.run(f'openstack {command}')

    def boot(self, name, *options):
        self.openstack('server create --wait --nic none --image minicloud '
                       f'--flavor usual {" ".join(options)} {name}')

    def tell_faults(self, _exception):
        """Why nova gave up on servers, which its client does not say."""
        self.addDetail('servers', content.text_content('\n'.join(
            self.cloud.run(f'openstack server show -c name -c status -c fault '
                           f'{name} 2>&1', 0, 1)
            for name in ('probe', *GUESTS))))

    def where(self):
        """The host of each server that runs."""
        return {server['Name']: server['Host'] for server in json.loads(
            self.openstack('server list --long -f json'))
            if server['Status'] == 'ACTIVE'}

    def test_walk(self):
        self.openstack('flavor create --vcpus 1 --ram 64 --disk 0 usual')
        for name, host in GUESTS.items():
            self.boot(name, '--host', host)
        self.assertEqual(GUESTS, self.where())
        for block in road_page.blocks():
            if block.language != 'console':
                self.write(block.name.split('-', 2)[2], self.here(block.text))
                continue
            began = time.monotonic()
            for command in road_page.commands(block):
                getattr(self, INSTEAD.get(command.command, 'follow'))(command)
            print(f'{time.monotonic() - began:6.1f} s  {block.name}',
                  file=sys.__stderr__, flush=True)
            getattr(self, AFTERWARDS.get(block.name, 'leave_alone'))(block)

    def follow(self, command):
        """Run a command; it prints what the page shows."""
        said = self.type(command, '2>&1')
        self.assertEqual('', road_page.missing(
            [self.here(line) for line in command.output], said),
            f'{command.command}\n{said}')

    def type(self, command, more='', statuses=(0,)):
        """Run a command where the page does, in the walker's directory.

        :param more: words behind it
        :returns: what it printed
        """
        text = f'cd {self.directory} && {self.here(command.command)} {more}'
        if command.host.startswith('cmp-'):
            return self.cloud.run_on(
                self.here(command.host), 'env',
                f'PATH={PROGRAMS}:{os.defpath}:/usr/sbin:/sbin', 'bash', '-c',
                text, statuses=statuses)
        return self.cloud.run(text, *statuses)

    def leave_alone(self, _what):
        pass

    def up(self):
        self.cloud.up(*itertools.chain(*self.options.values()))

    def see_installed(self, _command):
        self.cloud.run('nova-pinning --version')
        self.cloud.run_on(FIRST, str(PROGRAMS / 'nova-pinning'), '--version')

    def see_empty(self, _block):
        self.assertEqual(dict.fromkeys(GUESTS, SECOND), self.where())
        self.assertEqual('', self.cloud.run_on(
            FIRST, 'virsh', 'list', '--all', '--name').strip())

    def read_command_line(self, _command):
        """As update-grub does, which has a shell read the files."""
        files = sorted((self.root / 'etc' / 'default').glob('grub.d/*.cfg'))
        found = self.cloud.run(''.join(
            f'. {path}\n' for path in files)
            + 'echo $GRUB_CMDLINE_LINUX_DEFAULT')
        wanted = (self.directory / 'rendered' /
                  'kernel-command-line.txt').read_text().splitlines()[-1]
        self.assertEqual(wanted if files else '', found.strip())

    def read_tuned(self, _command):
        variables = (self.root / 'etc' / 'tuned' /
                     'cpu-partitioning-variables.conf').read_text()
        self.assertIn('\nisolated_cores=1\n', variables)

    def start_compute(self, _command):
        """With the files of nova's that are there now."""
        etc = self.root / 'etc' / 'nova'
        self.options[FIRST] = [
            word for option, pattern in (
                ('--host-conf', 'nova.conf.d/*'),
                ('--provider-config', 'provider_config/*'))
            for path in etc.glob(pattern)
            for word in (option, f'{FIRST}={path}')]
        self.up()

    def start_scheduler(self, _command):
        self.options['nova.conf'] = [
            '--nova-conf', str(self.directory / 'nova.conf')]
        self.up()

    def watch_a_mistake(self, command):
        """A host is marked as it is not meant, and takes guests as before."""
        self.openstack(f'pinning host set --force --class dedicated {SECOND}')

        def is_observed():
            # Whether the filter knows of the trait yet, only a boot tells.
            self.boot('probe')
            self.assertEqual(SECOND, self.where()['probe'])
            self.openstack('server delete --wait probe')
            return 'Observing' in self.cloud.log('nova-scheduler')

        self.cloud.wait(is_observed)
        self.follow(command)
        self.openstack(f'pinning host set --class shared {SECOND}')

    def check_host(self, command):
        """The machine's own findings apart, there are none when mended."""
        def findings():
            return [finding for finding in json.loads(self.type(
                command, '--format json', (0, 1)))['findings']
                if not finding['code'].startswith(minicloud_runner.OF_MACHINE)]

        self.cloud.run_on(FIRST, 'sh', '-ec', '\n'.join(
            line for finding in findings() for line in finding['commands']))
        self.assertEqual([], findings())

    def check_classes(self, command):
        """What is found at first, the commands mend that it tells."""
        found = json.loads(self.type(command, '--format json', (1,)))
        for finding in found['findings']:
            self.assertTrue(finding['commands'], finding)
            for line in finding['commands']:
                self.cloud.run(line)
        self.follow(command)

    def bring_scheduler_back(self, _block):
        """The way back begins with it, and guests stay where they are."""
        before = self.where()
        self.assertEqual({**dict.fromkeys(GUESTS, SECOND), 'probe': FIRST},
                         before)
        del self.options['nova.conf']
        self.up()
        self.assertEqual(before, self.where())

    def sell_shared_again(self, _block):
        self.assertEqual([], [path for path in self.root.rglob('*')
                              if not path.is_dir()])
        self.boot('four', '--host', FIRST)
        self.assertEqual(FIRST, self.where()['four'])
