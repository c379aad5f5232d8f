# SPDX-License-Identifier: Apache-2.0
"""A command of one's own, and how much of it there is time for."""

import dataclasses

import ddt

from nova_pinning import errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import own_command
from nova_pinning.instance_bench.workloads import command
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit.instance_bench.report import report_scenes
from nova_pinning.tests.unit import unit_base


@ddt.ddt
class OwnCommandTest(unit_base.TestCase):

    def test_command_is_as_it_is(self):
        text = "awk '{ print $1 }' x | tee ${HOME}/y {vcpus}"
        found = own_command.workload(text, 1.0)
        self.assertEqual(text, command.fill(found.command, {}, None))
        self.assertIsNone(found.figures[0].pattern)

    @ddt.data(('exit 3', 60, 'status 3: without a word'),
              ('echo it is wrong >&2; exit 1', 60, 'status 1: it is wrong'),
              ('sleep 60', 0.1, 'has not ended after 0.1 s'))
    @ddt.unpack
    def test_what_fails(self, text, deadline, said):
        error = self.assertRaises(errors.InputError, own_command.seconds,
                                  text, deadline)
        self.assertIn(f'--command: {"has" if "has" in said else "ended with"}',
                      str(error))
        self.assertIn(said, str(error))

    def test_runs_in_an_empty_directory(self):
        self.assertGreater(own_command.seconds(
            'test -z "$(ls -A)" && test "$PWD" != /', 60), 0)

    def planned(self, seconds, rounds=1):
        work = own_command.workload('x', seconds)
        tenant = bench_fakes.tenant(
            'a', 1, 1024, workload=own_command.NAME,
            platform=bench_model.PlatformName.BARE_METAL)
        return bench_model.Results(
            experiment=bench_model.Experiment(
                name='mine', about='', table='mine', baseline={},
                rounds=rounds, repetitions=1, warm_ups=1, cases=(
                    report_scenes.case(tenant, scenario='a'),)),
            workloads={work.name: work})

    def test_rounds(self):
        # A second to launch, and two runs beside two others each.
        for rounds in (1, 4):
            self.assertEqual(8, own_command.rounds(
                self.planned(1.0, rounds), 1))
        error = self.assertRaises(
            errors.InputError, own_command.rounds, self.planned(10.0), 2)
        self.assertIn('give it 4 minutes', str(error))

    def test_window_takes_two_runs(self):
        self.assertEqual(30.0, own_command.window_seconds(self.planned(1.0)))
        self.assertEqual(60.0, own_command.window_seconds(self.planned(10.0)))
        planned = self.planned(1.0)
        self.assertEqual(40.0, own_command.window_seconds(dataclasses.replace(
            planned, experiment=dataclasses.replace(
                planned.experiment, window_seconds=40.0))))
