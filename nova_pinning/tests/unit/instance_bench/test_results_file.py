# SPDX-License-Identifier: Apache-2.0

import copy
import dataclasses
import json
import os
import pathlib

import ddt
import fixtures
import hypothesis
from hypothesis import strategies as st

from nova_pinning import cpuset
from nova_pinning.document import decoder
from nova_pinning.document import encoder
from nova_pinning.document import json_text
from nova_pinning.document import line_log
from nova_pinning.document import schema
from nova_pinning.document import typed_document
from nova_pinning import errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench import results_file
from nova_pinning.tests.unit.instance_bench import bench_fakes
from nova_pinning.tests.unit import unit_base

_TENANT = bench_fakes.tenant(
    parameters={'threads': 2, 'share': 0.5, 'text': '1'})
_EXPERIMENT = bench_model.Experiment(
    name='trial', about='Tries.', table='levels', baseline={'size': '2'},
    cases=(bench_model.Case(factors={'size': '2'}, tenants=(_TENANT,)),))
_WORKLOADS = {'spin': bench_fakes.WORKLOAD}
_PLANNED = bench_model.Results(experiment=_EXPERIMENT, workloads=_WORKLOADS)
_FAILURE = bench_model.Failure(factors={'size': '2'}, round=1, started=1.5,
                               message='it broke')

_numbers = st.floats(allow_nan=False, allow_infinity=False)
st.register_type_strategy(cpuset.CpuSet, st.builds(
    cpuset.CpuSet, st.lists(st.integers(0, 200), max_size=5)))
st.register_type_strategy(float, _numbers)
st.register_type_strategy(bench_model.Reading, st.builds(
    bench_model.Reading, started=st.floats(0, 1e9), ended=st.floats(2e9, 3e9),
    figures=st.dictionaries(st.text(), st.floats(0, allow_infinity=False))))
_lines = st.one_of(*map(st.from_type, (
    bench_model.Conditions, bench_model.Measurement, bench_model.Failure,
    instance_clock.ClockCheck)))


def _what_it_is_of(line):
    if not isinstance(line, bench_model.Measurement):
        return id(line)
    return (frozenset(line.factors.items()), line.round, line.repetition)


def _measurement(repetition, seen='4-5'):
    return bench_model.Measurement(
        factors={'size': '2'}, round=1, repetition=repetition, started=5e8,
        load=0.5, readings=(bench_model.Reading(
            tenant='enterprise', instance='enterprise-0', command='spin "é"',
            figures={'turns': 1.5}, started=5e8, ended=5e8 + 2.5,
            counters={'run_delay_seconds': 3.0}),),
        affinities=(bench_model.Affinity(
            thread='enterprise-0: vCPU 0', asked=bench_fakes.cpus('4-5'),
            seen=bench_fakes.cpus(seen)),), flags=('odd',))


class TestCodec(unit_base.TestCase):

    @unit_base.settings(150)
    @hypothesis.given(st.data())
    def test_what_is_written_is_read(self, data):
        kind = data.draw(
            st.sampled_from((bench_model.Conditions, bench_model.Measurement,
                             bench_model.Failure, bench_model.Experiment,
                             bench_model.Workload)))
        value = data.draw(st.from_type(kind))
        text = json.dumps(encoder.encode(value))
        document = json_text.parse(text, 'x')
        schema.validate(document, typed_document.schema(kind))
        self.assertEqual(value, decoder.decode(kind, document.value))

    def test_what_has_a_default_can_be_missing(self):
        value = encoder.encode(_measurement(1))
        del value['flags']
        found = decoder.decode(bench_model.Measurement, value)
        self.assertEqual((), found.flags)
        self.assertNotIn('flags',
                         typed_document.schema(
                             bench_model.Measurement)['required'])
        self.assertIn('load',
                      typed_document.schema(
                          bench_model.Measurement)['required'])

    def test_kinds_of_parameters_stay(self):
        found = decoder.decode(bench_model.Tenant, json.loads(json.dumps(
            encoder.encode(_TENANT))))
        self.assertEqual(
            [int, float, str],
            [type(parameter) for parameter in found.parameters.values()])


