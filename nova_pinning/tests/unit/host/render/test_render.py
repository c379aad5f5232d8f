# SPDX-License-Identifier: Apache-2.0
"""All files of a plan: that they say what it says, each time the same."""

import dataclasses
import re
import shlex
import subprocess

import ddt
import hypothesis
from hypothesis import strategies as st
import jinja2
import yaml

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import plan_model
from nova_pinning.host import render
from nova_pinning.host.render import forms
from nova_pinning.host.render import host_unit
from nova_pinning.host.render import kernel
from nova_pinning.host.render import nova_conf
from nova_pinning.host.render import options
from nova_pinning.host.render import partition
from nova_pinning.host.render import planned_host
from nova_pinning.host.render import provider
from nova_pinning.host.render import readme
from nova_pinning.host.render import tuned
from nova_pinning.tests.unit.host import host_samples
from nova_pinning.tests.unit.host.render import render_samples
from nova_pinning.tests.unit import unit_base

PARSE = cpuset.CpuSet.parse


def values(text, key):
    """What stands behind a key, wherever a line sets it."""
    return re.findall(rf'^{re.escape(key)} ?= ?(.+)$', text, re.MULTILINE)


def words(files):
    """The kernel's command line as GRUB would have it, by name."""
    line = files[kernel.TEXT_PATH].text.splitlines()[-1]
    found = {}
    for word in line.split():
        name, _equals, value = word.partition('=')
        found.setdefault(name, []).append(value)
    return found


def _system(kernel='6.1.0', **values):
    return hardware.System(kernel=kernel, **values)


