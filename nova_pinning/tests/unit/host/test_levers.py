# SPDX-License-Identifier: Apache-2.0
"""Levers: planned, rendered, pulled on a tree like /sys, and found pulled."""

import dataclasses
import os
import pathlib
import re
import shlex
import subprocess

import ddt
import fixtures

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host.check import gathering
from nova_pinning.host import hardware
from nova_pinning.host import levers
from nova_pinning.host import machine_files
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.host import plan_model
from nova_pinning.host import render
from nova_pinning.host.render import host_unit
from nova_pinning.host.render import options
from nova_pinning.host.render import partition
from nova_pinning.tests.unit.host.check import fact_samples
from nova_pinning.tests.unit.host.plan import test_planner
from nova_pinning.tests.unit import unit_base

BEFORE = {
    'watchdog_cpumask': '0-79', 'stat_interval': '1', 'timer_migration': '1',
    'compaction_proactiveness': '20', 'halt_poll_ns': '0',
    'transparent_hugepage_defrag': 'always defer defer+madvise [madvise] '
                                   'never', 'resume_latency': '0'}


def plan(**values):
    return planner.plan(test_planner.xeon(), plan_request.PlanOptions(
        host_cpus=4, sizes=test_planner.sizes((4,)), **values))


@ddt.ddt
class TestPlanned(unit_base.TestCase):

    def test_dedicated(self):
        self.assertEqual({
            'watchdog_cpumask': '0-1,40-41', 'stat_interval': '10',
            'timer_migration': '0', 'compaction_proactiveness': '0',
            'transparent_hugepage_defrag': 'madvise',
            'halt_poll_ns': '200000'}, plan().plan.levers)

    @ddt.data((20, '20'), (0, 'n/a'))
    @ddt.unpack
    def test_idle_states(self, wake_us, expected):
        self.assertEqual(expected,
                         plan(wake_us=wake_us).plan.levers['resume_latency'])

    def test_what_is_not_wanted(self):
        planned = plan(without_levers=frozenset({'stat_interval'}))
        self.assertNotIn('stat_interval', planned.plan.levers)

    def test_guests_that_float(self):
        planned = planner.plan(test_planner.xeon(), plan_request.PlanOptions(
            purpose=plan_model.Purpose.SHARED))
        self.assertEqual({}, planned.plan.levers)
        both = planner.plan(test_planner.xeon(), plan_request.PlanOptions(
            purpose=plan_model.Purpose.BOTH))
        self.assertNotIn('halt_poll_ns', both.plan.levers)

    def test_small_pages(self):
        self.assertNotIn('compaction_proactiveness',
                         plan(page_size_kib=0).plan.levers)

    def test_each_is_explained(self):
        """Its use, its price, and where it is not for."""
        planned = plan(wake_us=5)
        texts = [reason.text for reason in planned.plan.reasons
                 if reason.subject == 'levers']
        self.assertEqual(set(levers.LEVERS), {
            text.split()[0] for text in texts})
        script = ' '.join(render.files(planned)[
            host_unit.SCRIPT].text.replace('\n#', '').split())
        for text in texts:
            self.assertIn('; costs: ', text)
            self.assertIn('; not where ', text)
        for lever in levers.LEVERS.values():
            for part in (lever.costs, lever.not_where, lever.source):
                self.assertIn(part, script)
            self.assertTrue(lever.source.startswith('Documentation/'))

    @ddt.data(('0-3', '0,1,2,3', True), ('always [madvise]', 'madvise', True),
              ('[always] madvise', 'madvise', False), ('10', '10', True),
              ('1', '10', False), ('n/a', 'n/a', True), ('0', 'n/a', False))
    @ddt.unpack
    def test_is_pulled(self, there, planned, expected):
        lever = levers.LEVERS['stat_interval']
        self.assertEqual(expected, lever.is_pulled(there, planned))


class TestPulled(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.planned = plan(wake_us=20)
        for name, text in BEFORE.items():
            for path in levers.LEVERS[name].paths(cpuset.CpuSet(range(80))):
                self.write(path, text)

    def write(self, path, text):
        place = self.root / path.lstrip('/')
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def run_script(self, path, *arguments):
        script = self.root / 'script'
        script.write_text(render.files(
            self.planned)[path].text)
        return subprocess.run(
            ['sh', script, *arguments], capture_output=True, text=True,
            env=os.environ | {'NOVA_PINNING_SYS': str(self.root / 'sys'),
                              'NOVA_PINNING_PROC': str(self.root / 'proc')})

    def found(self):
        seen = dict(gathering.lever_values(
            machine_files.Tree(self.root), self.planned))
        view = fact_samples.view(dataclasses.replace(
            fact_samples.right_facts(), host=dataclasses.replace(
                self.planned, plan=None), levers=seen), self.planned)
        return list(fact_samples.host_check_run.RULES['H213'].findings(view))

    def test_what_is_found_is_put_right(self):
        found, = self.found()
        # Of all that differ there is one finding, and one thing to do.
        self.assertIn('stat_interval is 1, planned is 10; ', found.message)
        self.assertIn('resume_latency is 0, planned is 20', found.message)
        self.assertNotIn('transparent_hugepage_defrag', found.message)
        for command in found.remediation:
            subprocess.run(['sh', '-c', command.replace(
                '> /', f'> {self.root}/')], check=True)
        self.assertEqual([], self.found())

    def test_the_script_does_it(self):
        self.write('/proc/irq/default_smp_affinity', 'f')
        done = self.run_script(host_unit.SCRIPT)
        self.assertEqual('', done.stderr)
        self.assertEqual([], self.found())
        # The CPUs of the host sleep as deep as they like.
        path = 'sys/devices/system/cpu/cpu{}/power/pm_qos_resume_latency_us'
        self.assertEqual('0', (self.root / path.format(0)).read_text())
        self.assertEqual('20\n', (self.root / path.format(2)).read_text())

    def test_partition(self):
        chosen = options.RenderOptions(
            isolation=options.Isolation.PARTITION)
        files = render.files(self.planned, chosen)
        self.assertIn('AllowedCPUs=2-39,42-79', files[partition.DROP_IN].text)
        self.assertNotIn('isolcpus', files['kernel-command-line.txt'].text)
        commands = dict(re.findall(
            r'^(ExecStart|ExecStop)=(.*)$',
            files[f'etc/systemd/system/{partition.UNIT}'].text.replace(
                '\\\n', ''), re.MULTILINE))

        def run(name):
            done = subprocess.run(
                shlex.split(commands[name].replace(
                    '/sys/', f'{self.root}/sys/')),
                capture_output=True, text=True)
            return done.returncode, done.stdout

        self.assertNotEqual(0, run('ExecStart')[0])
        file = 'sys/fs/cgroup/machine.slice/cpuset.cpus.partition'
        self.write(file, 'member')
        self.assertEqual((0, 'isolated\n'), run('ExecStart'))
        self.assertEqual((0, ''), run('ExecStop'))
        self.assertEqual('member\n', (self.root / file).read_text())
        # Whatever is written there, the kernel says what it has made of it.
        (self.root / file).unlink()
        (self.root / file).symlink_to('/dev/null')
        self.assertEqual(1, run('ExecStart')[0])

    def test_no_partition(self):
        chosen = options.RenderOptions(
            isolation=options.Isolation.PARTITION)
        for planned, told in (
                (plan(shared_cpus=4), 'could not run on the shared CPUs'),
                (dataclasses.replace(self.planned, system=hardware.System(
                    kernel='5.15.0')), 'since 6.1')):
            error = self.assertRaises(
                errors.InputError, render.files, planned, chosen)
            self.assertIn(told, str(error))
