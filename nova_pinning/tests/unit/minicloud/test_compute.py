# SPDX-License-Identifier: Apache-2.0

import configparser
import pathlib
import re
import subprocess
from unittest import mock

import ddt
import fixtures
from nova import conf
from oslo_config import cfg

from minicloud import accelerator
from minicloud import api
from minicloud import errors
from minicloud import hosts
from minicloud import libvirt
from minicloud import settings
from nova_pinning.tests.unit.minicloud import minicloud_case

HOSTS = (settings.HostSettings('pinning-1', '2-3', '0-1'),
         settings.HostSettings('pinning-2', '', '0'))


class Base(minicloud_case.StateTestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.settings = settings.Settings(hosts=HOSTS, base_port=23000)


@ddt.ddt
class TestConfig(Base):

    def service(self, number=0, virt_type='qemu'):
        self.patch(accelerator, 'virt_type', return_value=virt_type)
        return hosts.NovaCompute(self.state, self.settings, HOSTS[number])

    def load(self, *given, **named):
        """Return the options of the file as oslo.config reads them."""
        service = self.service(*given, **named)
        for path, text in service.config().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        options = cfg.ConfigOpts()
        for module in (conf.base, conf.compute, conf.libvirt, conf.netconf,
                       conf.paths, conf.service, conf.servicegroup,
                       conf.vnc, conf.spice, conf.workarounds):
            module.register_opts(options)
        options(service.config_files(), project='nova')
        return options

    def test_options_are_novas(self):
        options = self.load()
        known = {'DEFAULT': options}
        for section in ('compute', 'libvirt', 'vnc', 'spice'):
            known[section] = options[section]
        parser = configparser.RawConfigParser(
            default_section='', strict=False)
        parser.read(self.service().config_files()[1])
        # Of oslo.log, oslo.messaging and nova modules that load much.
        others = {'debug', 'use_stderr', 'log_options', 'transport_url',
                  'default_log_levels', 'rpc_response_timeout'}
        for section, values in known.items():
            for name in parser[section]:
                if name not in others:
                    self.assertIn(name, values, f'[{section}] {name}')

    def test_cpus(self):
        options = self.load()
        self.assertEqual('2-3', options.compute.cpu_dedicated_set)
        self.assertEqual('0-1', options.compute.cpu_shared_set)
        self.assertIsNone(self.load(1).compute.cpu_dedicated_set)

    def test_hosts_are_told_apart(self):
        one, two = (self.load(number) for number in (0, 1))
        self.assertEqual(('pinning-1', '127.0.0.11'), (one.host, one.my_ip))
        self.assertEqual(('pinning-2', '127.0.0.12'), (two.host, two.my_ip))
        # A live migration keeps the path of the disk.
        self.assertEqual(one.instances_path, two.instances_path)

    def test_libvirt(self):
        group = self.load().libvirt
        self.assertEqual('qemu+tcp://127.0.0.12:23021/system',
                         group.live_migration_uri % '127.0.0.12')
        self.assertEqual('127.0.0.11', group.live_migration_inbound_addr)

    @ddt.data(('qemu', 'none'), ('kvm', 'host-passthrough'))
    @ddt.unpack
    def test_cpu_mode(self, virt_type, cpu_mode):
        group = self.load(virt_type=virt_type).libvirt
        self.assertEqual((virt_type, cpu_mode),
                         (group.virt_type, group.cpu_mode))

    def test_no_database(self):
        """A nova-compute that knows one does not start."""
        text = '\n'.join(self.service().config().values())
        self.assertNotIn('database]', text)
        self.assertNotIn('mysql', text)

    def test_what_the_user_wants_comes_last(self):
        extra = self.state.root / 'mine.conf'
        extra.write_text('[libvirt]\ncpu_mode = custom\n')
        hosts = (settings.HostSettings('pinning-1', '1', '0',
                                       nova_conf=str(extra)),)
        with mock.patch(f'{__name__}.HOSTS', hosts):
            self.assertEqual('custom', self.load().libvirt.cpu_mode)


class TestLibvirt(Base):

    def texts(self, name):
        address = self.settings.host_address(name)
        return (libvirt.libvirtd_conf(
            self.state, self.settings, name, address),
            libvirt.qemu_conf(self.settings, name, ['/run/hugepages/2048']))

    def read(self, name):
        return [dict(re.findall(r'^(\w+) = (.*)$', text, re.M))
                for text in self.texts(name)]

    def test_hosts_are_told_apart(self):
        uuids, addresses, ports = set(), set(), []
        for host in HOSTS:
            libvirtd, qemu = self.read(host.name)
            uuids.add(libvirtd['host_uuid'])
            addresses.add(libvirtd['listen_addr'])
            self.assertEqual(libvirtd['listen_addr'],
                             qemu['migration_address'])
            ports += range(int(qemu['migration_port_min']),
                           int(qemu['migration_port_max']) + 1)
        self.assertEqual({'"127.0.0.11"', '"127.0.0.12"'}, addresses)
        self.assertEqual(len(HOSTS), len(uuids))
        self.assertEqual(len(ports), len(set(ports)))
        services = {self.settings.port(name) for name in settings.PORTS}
        self.assertFalse(services & set(ports))

    def test_same_uuid_each_time(self):
        self.assertEqual(self.read('pinning-1'), self.read('pinning-1'))

    def test_clouds_have_other_uuids(self):
        other = settings.State(pathlib.Path('/another'))
        self.assertNotEqual(libvirt.host_uuid(self.state, 'pinning-1'),
                            libvirt.host_uuid(other, 'pinning-1'))

    def test_options_are_libvirts(self):
        """What is not commented on in libvirt's own files is a mistake."""
        for name, text in zip(('libvirtd.conf', 'qemu.conf'),
                              self.texts('pinning-1'), strict=True):
            path = pathlib.Path('/etc/libvirt') / name
            try:
                known = set(re.findall(r'^#?(\w+) ?=', path.read_text(),
                                       re.M))
            except OSError as e:
                self.skipTest(str(e))
            found = set(re.findall(r'^(\w+) = ', text, re.M))
            self.assertEqual(set(), found - known)

    def test_values(self):
        libvirtd, qemu = self.read('pinning-1')
        # libvirt wants a string for this port and numbers for the others.
        self.assertEqual('"23021"', libvirtd['tcp_port'])
        self.assertEqual('["/run/hugepages/2048"]', qemu['hugetlbfs_mount'])
        self.assertEqual('"root"', qemu['user'])


class TestLibvirtCheck(Base):

    def check(self, **options):
        with mock.patch('subprocess.run', **options):
            libvirt.check(self.settings, 'pinning-1', '127.0.0.11')

    def answer(self, stdout, stderr=''):
        return subprocess.CompletedProcess([], 0, stdout, stderr)

    def test_ready(self):
        self.check(return_value=self.answer('pinning-1\n\n'))

    def test_not_ready(self):
        for options in (
                {'return_value': self.answer('', 'error: refused')},
                {'return_value': self.answer('another\n')},
                {'side_effect': subprocess.TimeoutExpired([], 10)},
                {'side_effect': FileNotFoundError()}):
            e = self.assertRaises(errors.NotReady, self.check, **options)
            self.assertIn('qemu+tcp://127.0.0.11:23021/system', str(e))


@ddt.ddt
class TestCheck(Base):

    def check(self, log='... Join ServiceGroup membership ...', forced=False,
              **hypervisor):
        service = hosts.NovaCompute(self.state, self.settings, HOSTS[0])
        service.log.write_text(log)
        found = {'hypervisor_hostname': 'pinning-1', 'state': 'up',
                 **hypervisor}
        answers = {'os-hypervisors': {'hypervisors': [found]},
                   'os-services': {'services': [{'forced_down': forced}]}}

        def get(service, wanted):
            kind, _, query = wanted.strip('/').partition('?')
            self.assertIn('pinning-1', query)
            return answers[kind]

        with mock.patch.object(api.Api, 'get', side_effect=get):
            service.check()
        return service.remark

    def test_ready(self):
        self.assertEqual('', self.check())

    def test_forced_down(self):
        said = self.check(state='down', forced=True)
        self.assertIn('pinning-1 is forced down', said)
        self.assertIn('compute service set --up pinning-1 nova-compute', said)

    @ddt.data({'log': 'Starting compute node'}, {'state': 'down'},
              # The API looks for a part of the name.
              {'hypervisor_hostname': 'pinning-11'})
    def test_not_ready(self, options):
        self.assertRaises(errors.NotReady, self.check, **options)