class TestAnyPlan(unit_base.TestCase):

    @unit_base.settings(60)
    @hypothesis.given(render_samples.any_case())
    def test_cpus_are_those_of_the_plan(self, case):
        """Read back with the words of each file, not with our own."""
        host, wanted = case
        files = render.files(host, wanted)
        nova, plan = host.nova, host.plan
        text = files[nova_conf.PATH].text
        for key, cpus in (('cpu_dedicated_set', nova.dedicated_cpus),
                          ('cpu_shared_set', nova.shared_cpus)):
            # Also where there are none: another file may name some.
            self.assertEqual([str(cpus)] if cpus else [], values(text, key))
            self.assertIn(f'\n{key} =', text)
        quiet = (nova.dedicated_cpus or PARSE('')) | plan.poll_cpus
        self._check_kernel(words(files), plan.host_cpus, quiet, wanted)
        self._check_services(files, host, wanted)
        text = files[host_unit.SCRIPT].text
        self.assertEqual([f"'{plan.host_cpus}'"], values(text, 'host_cpus'))
        self.assertEqual(
            [(interrupt.address, list(interrupt.cpus))
             for interrupt in plan.interrupts],
            [(address, [int(cpu) for cpu in cpus.split()])
             for address, cpus in re.findall(
                 r'^    spread (\S+) ([\d ]+) ', text, re.MULTILINE)])
        if quiet and wanted.confinement in (None, options.Confinement.TUNED):
            text = files[tuned.PATH].text
            self.assertEqual([str(quiet)], values(text, 'isolated_cores'))
            full = wanted.isolation is options.Isolation.FULL
            self.assertEqual([str(quiet)] if full else [],
                             values(text, 'no_balance_cores'))
        else:
            self.assertNotIn(tuned.PATH, files)

    def _check_kernel(self, found, host_cpus, quiet, wanted):
        self.assertEqual([str(host_cpus)], found['irqaffinity'])
        # Or else tuned writes these.
        ours = wanted.confinement not in (None, options.Confinement.TUNED)
        tickless = ours and wanted.isolation in (options.Isolation.TICKLESS,
                                                 options.Isolation.FULL)
        full = ours and wanted.isolation is options.Isolation.FULL
        for name, prefix, there in (('nohz_full', '', tickless),
                                    ('rcu_nocbs', '', tickless),
                                    ('isolcpus', 'managed_irq,domain,', full)):
            self.assertEqual([f'{prefix}{quiet}'] if there else None,
                             found.get(name))

    def _check_services(self, files, host, wanted):
        host_cpus, poll = host.plan.host_cpus, host.plan.poll_cpus
        for path, file in files.items():
            affinity = values(file.text, 'CPUAffinity')
            allowed = values(file.text, 'AllowedCPUs')
            if path == partition.DROP_IN:
                self.assertEqual([str(host.nova.dedicated_cpus)], allowed)
                continue
            if path.endswith('.conf') and '/systemd/' in path:
                self.assertEqual(1, len(affinity + allowed), path)
            else:
                self.assertEqual([], affinity + allowed)
            expected = host_cpus
            if 'system.slice.d' in path:
                expected |= poll
            self.assertEqual([str(expected)] * len(affinity + allowed),
                             affinity + allowed)

    @unit_base.settings(25)
    @hypothesis.given(render_samples.any_case(),
                      st.sampled_from(options.RenderFormat))
    def test_deterministic(self, case, form):
        host, wanted = case
        wanted = dataclasses.replace(wanted, format=form)
        files = render.files(host, wanted)
        again = render.files(host, wanted)
        self.assertEqual(list(files.items()), list(again.items()))
        for path, file in files.items():
            self.assertEqual(path, file.path)
            self.assertFalse(path.startswith('/'))
            self.assertTrue(file.text.endswith('\n'), path)

    @unit_base.settings(25)
    @hypothesis.given(render_samples.any_case())
    def test_every_line_of_a_head_is_a_comment(self, case):
        """What stands in names does not get out of the comments."""
        files = render.files(*case)
        for path, file in files.items():
            if path not in (readme.PATH, provider.PATH):
                self.assertIn(file.text[:2], ('# ', '#!'), path)
                self.assertLess(max(
                    len(line) for line in file.text.splitlines()
                    if line.startswith('# ') and ' ' in line[2:].strip()), 80)

    @unit_base.settings(25)
    @hypothesis.given(render_samples.any_case())
    def test_the_shell_reads_what_it_sources(self, case):
        files = render.files(*case)
        done = subprocess.run(
            ['sh', '-eu'], capture_output=True, text=True, check=True,
            input='GRUB_CMDLINE_LINUX_DEFAULT=quiet\n'
            + files[kernel.GRUB_PATH].text
            + 'echo "$GRUB_CMDLINE_LINUX_DEFAULT"\n')
        plain = files[kernel.TEXT_PATH].text.splitlines()[-1]
        self.assertEqual(f'quiet {plain}\n', done.stdout)
        self.assertEqual('', done.stderr)
        for path, file in files.items():
            if file.executable:
                subprocess.run(['sh', '-n'], input=file.text, text=True,
                               check=True)