@ddt.ddt
class TestResults(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path) / 'results.jsonl'

    def _writer(self, experiment=_EXPERIMENT, workloads=_WORKLOADS):
        return results_file.ResultsWriter(self.path, bench_model.Results(
            experiment=experiment, workloads=workloads))

    def _write(self, *lines, **what):
        with self._writer(**what) as writer:
            for line in lines:
                writer.add(line)
            return writer.before

    def _head(self):
        """Leave a file with nothing but a head."""
        self._write(_FAILURE)
        self.path.write_bytes(
            self.path.read_bytes().splitlines(keepends=True)[0])

    def _wrong(self, *lines):
        """What reading a file says whose last lines are these."""
        self._head()
        with self.path.open('a') as file:
            for line in lines:
                file.write((line if isinstance(line, str)
                            else json.dumps(line)) + '\n')
        return str(self.assertRaises(errors.InputError, results_file.read,
                                     self.path)).splitlines()

    def test_all_comes_back(self):
        self._write(bench_fakes.CONDITIONS, _measurement(1), _FAILURE,
                    _measurement(2))
        found = results_file.read(self.path)
        self.assertEqual(bench_model.Results(
            experiment=_EXPERIMENT, workloads=_WORKLOADS,
            conditions=(bench_fakes.CONDITIONS,),
            measurements=(_measurement(1), _measurement(2)),
            failures=(_FAILURE,)), found)

    def test_each_line_is_on_the_disk_before_the_next(self):
        with self._writer() as writer:
            for number in range(3):
                writer.add(_measurement(number))
                self.assertEqual(
                    number + 1, len(results_file.read(self.path).measurements))

    @unit_base.settings(60)
    @hypothesis.given(st.lists(_lines, min_size=1, max_size=4,
                               unique_by=_what_it_is_of),
                      st.integers(0))
    def test_cut_anywhere(self, lines, cut):
        self.path.unlink(missing_ok=True)
        self._write(*lines)
        whole = self.path.read_bytes()
        cut %= len(whole) + 1
        self.path.write_bytes(whole[:cut])
        left = whole[:cut].count(b'\n')
        if left:
            found = results_file.read(self.path)
            self.assertEqual(left - 1, sum(map(len, (
                found.conditions, found.measurements, found.failures,
                found.clocks))))
        else:
            self.assertRaises(errors.InputError, results_file.read, self.path)
        # Going on from there gives the same file as if nothing had been.
        self._write(*lines[max(left - 1, 0):])
        self.assertEqual(whole, self.path.read_bytes())

    def test_adds_to_what_is_there(self):
        self.assertEqual((), self._write(_measurement(1)).measurements)
        before = self._write(_measurement(2))
        self.assertEqual((_measurement(1),), before.measurements)
        self.assertEqual(2, len(results_file.read(self.path).measurements))

    @ddt.data(
        ({'seed': 2}, _WORKLOADS, 'seed'),
        ({'repetitions': 3}, _WORKLOADS, 'repetitions'),
        ({'cases': (), 'name': 'other'}, _WORKLOADS, 'name, cases'),
        ({}, {'peered': bench_fakes.PEERED}, 'workloads'))
    @ddt.unpack
    def test_another_experiment(self, change, workloads, named):
        self._write(_measurement(1))
        before = self.path.read_bytes()
        other = dataclasses.replace(_EXPERIMENT, **change)
        for call in (lambda: self._writer(other, workloads),
                     lambda: results_file.resumed(
                         self.path, bench_model.Results(
                             experiment=other, workloads=workloads))):
            error = self.assertRaises(errors.InputError, call)
            self.assertIn(f'differ from this run: {named}', str(error))
            self.assertIn('results.jsonl', str(error))
        self.assertEqual(before, self.path.read_bytes())

    def test_a_second_writer(self):
        with self._writer() as writer:
            error = self.assertRaises(errors.InputError, self._write)
            writer.add(_FAILURE)
        self.assertIn('another run is writing', str(error))
        self.assertEqual((_FAILURE,), self._write().failures)

    def test_nothing_to_write_makes_no_file(self):
        self._write()
        self.assertFalse(self.path.exists())

    def test_a_file_that_was_there_stays(self):
        self.path.touch()
        self._write()
        self.assertEqual(b'', self.path.read_bytes())

    def test_a_file_that_was_removed_meanwhile(self):
        """The other run ends between that this one opens and locks."""
        lock = line_log.fcntl.flock
        first = self._writer()

        def late(file, how):
            first.__exit__()
            lock(file, how)

        with fixtures.MonkeyPatch('fcntl.flock', late):
            error = self.assertRaises(errors.InputError, self._write)
        self.assertIn('another run is writing', str(error))
        self._write(_FAILURE)
        self.assertEqual((_FAILURE,), results_file.read(self.path).failures)

    def test_a_file_that_another_run_locked_first(self):
        def late(*_unused):
            raise BlockingIOError

        with fixtures.MonkeyPatch('fcntl.flock', late):
            self.assertRaises(errors.InputError, self._write)
        # It is theirs now.
        self.assertTrue(self.path.exists())

    def test_resumed(self):
        def resumed():
            return results_file.resumed(self.path, _PLANNED)

        self.assertEqual((), resumed().measurements)
        self.assertFalse(self.path.exists())
        self._write(_measurement(1))
        self.assertEqual((_measurement(1),), resumed().measurements)

    @ddt.data(b'something of mine', b'something\nof mine', b'{}\nhalf',
              b'{"head": 3}\nhalf', b'\xff\xfe\n')
    def test_files_of_something_else_are_left_alone(self, content):
        self.path.write_bytes(content)
        self.assertRaises(errors.InputError, self._write)
        self.assertEqual(content, self.path.read_bytes())

    def test_no_file(self):
        error = self.assertRaises(errors.InputError, results_file.read,
                                  self.path)
        self.assertIn('cannot be read: No such file', str(error))

    def test_no_directory(self):
        error = self.assertRaises(
            line_log.LogWriteError, results_file.ResultsWriter,
            self.path / 'below', _PLANNED)
        self.assertIn('cannot be written: No such file', str(error))

    def test_empty(self):
        self.path.write_bytes(b'')
        error = self.assertRaises(errors.InputError, results_file.read,
                                  self.path)
        self.assertIn('no results', str(error))
        self._write(_measurement(1))
        self.assertEqual(1, len(results_file.read(self.path).measurements))

    def test_another_version(self):
        self._head()
        text = self.path.read_text()
        self.path.write_text(text.replace('"version": 2', '"version": 1', 1))
        error = self.assertRaises(errors.InputError, results_file.read,
                                  self.path)
        self.assertIn(':1:', str(error))
        self.assertIn('version 1', str(error))

    def test_measured_twice(self):
        line = {'measurement': encoder.encode(_measurement(1))}
        found = self._wrong(line, line)
        self.assertIn(f'{self.path}:3:', found[0])
        self.assertIn('round 1, repetition 1 of 2 is on line 2 already',
                      found[0])

    def test_what_cannot_be(self):
        for change, said in (
                ({'figures': {'turns': -1.0}}, 'turns is negative: -1'),
                ({'ended': 5e8}, 'ends before it starts'),
                ({'ended': 1.0}, 'ends before it starts')):
            with self.subTest(said):
                self.path.unlink(missing_ok=True)
                value = encoder.encode(_measurement(1))
                value['readings'][0] |= change
                found = self._wrong({'measurement': value})
                self.assertIn(':2:', found[0])
                self.assertIn(said, found[0])

    def test_wrong_values_are_named_with_their_lines(self):
        wrong = {'measurement': encoder.encode(_measurement(1))}
        wrong['measurement']['load'] = 'high'
        found = self._wrong({'failure': encoder.encode(_FAILURE)}, wrong)
        self.assertIn(f'{self.path}:3:', found[0])
        self.assertIn('measurement.load: high is not a number', found[0])

    @ddt.data(
        ('{"measurement": ', 'is not JSON'),
        *((line, 'is none of conditions, measurement, clock, failure; name a '
           'file that nova-pinning bench run has written') for line in (
            '[]', '{}', '{"result": {}}', '{"head": {}}',
            '{"failure": {}, "clock": {}}')),
        ('{"failure": {}}', 'message is missing'),
        ('{"failure": {"round": NaN}}', 'NaN'))
    @ddt.unpack
    def test_odd_lines(self, line, said):
        found = self._wrong(line)
        self.assertIn(said, '\n'.join(found))
        self.assertTrue(found[0].startswith(f'{self.path}:2:'), found)

    def test_cpus_that_cannot_be(self):
        value = copy.deepcopy(encoder.encode(_measurement(1)))
        value['affinities'][0]['seen'] = '5-3'
        found = self._wrong({'measurement': value})
        self.assertIn(':2:', found[0])
        self.assertIn('runs backwards', found[0])

    @ddt.data('write', 'fsync', 'half')
    def test_the_disk_is_full(self, what):
        self._write(_measurement(1))
        before = self.path.read_bytes()
        full = OSError(28, 'No space left on device')
        write = os.write

        def fail(*_unused):
            raise full

        def half(file, data):
            if len(data) > 9:
                return write(file, data[:9])
            raise full

        with self._writer() as writer:
            with fixtures.MonkeyPatch(
                    'os.fsync' if what == 'fsync' else 'os.write',
                    half if what == 'half' else fail):
                error = self.assertRaises(
                    line_log.LogWriteError, writer.add, _measurement(
                        2 if what == 'fsync' else 10))
            self.assertIn('cannot be written: No space left', str(error))
            self.assertEqual(before, self.path.read_bytes())
            # There may be room again.
            writer.add(_measurement(3))
        self.assertEqual([1, 3], [
            measurement.repetition
            for measurement in results_file.read(self.path).measurements])

    def test_numbers_that_json_has_not(self):
        with self._writer() as writer:
            writer.add(_FAILURE)
            self.assertRaises(
                ValueError, writer.add, dataclasses.replace(
                    _measurement(1), load=float('nan')))
        self.assertEqual((), results_file.read(self.path).measurements)
