# SPDX-License-Identifier: Apache-2.0
"""nova.conf, as a host's nova-compute loads it."""

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import json
import os
import pathlib
import subprocess
import textwrap
from unittest import mock

import ddt
import fixtures
from nova.conf import compute
from nova import exception
from nova.pci import utils as pci_utils
from nova.virt import hardware
from nova.virt.libvirt import driver
from oslo_config import cfg

from nova_pinning.bridge.offline import nova_conf_reader
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import host_model
from nova_pinning.host import machine_files
from nova_pinning.tests.unit import unit_base

# What a nova-compute makes of its command line and its environment: for each
# case a line of JSON comes in, and another goes out.
_NOVA = """
import json, os, sys
from nova import config
from nova.virt import hardware
CONF = config.CONF
sys.argv[0] = 'nova-compute'
plain = dict(os.environ)
for line in sys.stdin:
    case = json.loads(line)
    os.environ.clear()
    os.environ.update(plain | case['environment'])
    CONF.reset()
    config.parse_args(['nova-compute', *case['arguments']],
                      configure_db=False, init_rpc=False)
    print(json.dumps({
        'dedicated': sorted(hardware.get_cpu_dedicated_set() or ()),
        'shared': sorted(hardware.get_cpu_shared_set() or ()),
        'memory': CONF.reserved_host_memory_mb,
        'cpu': CONF.cpu_allocation_ratio or CONF.initial_cpu_allocation_ratio,
        'ram': CONF.ram_allocation_ratio or CONF.initial_ram_allocation_ratio,
        'pages': sorted(
            [node, size, count] for node, sizes
            in hardware.numa_get_reserved_huge_pages().items()
            for size, count in sizes.items()),
        'packs': CONF.compute.packing_host_numa_cells_allocation_strategy,
    }), flush=True)
"""

#: Says that it runs, and ends with its input.
_WAITS = 'import sys\nprint(flush=True)\nsys.stdin.read()\n'


def cpus(text):
    return cpuset.CpuSet.parse(text)