@ddt.ddt
class TestFiles(unit_base.TestCase):

    def test_no_host_cpus(self):
        host = render_samples.planned(plan_values={'host_cpus': PARSE('')})
        self.assertRaises(errors.InputError, render.files, host)

    @ddt.data(*options.RenderFormat)
    def test_readme(self, form):
        files = render.files(render_samples.polling(),
                             options.RenderOptions(format=form))
        self.assertEqual(readme.PATH, list(files)[-1])
        listed = [line.removesuffix(' (executable)')
                  for line in files[readme.PATH].text.splitlines()
                  if line.removesuffix(' (executable)') in files]
        self.assertEqual(list(files)[:-1], listed)
        # Who merges it into nova.conf has nothing to take out of that.
        self.assertEqual(
            form in (options.RenderFormat.FILES, options.RenderFormat.ANSIBLE),
            f'stand in {nova_conf.PATH}' in ' '.join(
                files[readme.PATH].text.split()))

    def test_a_host_for_both_classes(self):
        host = render_samples.planned(
            plan_values={'purpose': plan_model.Purpose.BOTH},
            traits=frozenset())
        self.assertNotIn(provider.PATH, render.files(host))
        # Whoever has named one of the two means it.
        host = dataclasses.replace(
            host, traits=frozenset({'CUSTOM_PINNING_SHARED'}))
        self.assertIn('CUSTOM_PINNING_SHARED',
                      render.files(host)[provider.PATH].text)
        host = render_samples.planned()
        self.assertIn('CUSTOM_PINNING_DEDICATED',
                      render.files(host)[provider.PATH].text)

    def test_modes(self):
        files = render.files(render_samples.polling(pages=(1024, 3),
                                                    system=_system('')))
        self.assertEqual(
            {path for path in files if 'sbin' in path},
            {path for path, file in files.items() if file.executable})
        self.assertEqual(2, len([path for path in files if 'sbin' in path]))

    def test_device_types(self):
        function = host_model.PciDevice(
            '0000:5e:02.0', '10de', '1db7', 1, 'gpu',
            physical_function=render_samples.CARD)
        whole = host_model.PciDevice(render_samples.CARD, '10de', '1db6', 1,
                                     'card')
        plain = host_model.PciDevice(render_samples.DISK, '144d', 'a80a', 1,
                                     'disk')
        for disk, wanted in (
                (plain, 'type-PCI'),
                (dataclasses.replace(plain, sriov_totalvfs=4), 'type-PF')):
            host = render_samples.planned(pci_devices=(function, whole, disk))
            self.assertEqual(['type-PF', wanted, 'type-VF'], [
                alias['device_type'] for alias in nova_conf.aliases(
                    planned_host.planned_host_of(host))])
        mixed = render_samples.planned(pci_devices=(
            function, dataclasses.replace(whole, alias='gpu')))
        error = self.assertRaises(errors.InputError, render.files, mixed)
        self.assertIn("'gpu' are type-PF and type-VF", str(error))

    def test_order_of_nodes(self):
        """It is set where the plan says so, for every way to deploy."""
        option = 'packing_host_numa_cells_allocation_strategy'
        path = 'group_vars/pinned/nova_pinning.yml'
        host = render_samples.planned()
        self.assertNotIn(option, render.files(host)[nova_conf.PATH].text)
        for said, text in ((True, 'true'), (False, 'false')):
            host = dataclasses.replace(host, nova=dataclasses.replace(
                host.nova, packs_cells=said))
            self.assertIn(f'\n{option} = {text}\n',
                          render.files(host)[nova_conf.PATH].text)
            found = yaml.load(render.files(host, options.RenderOptions(
                format=options.RenderFormat.OPENSTACK_ANSIBLE,
                group='pinned'))[path].text, _Loader)
            self.assertEqual(text, found['nova_nova_conf_overrides'][
                'compute'][option])

    def test_openvswitch(self):
        files = render.files(render_samples.polling())
        text = files['usr/local/sbin/nova-pinning-openvswitch'].text
        command = text[text.index('exec '):].replace('\\\n', '')
        self.assertEqual(
            ['exec', 'ovs-vsctl', '--no-wait', 'set', 'Open_vSwitch', '.',
             'other_config:dpdk-init=true',
             'other_config:dpdk-lcore-mask=0x11',
             'other_config:dpdk-socket-mem=0,1024',
             'other_config:pmd-cpu-mask=0x22'], shlex.split(command))
        self.assertNotIn('usr/local/sbin/nova-pinning-openvswitch',
                         render.files(render_samples.planned()))

    def test_openvswitch_without_pages(self):
        host = render_samples.planned(
            plan_values={'poll_cpus': PARSE('1,5')},
            nova=host_samples.settings(dedicated='2,6'))
        text = render.files(host)[
            'usr/local/sbin/nova-pinning-openvswitch'].text
        self.assertNotIn('other_config:dpdk-socket-mem', text)


