# SPDX-License-Identifier: Apache-2.0


import dataclasses
import json

import ddt
import fixtures

from nova_pinning.host.check import containers
from nova_pinning.host.check import facts
from nova_pinning.host.check import processes
from nova_pinning.host import machine_files
from nova_pinning.tests.unit.host.check import fact_samples
from nova_pinning.tests.unit.host.check import host_check_cases
from nova_pinning.tests.unit.host.check import sample_trees
from nova_pinning.tests.unit.host import unreadable
from nova_pinning.tests.unit import unit_base

ID = '0123456789ab' + 'c' * 52
OTHER = 'f' * 64
SHORT = '0123456789ab'
DOCKER = f'var/lib/docker/containers/{ID}/config.v2.json'
PODMAN = 'var/lib/containers/storage/overlay-containers/containers.json'
CONTAINERD = ('run/containerd/io.containerd.runtime.v2.task/k8s.io/'
              f'{ID}/config.json')


@ddt.ddt
class TestContainer(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.machine = sample_trees.Machine(
            self.useFixture(fixtures.TempDir()).path)
        self.tree = machine_files.Tree(self.machine.root)

    def _found(self, cgroups):
        return containers.container(self.tree, cgroups)

    @ddt.data(
        (f'0::/system.slice/docker-{ID}.scope', 'docker'),
        (f'0::/system.slice/docker-{ID}.scope/machine/qemu-1-a', 'docker'),
        (f'0::/docker/{ID}', 'docker'),
        (f'9:name=systemd:/docker/{ID}\n4:cpuset:/docker/{ID}\n0::/',
         'docker'),
        (f'0::/machine.slice/libpod-{ID}.scope/container', 'podman'),
        (f'0::/libpod_parent/libpod-{ID}', 'podman'),
        (f'0::/kubepods.slice/kubepods-pod0a.slice/cri-containerd-{ID}.scope',
         'containerd'),
        (f'0::/kubepods.slice/kubepods-pod0a.slice/crio-{ID}.scope', 'cri-o'),
        (f'0::/kubepods/burstable/pod0a-1/{ID}', ''),
        # One in another is known to its own engine alone.
        (f'0::/docker/{ID}/docker/{OTHER}', 'docker'))
    @ddt.unpack
    def test_id_and_engine(self, cgroups, engine):
        self.assertEqual(facts.Container(ID, engine, SHORT),
                         self._found(cgroups))

    @ddt.data('', '0::/', '0::/system.slice/docker.service',
              '0::/docker/0123', f'0::/machine.slice/x{ID}.scope',
              f'0::/machine.slice/libpod-conmon-{ID}.scope',
              '0::/machine.slice/machine-qemu\\x2d1.scope/emulator')
    def test_none(self, cgroups):
        self.assertIsNone(self._found(cgroups))

    @ddt.data(
        (DOCKER, {'Name': '/ovn_controller'}, 'ovn_controller'),
        (PODMAN, [{'id': OTHER, 'names': ['other']},
                  {'id': ID, 'names': ['fluentd']}], 'fluentd'),
        (PODMAN.replace('containers.json', 'volatile-containers.json'),
         [{'id': ID, 'names': ['cron']}], 'cron'),
        (CONTAINERD, {'annotations': {
            'io.kubernetes.cri.sandbox-name': 'nova-compute-x7f',
            'io.kubernetes.cri.container-name': 'nova-compute'}},
         'nova-compute-x7f/nova-compute'))
    @ddt.unpack
    def test_name(self, path, content, name):
        self.machine.write(f'/{path}', json.dumps(content))
        self.assertEqual(name, self._found(f'0::/docker/{ID}').name)

    @ddt.data(
        (DOCKER, '{'), (DOCKER, '[]'), (DOCKER, '{}'),
        (DOCKER, '{"Name": "/a; reboot"}'), (DOCKER, '{"Name": ["a"]}'),
        (PODMAN, '{}'), (PODMAN, '[1]'), (PODMAN, f'[{{"id": "{ID}"}}]'),
        (PODMAN, f'[{{"id": "{ID}", "names": [1]}}]'),
        (CONTAINERD, '{"annotations": 1}'),
        (CONTAINERD, '{"annotations": {}}'))
    @ddt.unpack
    def test_no_name(self, path, text):
        """What makes no sense is no name; a name is part of a command."""
        self.machine.write(f'/{path}', text)
        self.assertEqual(SHORT, self._found(f'0::/docker/{ID}').name)

    def test_name_that_may_not_be_read(self):
        """That is no gap of a check: its findings are the same."""
        with unreadable.files(lambda _path: True):
            self.assertEqual(SHORT, self._found(f'0::/docker/{ID}').name)
        self.assertEqual({}, self.tree.unread)

    def test_of_a_process(self):
        self.machine.write(f'/{DOCKER}', '{"Name": "/cron"}')
        self.machine.process(
            7, 'cron', '0', 'cron', cgroup=f'0::/docker/{ID}')
        self.assertEqual(facts.Container(ID, 'docker', 'cron'),
                         processes.process(self.tree, 7).container)


@ddt.ddt
class TestFinding(unit_base.TestCase):

    def _only(self, container, change=None, **values):
        process = fact_samples.process(
            700, 'ovn-controller', '3', container=container, **values)
        seen = host_check_cases.with_process(process)
        found, = fact_samples.find(host_check_cases.counted(
            change(seen) if change else seen))
        return found

    @ddt.data('docker', 'podman')
    def test_confined_as_a_whole(self, engine):
        found = self._only(
            facts.Container(ID, engine, 'ovn_controller'), threads=tuple(
                fact_samples.thread(tid, 'x', '3') for tid in (700, 701)))
        self.assertEqual(('H302', f'container ovn_controller ({engine})'),
                         (found.code, found.subject))
        self.assertEqual(
            (f'{engine} update --cpuset-cpus 0,4 ovn_controller',),
            found.remediation)
        self.assertIn('cpuset_cpus', found.advice)

    def test_engine_without_a_command(self):
        found = self._only(facts.Container(ID, '', SHORT))
        self.assertEqual(f'container {SHORT}', found.subject)
        self.assertEqual(('taskset -pc 0,4 700',), found.remediation)

    def test_guests_run_in_it(self):
        """What confines libvirt's container takes their CPUs from guests."""
        container = facts.Container(ID, 'docker', 'nova_libvirt')
        found = self._only(container, lambda seen: dataclasses.replace(
            seen, guests=tuple(
                dataclasses.replace(guest, container=container)
                for guest in seen.guests)))
        self.assertEqual(('taskset -pc 0,4 700',), found.remediation)