class _TestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def write(self, path, text):
        """Write a file below the root; returns its path as text."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return str(file)

    def load(self, *arguments, root='/', **environment):
        return nova_conf_reader.load(nova_conf_reader.NovaConfSource(
            pathlib.Path(root), arguments, environment))

    def load_text(self, text):
        path = self.write('nova.conf', text)
        return self.load('--config-file', path).settings

    def dedicated(self, text):
        return f'[compute]\ncpu_dedicated_set = {text}\n'


@ddt.ddt
class TestSettings(_TestCase):

    def test_nothing_is_set(self):
        self.assertEqual(
            host_model.NovaSettings(cpu_allocation_ratio=4.0,
                                    ram_allocation_ratio=1.0,
                                    reserved_memory_mib=512,
                                    packs_cells=False), self.load_text(''))

    def test_all(self):
        settings = self.load_text("""
            [DEFAULT]
            cpu_allocation_ratio = 2.5
            ram_allocation_ratio = 1.25
            reserved_host_memory_mb = 4096
            reserved_huge_pages = node:0,size:2048,count:64
            reserved_huge_pages = node:1,size:1GB,count:3
            [compute]
            cpu_dedicated_set = 4-10,^8,^10
            cpu_shared_set = 2,3
            packing_host_numa_cells_allocation_strategy = yes
            """.replace('    ', ''))
        self.assertEqual(
            host_model.NovaSettings(
                cpus('4-7,9'), cpus('2-3'), 2.5, 1.25, 4096,
                {(0, 2048): 64, (1, 1048576): 3}, True), settings)
        # Nova makes a float of one, which would show.
        self.assertEqual('[(0, 2048), (1, 1048576)]',
                         str(sorted(settings.reserved_huge_pages)))

    @ddt.data('0', '')
    def test_ratio_left_to_the_initial_one(self, ratio):
        line = f'cpu_allocation_ratio = {ratio}' if ratio else ''
        self.assertEqual(7.5, self.load_text(
            f'[DEFAULT]\n{line}\ninitial_cpu_allocation_ratio = 7.5\n'
        ).cpu_allocation_ratio)

    @ddt.data(
        ('[compute]\ncpu_dedicated_set = 4-x\n', '4-x'),
        ('[compute]\ncpu_dedicated_set = 7-4\n', '7-4'),
        ('[compute]\ncpu_dedicated_set = ^4\n', 'No CPUs available'),
        ('[compute]\ncpu_dedicated_set = 0-7:2\n', '0-7:2'),
        ('[compute]\ncpu_shared_set = 0-99999999999\n', '65535'),
        ('[compute]\ncpu_dedicated_set = 1-3\ncpu_shared_set = 3-4\n',
         'both have 3'),
        ('[DEFAULT]\nvcpu_pin_set = 1\n[compute]\ncpu_dedicated_set = 1\n',
         'vcpu_pin_set'),
        ('[DEFAULT]\nreserved_host_cpus = 2\n[compute]\n'
         'cpu_shared_set = 1\n', 'reserved_host_cpus'),
        ('[pci]\ndevice_spec = {"address": "x"}\n', 'device_spec'),
        ('[pci]\ndevice_spec = {\n', 'device_spec'),
        ('[pci]\ndevice_spec = {"vendor_id": 8086}\n', '{"vendor_id": 8086}'),
        ('[pci]\ndevice_spec = {"address": 5}\n', '{"address": 5}'),
        ('[pci]\nalias = {"name": "a", "vendor_id": 8086}\n', 'alias'),
        ('[pci]\nalias = {"name": 5}\n', 'alias'),
        ('[DEFAULT]\nvcpu_pin_set = 3-x\n', '3-x'),
        ('[DEFAULT]\nvcpu_pin_set = 0-99999999999\n', '65535'),
        ('[DEFAULT]\nreserved_host_memory_mb = much\n', 'much'),
        ('[DEFAULT]\nreserved_host_memory_mb = -1\n', 'from /'),
        ('[DEFAULT]\ncpu_allocation_ratio = high\n', 'high'),
        ('[DEFAULT]\nreserved_huge_pages = some\n', 'NAME:VALUE'),
        ('[DEFAULT]\nreserved_huge_pages = node:0,size:2048\n', '2048'),
        ('[DEFAULT]\nreserved_huge_pages = node:a,size:4,count:1\n', 'node'),
        ('no option\n', 'no option'),
        ('\x00\n', ''))
    @ddt.unpack
    def test_wrong(self, text, word):
        path = self.write('nova.conf', text)
        error = self.assertRaises(
            errors.InputError, self.load, '--config-file', path)
        self.assertNotIsInstance(error, nova_conf_reader.UnreadableError)
        self.assertIn(word, error.message)
        self.assertNotIn('\n', str(error))
        self.assertNotIn('LocationInfo', str(error))
        self.assertEqual(path, error.where.source)

    @ddt.data(
        '', '[compute]\ncpu_dedicated_set = 1\ncpu_shared_set = 2\n',
        '[compute]\ncpu_dedicated_set = 1,2\ncpu_shared_set = 2,3\n',
        *(f'[DEFAULT]\n{option}\n[compute]\n{cpu_set}\n'
          for option in ('vcpu_pin_set = 1', 'reserved_host_cpus = 1')
          for cpu_set in ('', 'cpu_dedicated_set = 1',
                          'cpu_shared_set = 1')))
    def test_sets_as_nova(self, text):
        """nova-compute starts with the same combinations."""
        path = self.write('nova.conf', text)
        conf = cfg.ConfigOpts()
        compute.register_opts(conf)
        conf(['--config-file', path], project='nova')
        with mock.patch.object(driver, 'CONF', conf), mock.patch.object(
                hardware, 'CONF', conf):
            try:
                driver.LibvirtDriver._check_cpu_set_configuration(mock.Mock())
                starts = True
            except exception.InvalidConfiguration:
                starts = False
        try:
            self.load('--config-file', path)
            loads = True
        except errors.InputError:
            loads = False
        self.assertEqual(starts, loads)

    def test_devices(self):
        devices = (
            host_model.PciDevice('0000:5e:00.0', '10de', '1db6', 0),
            host_model.PciDevice('0000:5f:00.0', '8086', '1572', 0),
            host_model.PciDevice('0000:60:00.0', '8086', '1572', 0))
        path = self.write('nova.conf', textwrap.dedent("""
            [pci]
            device_spec = {"address": "0000:5e:00.0"}
            device_spec = [{"vendor_id": "8086", "address": "*:5f:*.*"}]
            """))
        found = nova_conf_reader.load(nova_conf_reader.named(
            [('--config-file', path)]), devices)
        self.assertEqual({'0000:5e:00.0', '0000:5f:00.0'},
                         found.offered_devices)
        self.assertFalse(found.has_file_backed_memory)
        self.assertFalse(found.manages_cpu_power)
        path = self.write('nova.conf', textwrap.dedent("""
            [libvirt]
            file_backed_memory = 4096
            cpu_power_management = true
            """))
        found = nova_conf_reader.load(nova_conf_reader.named(
            [('--config-file', path)]), devices)
        self.assertEqual(frozenset(), found.offered_devices)
        self.assertTrue(found.has_file_backed_memory)
        self.assertTrue(found.manages_cpu_power)

    def test_pin_set(self):
        path = self.write('nova.conf', '[DEFAULT]\nvcpu_pin_set = 0-7,^1\n'
                          '[compute]\ncpu_shared_set = 1\n')
        found = self.load('--config-file', path)
        self.assertEqual(cpus('0,2-7'), found.pin_set)
        self.assertEqual(cpus('1'), found.settings.shared_cpus)

    def test_interface_of_another_machine(self):
        """Whose /sys tells which device it is, and whether it is a PF."""
        address, function = '0000:5e:00.0', '0000:5e:00.1'
        device = f'sys/devices/pci0000:5d/{address}'
        self.write(f'{device}/sriov_totalvfs', '8\n')
        (self.root / device / 'net/np0').mkdir(parents=True)
        (self.root / device / 'net/np0/device').symlink_to(
            f'../../../{address}')
        for path, target in (('class/net/np0', f'{device}/net/np0'),
                             (f'bus/pci/devices/{address}', device)):
            link = self.root / 'sys' / path
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(self.root / target)
        devices = (host_model.PciDevice(address, '8086', '1572', 0),
                   host_model.PciDevice(function, '8086', '154c', 0,
                                        physical_function=address))
        for key, value in (('devname', 'np0'), ('address', address)):
            path = self.write('nova.conf', '[pci]\ndevice_spec = '
                              f'{{"{key}": "{value}"}}\n')
            source = nova_conf_reader.named([('--config-file', path)])
            self.assertEqual(
                {address, function}, nova_conf_reader.load(
                    source, devices, self.root).offered_devices)
        self.assertIs(os, nova_conf_reader.os)
        self.assertFalse(hasattr(pci_utils, 'open'))

    def test_no_text(self):
        path = self.root / 'nova.conf'
        path.write_bytes(b'[compute]\ncpu_dedicated_set = \xff\n')
        self.assertRaises(errors.InputError, self.load, '--config-file',
                          str(path))

    def test_options_of_this_process_stay(self):
        from nova.virt import hardware
        conf, dedicated = hardware.CONF, hardware.get_cpu_dedicated_set()
        self.load_text(self.dedicated('4-7'))
        self.assertRaises(errors.InputError, self.load_text,
                          self.dedicated('x'))
        environment = dict(os.environ)
        self.load('--config-file', self.write('nova.conf', ''),
                  OS_COMPUTE__CPU_DEDICATED_SET='5', OTHER='x')
        self.assertEqual(environment, dict(os.environ))
        self.assertNotIn('OS_COMPUTE__CPU_DEDICATED_SET', os.environ)
        self.assertIs(conf, hardware.CONF)
        self.assertIs(conf, cfg.CONF)
        self.assertEqual(dedicated, hardware.get_cpu_dedicated_set())

    def test_environment_of_this_process_does_not_count(self):
        self.useFixture(fixtures.EnvironmentVariable(
            'OS_COMPUTE__CPU_DEDICATED_SET', '1'))
        self.assertEqual(cpus('4'), self.load_text(
            self.dedicated('4')).dedicated_cpus)


@ddt.ddt
class TestFiles(_TestCase):

    def test_unreadable(self):
        self.write('conf.d/a.conf', '')
        for arguments in (
                ['--config-file', str(self.root / 'none')],
                ['--config-file', str(self.root)],
                ['--config-dir', str(self.root / 'none')],
                ['--config-dir', str(self.root / 'conf.d' / 'a.conf')]):
            self.assertRaises(nova_conf_reader.UnreadableError, self.load,
                              *arguments)

    def test_none(self):
        error = self.assertRaises(nova_conf_reader.UnreadableError, self.load,
                                  root=self.root)
        self.assertIn('--config-file', str(error))

    def test_defaults(self):
        """Of each name the first; of directories all; all below the root."""
        files = [self.write(path, self.dedicated(text)) for path, text in (
            ('etc/nova/nova.conf', '1'), ('etc/nova/nova-compute.conf', '2'),
            ('etc/nova/nova.conf.d/10.conf', '3'),
            ('etc/nova/nova.conf.d/20.conf', '4'),
            ('etc/nova/nova-compute.conf.d/00.conf', '5'))]
        self.write('etc/nova.conf', self.dedicated('6'))
        self.write('etc/nova/nova.conf.d/30.conf.bak', self.dedicated('7'))
        loaded = self.load(root=self.root)
        self.assertEqual(tuple(files), loaded.files)
        self.assertEqual(cpus('5'), loaded.settings.dedicated_cpus)

    def test_order_in_a_directory(self):
        names = [f'{number:02}.conf' for number in range(30)]
        for name in reversed(names):
            self.write(f'd/{name}', '')
        loaded = self.load('--config-dir', str(self.root / 'd'))
        self.assertEqual(names, list(map(os.path.basename, loaded.files)))

    def test_snap(self):
        path = self.write('snap/etc/nova/nova.conf', self.dedicated('1'))
        self.assertEqual((path,), self.load(
            root=self.root, SNAP_COMMON='/snap').files)

    def _cases(self):
        """Command lines and environments, of every kind that there is."""
        home = self.root / 'home'
        self.write('home/.nova/nova.conf', self.dedicated('1') + (
            '[DEFAULT]\nreserved_host_memory_mb = 11\n'
            'reserved_huge_pages = node:0,size:4,count:9\n'))
        self.write('home/.nova/nova.conf.d/1.conf', self.dedicated('2') + (
            '[DEFAULT]\nram_allocation_ratio = 1.75\n'))
        self.write('home/nova-compute.conf', self.dedicated('3') + (
            'cpu_shared_set = 30\n'))
        first = self.write('a.conf', self.dedicated('10-19,^12') + (
            '[DEFAULT]\ncpu_allocation_ratio = 3\n'
            'reserved_huge_pages = node:0,size:2048,count:1\n'))
        second = self.write('b.conf', self.dedicated('20') + (
            '[DEFAULT]\ncpu_allocation_ratio = 0\n'
            'reserved_huge_pages = node:1,size:1GB,count:2\n'))
        self.write('d/20.conf', self.dedicated('40') + (
            'packing_host_numa_cells_allocation_strategy = on\n'))
        self.write('d/10.conf', self.dedicated('41') + 'cpu_shared_set=42\n')
        directory = str(self.root / 'd')
        for arguments in (
                [],
                ['--config-file', first],
                [f'--config-file={first}', '--config-file', second],
                ['--config-file', second, '--config-file', first],
                ['--config-file', first, '--config-dir', directory],
                ['--config-dir', directory, '--config-file', first],
                ['--debug', f'--config-dir={directory}']):
            for more in ({}, {'OS_COMPUTE__CPU_DEDICATED_SET': '50-51',
                              'OS_DEFAULT__RESERVED_HOST_MEMORY_MB': '99',
                              'OS_DEFAULT__CPU_ALLOCATION_RATIO': '9.5'}):
                yield {'arguments': arguments,
                       'environment': {'HOME': str(home)} | more}

    def test_as_nova(self):
        cases = list(self._cases())
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith('OS_')}
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', _NOVA], text=True,
            input=''.join(f'{json.dumps(case)}\n' for case in cases),
            env=environment | {'OS_NOVA_DISABLE_EVENTLET_PATCHING': '1'},
            capture_output=True)
        self.assertEqual(0, done.returncode, done.stderr)
        expected = list(map(json.loads, done.stdout.splitlines()))
        self.assertEqual(len(cases), len(expected))
        # The cases are not all the same.
        self.assertLess(9, len({json.dumps(one) for one in expected}))
        for case, one in zip(cases, expected, strict=True):
            found = self.load(*case['arguments'],
                              **case['environment']).settings
            self.assertEqual(one, {
                'dedicated': list(found.dedicated_cpus or ()),
                'shared': list(found.shared_cpus or ()),
                'memory': found.reserved_memory_mib,
                'cpu': found.cpu_allocation_ratio,
                'ram': found.ram_allocation_ratio,
                'pages': sorted([node, size, count] for (node, size), count
                                in found.reserved_huge_pages.items()),
                'packs': found.packs_cells,
            }, case)


@ddt.ddt
class TestFind(_TestCase):

    def _process(self, pid, *words, environment=''):
        self.write(f'proc/{pid}/cmdline', '\0'.join([*words, '']))
        self.write(f'proc/{pid}/environ', environment)

    def _find(self):
        return nova_conf_reader.find(machine_files.Tree(self.root))

    def test_none_runs(self):
        for pid, words in enumerate((
                ['python3', '/usr/bin/nova-conductor', 'nova-compute'],
                ['vi', '/usr/bin/nova-compute'], ['python3', '-s'], [],
                ['python3', '-c', 'nova-compute.py', 'nova-compute']), 7):
            self._process(pid, *words, environment='X=y')
        self.assertEqual(nova_conf_reader.NovaConfSource(self.root),
                         self._find())

    @ddt.data([], ['-s'], ['-I', '-u'])
    def test_script(self, options):
        self._process(70, '/usr/bin/python3', *options,
                      '/usr/bin/nova-compute', '--config-file', 'a.conf',
                      environment='HOME=/var/lib/nova\0X=a=b\0odd\0')
        self.assertEqual(
            nova_conf_reader.NovaConfSource(
                self.root, ('--config-file', 'a.conf'),
                {'HOME': '/var/lib/nova', 'X': 'a=b'}, pid='70'),
            self._find())

    def test_program(self):
        self._process(70, 'nova-compute', '--debug')
        self.assertEqual(('--debug',), self._find().arguments)

    def test_several(self):
        self._process(9, 'nova-compute', '--first')
        self._process(70, 'nova-compute', '--second')
        self._process(71, 'cron')
        found = self._find()
        self.assertEqual((('--first',), '9', ('70',)),
                         (found.arguments, found.pid, found.others))

    def test_links_of_a_dump_are_not_followed(self):
        """They lead to the machine that the dump is looked at on."""
        self._process(70, 'nova-compute')
        (self.root / 'proc/70/root').symlink_to('/')
        (self.root / 'proc/70/cwd').symlink_to('/tmp')
        self.assertEqual((self.root, '/'),
                         (self._find().root, self._find().directory))

    def _start(self, script, *arguments, **options):
        """Run a script of that name; returns the process."""
        process = subprocess.Popen(
            [sys.executable, self.write('nova-compute', script), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.assertTrue(process.stdout.readline())
        return process

    def _of(self, process, *arguments):
        """Only this one, for others may run on this machine."""
        return nova_conf_reader._process(
            machine_files.Tree(), str(process.pid), arguments)

    def test_running(self):
        """One whose path is not absolute."""
        path = self.write('work/mine.conf', self.dedicated('77'))
        source = self._of(self._start(
            _WAITS, cwd=self.root / 'work',
            env={'HOME': '/nowhere'}), '--config-file', 'mine.conf')
        loaded = nova_conf_reader.load(source)
        self.assertEqual('/nowhere', source.environment['HOME'])
        self.assertEqual(cpus('77'), loaded.settings.dedicated_cpus)
        self.assertTrue(os.path.samefile(path, loaded.files[-1]))

    @unittest.skipIf(os.geteuid(), 'only root can do that')
    def test_in_a_container(self):
        """Its files are those that it sees."""
        path = self.write('inside/etc/nova/nova.conf', self.dedicated('78'))
        source = self._of(self._start(
            f'import os\nos.chroot({str(self.root / "inside")!r})\n'
            f'os.chdir("/")\n{_WAITS}', env={}))
        loaded = nova_conf_reader.load(source)
        self.assertEqual(cpus('78'), loaded.settings.dedicated_cpus)
        [file] = loaded.files
        self.assertTrue(os.path.samefile(path, file))