@ddt.ddt
class TestDeployed(unit_base.TestCase):
    """The formats for Ansible."""

    def setUp(self):
        super().setUp()
        self.host = render_samples.polling(pages=(1024, 512))
        self.plain = render.files(self.host)

    def _render(self, form, **values):
        if 'hosts' not in values:
            values['group'] = 'pinned'
        return render.files(self.host,
                            options.RenderOptions(format=form, **values))

    @staticmethod
    def _load(file):
        return yaml.load(file.text, Loader=_Loader)

    def test_ansible(self):
        files = self._render(options.RenderFormat.ANSIBLE)
        self.assertEqual(
            ['group_vars/pinned/nova_pinning.yml', forms.PLAYBOOK,
             kernel.TEXT_PATH, readme.PATH], list(files))
        [play] = self._load(files[forms.PLAYBOOK])
        # As ansible-lint has it.
        for task in play['tasks']:
            [values] = [value for key, value in task.items()
                        if key.startswith('ansible.builtin.')]
            self.assertIn('mode', values)
        for file in files.values():
            if file.path.startswith('group_vars/'):
                self.assertNotRegex(file.text, '(?m)^- ')
                self.assertIn('# yamllint disable rule:line-length\n---\n',
                              file.text)
        self.assertEqual('pinned', play['hosts'])
        self.assertEqual({'{{ nova_pinning_files }}'},
                         {task['loop'] for task in play['tasks']})
        self.assertIn(forms.PLAYBOOK, files[readme.PATH].text)
        found = self._load(next(iter(files.values())))
        self.assertEqual(set(), {key for key in found
                                 if not key.startswith('nova_pinning_')})
        self.assertEqual(
            {f'/{path}': (file.text, '0755' if 'sbin' in path else '0644')
             for path, file in self.plain.items()
             if path not in (readme.PATH, kernel.TEXT_PATH)},
            {one['dest']: (one['content'], one['mode'])
             for one in found['nova_pinning_files']})
        self.assertEqual(
            self.plain[kernel.TEXT_PATH].text.splitlines()[-1].split(),
            found['nova_pinning_kernel_command_line'])

    @unit_base.settings(15)
    @hypothesis.given(render_samples.any_case())
    def test_any_ansible(self, case):
        host, wanted = case
        plain = render.files(host, wanted)
        files = render.files(host, dataclasses.replace(
            wanted, format=options.RenderFormat.ANSIBLE))
        for path, file in files.items():
            if not path.endswith('nova_pinning.yml'):
                continue
            for one in self._load(file)['nova_pinning_files']:
                self.assertEqual(plain[one['dest'][1:]].text, one['content'])

    def test_what_jinja_would_read_is_marked(self):
        self.host = render_samples.planned(pci_devices=(
            host_model.PciDevice(
                render_samples.CARD, '10de', '1db6', 1, '{{ x }}'),))
        file = next(iter(self._render(
            options.RenderFormat.OPENSTACK_ANSIBLE).values()))
        self.assertIn("- !unsafe '{", file.text)
        [alias] = self._load(file)['nova_pci_alias']
        self.assertIn('"{{ x }}"', alias)
        file = next(iter(self._render(
            options.RenderFormat.ANSIBLE).values()))
        self.assertIn('content: !unsafe |', file.text)

    def test_hosts(self):
        files = self._render(options.RenderFormat.ANSIBLE, hosts=('a', 'b'))
        self.assertEqual(['host_vars/a/nova_pinning.yml',
                          'host_vars/b/nova_pinning.yml', forms.PLAYBOOK,
                          kernel.TEXT_PATH, readme.PATH], list(files))
        self.assertIn('hosts: a:b', files[forms.PLAYBOOK].text)
        files = self._render(options.RenderFormat.KOLLA, hosts=('a',))
        self.assertIn('config/nova/a/nova.conf', files)
        self.assertNotIn('config/nova/nova-compute.conf', files)
        self.assertIn('host_vars/a/nova_pinning.yml', files)

    def test_kolla(self):
        confinement = options.Confinement.AFFINITY
        self.plain = render.files(self.host, options.RenderOptions(
            confinement=confinement))
        files = self._render(
            options.RenderFormat.KOLLA, services=('own.service',),
            confinement=confinement)
        conf = jinja2.Template(files['config/nova/nova-compute.conf'].text)
        plain = self.plain[nova_conf.PATH].text
        self.assertIn(plain[plain.index('\n[DEFAULT]'):],
                      conf.render(group_names=['compute', 'pinned']))
        self.assertNotIn('[', conf.render(group_names=['compute']))
        found = self._load(files['group_vars/pinned/nova_pinning.yml'])
        self.assertEqual(
            ['CUSTOM_PINNING_DEDICATED'],
            found['nova_cell_compute_provider_config']['providers'][0]
            ['traits']['additional'])
        self.assertNotIn('unsafe',
                         files['group_vars/pinned/nova_pinning.yml'].text)
        self.assertIn('hosts: pinned\n', files[forms.PLAYBOOK].text)
        on_host = {one['dest'][1:] for one in found['nova_pinning_files']}
        left_out = set(self.plain) - on_host
        self.assertEqual(
            {nova_conf.PATH, readme.PATH, kernel.TEXT_PATH,
             'etc/nova/provider_config/50-nova-pinning.yaml'}, left_out)
        self.assertIn('etc/systemd/system/own.service.d/50-nova-pinning.conf',
                      on_host)

    @ddt.data('docker', 'podman')
    def test_containers_of_kolla(self, engine):
        """All are on CPUs for the host, but for what is below libvirt's."""
        def dimensions(name):
            text = found[f'{name}_dimensions'].removeprefix(
                '{{ ').removesuffix(' }}')
            return environment.compile_expression(text)(
                kolla_container_engine=engine, **variables)

        environment = jinja2.Environment()
        environment.filters['combine'] = (
            lambda first, second, recursive=False: first | second)
        variables = {
            'default_container_dimensions_docker': {'engine': 'docker'},
            'default_container_dimensions_podman': {'engine': 'podman'},
            'nova_libvirt_default_dimensions': {'ulimits': 1}}
        found = self._load(self._render(options.RenderFormat.KOLLA)[
            'group_vars/pinned/nova_pinning.yml'])
        default = dimensions('default_container')
        self.assertEqual({'engine': engine, 'cpuset_cpus': '0,4'}, default)
        self.assertEqual({'engine': engine, 'ulimits': 1},
                         dimensions('nova_libvirt'))
        variables['default_container_dimensions'] = default
        for name in ('openvswitch_vswitchd', 'ovsdpdk_vswitchd'):
            self.assertEqual({'engine': engine, 'cpuset_cpus': '0-1,4-5'},
                             dimensions(name))
        self.host = render_samples.planned()
        found = self._load(self._render(options.RenderFormat.KOLLA)[
            'group_vars/pinned/nova_pinning.yml'])
        self.assertEqual(
            {'default_container_dimensions', 'nova_libvirt_dimensions'},
            {name for name in found if name.endswith('_dimensions')})

    def test_openstack_ansible(self):
        files = self._render(options.RenderFormat.OPENSTACK_ANSIBLE)
        found = self._load(files['group_vars/pinned/nova_pinning.yml'])
        on_host = {one['dest'] for one in found.pop('nova_pinning_files')}
        self.assertEqual({
            'nova_nova_conf_overrides': {
                'DEFAULT': {'reserved_huge_pages': {
                    'node:1,size:2048,count:512': None}},
                'compute': {'cpu_dedicated_set': '2,6',
                            'cpu_shared_set': '3,7'}},
            'nova_reserved_host_memory_mb': 0,
            'nova_ram_allocation_ratio': 1.0,
            'nova_cpu_allocation_ratio': 1.0,
            'nova_device_spec': [{'address': render_samples.CARD}],
            'nova_pci_alias': [
                '{"name": "gpu", "vendor_id": "10de", "product_id": "1db6", '
                '"device_type": "type-PCI"}'],
        }, found)
        self.assertNotIn(f'/{nova_conf.PATH}', on_host)
        self.assertIn(f'/{kernel.GRUB_PATH}', on_host)


class _Loader(yaml.SafeLoader):
    """Knows the tag by which Ansible is told not to look for templates."""


_Loader.add_constructor(
    '!unsafe', lambda loader, node: loader.construct_scalar(node))
