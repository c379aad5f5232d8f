# SPDX-License-Identifier: Apache-2.0

import itertools
import json
import pathlib
import shlex

import ddt
import fixtures
from oslotest import base as oslotest
import testtools

from nova_pinning import cpuset
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.workloads import command
from nova_pinning.instance_bench.workloads import figures
from nova_pinning.instance_bench.workloads import workload_catalogue

DOC = pathlib.Path(__file__).parents[5] / 'doc' / 'source' / 'admin'
OWN = """
version: 1
workloads:
  compress:
    class: cpu
    about: How fast xz is.
    programs: {xz: xz-utils}
    packages: [coreutils]
    parameters: {megabytes: 64, level: 6, ratio: 1.5, mode: 'a/b',
                 threads: '{vcpus}'}
    prepare:
      - head -c {megabytes}M /dev/urandom > {work}/data
    peer: sleep {megabytes} {peer} {sources}
    peer_programs: {sleep: coreutils}
    command: >-
      xz -{level} --threads={threads} --keep {work}/data {mode} {ratio}
    figures:
      - {name: seconds, unit: s, better: lower}
      - {name: rate, unit: kB/s, better: higher, pattern: 'at (.*)$',
         scale: 0.001}
    seconds: 12
"""


def parse(text, taken=()):
    return workload_catalogue.parse(text, 'own.yaml', taken)


def one(text, commands='true', figure='name: f, unit: s, better: lower'):
    """A workload whose keys after the fourth line are given."""
    return (f'version: 1\nworkloads:\n  w:\n    class: cpu\n    about: x\n'
            f'    command: {json.dumps(commands)}\n'
            f'    figures: [{{{figure}}}]\n    {text}\n')


class TestShipped(oslotest.BaseTestCase):

    def test_cannot_be_changed(self):
        with testtools.ExpectedException(TypeError):
            workload_catalogue.shipped()['x'] = None

    def test_all_commands_can_be_filled(self):
        values = command.InstanceValues(
            vcpus=2, cpus=cpuset.CpuSet([0, 1]), memory_mib=512,
            programs='/p', work='/w', peer='127.0.0.1')
        for workload in workload_catalogue.shipped().values():
            for text in (workload.command, *workload.prepare, workload.peer):
                command.fill(text, command.merge(workload, {}), values)

    def test_peers_listen_where_they_are_told_to(self):
        for workload in workload_catalogue.shipped().values():
            if workload.peer:
                self.assertIn('{peer}', workload.peer)
                self.assertIn('{peer}', workload.command)

    def test_all_can_be_short(self):
        """What loops for a window takes as long as it is told to."""
        # These do so much and end.
        fixed = {'sysbench-cpu-fixed', 'sysbench-mutex'}
        self.assertEqual(fixed, {
            name for name, workload in workload_catalogue.shipped().items()
            if not isinstance(workload.parameters.get('duration'), int)})

    def test_the_documentation_has_all_files(self):
        path = DOC / 'bench-workloads.rst'
        if not path.is_file():
            self.skipTest('not run from a checkout')
        files = pathlib.Path(workload_catalogue.__file__).parent
        for file in files.glob('*.yaml'):
            self.assertIn(f'workloads/{file.name}\n', path.read_text())

    def test_example_of_the_documentation(self):
        path = DOC / 'bench-workloads-own.yaml'
        if not path.is_file():
            self.skipTest('not run from a checkout')
        found = workload_catalogue.load([path])
        own, = set(found) - set(workload_catalogue.shipped())
        self.assertEqual({'speed': 303.58579}, figures.read(
            found[own], 'CPUINFO: x\nsha256          303585.79k\n', 1))


@ddt.ddt
class TestParse(oslotest.BaseTestCase):

    def test_all(self):
        self.assertEqual({'compress': bench_model.Workload(
            name='compress', workload_class=bench_model.WorkloadClass.CPU,
            about='How fast xz is.', programs={'xz': 'xz-utils'},
            packages=('coreutils',),
            parameters={'megabytes': 64, 'level': 6, 'ratio': 1.5,
                        'mode': 'a/b', 'threads': '{vcpus}'},
            prepare=('head -c {megabytes}M /dev/urandom > {work}/data',),
            peer='sleep {megabytes} {peer} {sources}',
            peer_programs={'sleep': 'coreutils'},
            command='xz -{level} --threads={threads} --keep {work}/data '
                    '{mode} {ratio}',
            figures=(
                bench_model.WorkloadFigure(name='seconds', unit='s',
                                           pattern=None,
                                           better=bench_model.Better.LOWER),
                bench_model.WorkloadFigure(name='rate', unit='kB/s',
                                           pattern='at (.*)$',
                                           better=bench_model.Better.HIGHER,
                                           scale=0.001)),
            seconds=12.0)}, parse(OWN))

    def test_least(self):
        found = parse(one(''))['w']
        self.assertEqual(((), (), '', {}, 30.0), (
            found.prepare, found.packages, found.peer, found.parameters,
            found.seconds))

    def test_load(self):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (directory / 'a.yaml').write_text(OWN)
        (directory / 'b.yaml').write_text(one(''))
        found = workload_catalogue.load(
            [directory / 'a.yaml', directory / 'b.yaml'])
        self.assertEqual({*workload_catalogue.shipped(), 'compress', 'w'},
                         set(found))
        self.assertNotIn('w', workload_catalogue.shipped())

    def test_a_name_is_taken_once(self):
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        path = directory / 'a.yaml'
        path.write_text(one(''))
        error = self.assertRaises(
            errors.InputErrors, workload_catalogue.load, [path, path])
        self.assertEqual(
            f'{path}:3:3: workloads.w: there is a workload w already; give '
            'it another name', str(error))
        path.write_text(one('').replace('  w:', '  redis:'))
        self.assertRaises(errors.InputErrors, workload_catalogue.load, [path])

    def test_file_is_not_there(self):
        self.assertRaises(errors.InputError, workload_catalogue.load,
                          ['/nonexistent'])

    @ddt.data(
        # What is not in the schema.
        ('clas: cpu', 'own.yaml:8:5: workloads.w.clas: clas is not known '
         'here; did you mean class?'),
        ('seconds: 0', 'own.yaml:8:14: workloads.w.seconds: 0 is not a '
         'number of seconds, more than 0'),
        ('parameters: {a: true}', 'own.yaml:8:21: workloads.w.parameters.a: '
         'true is not text or a number'),
        ('build: cc', 'own.yaml:8:5: workloads.w.build: build goes only '
         'together with source'),
        ('programs: {a b: c}', "own.yaml:8:16: workloads.w.programs.a b: "
         "'a b' is not the name of a program, or several with '|' between"),
        # Parameters.
        ('parameters: {true: 1}', 'own.yaml:8:18: workloads.w.parameters.'
         'true: no command names {true}'),
        ('parameters: {a: 1}', 'own.yaml:8:18: workloads.w.parameters.a: no '
         'command names {a}'),
        ('parameters: {vcpus: 1}', 'own.yaml:8:18: workloads.w.parameters.'
         'vcpus: vcpus is a name that every command gets'),
        # Commands.
        ('prepare: ["a", "{vcpu}"]', 'own.yaml:8:20: workloads.w.prepare[1]: '
         '{vcpu} names nothing; did you mean vcpus or cpus or cpu1?'),
        ("peer: 'a { b'", 'own.yaml:8:11: workloads.w.peer: '),
        ("peer: 'a {b c}'", 'own.yaml:8:11: workloads.w.peer: {b c} is not '
         'a name in braces; a brace that stands for itself is written twice'),
        ('peer_programs: {a: b}', 'own.yaml:8:5: workloads.w.peer_programs: '
         'peer_programs goes only together with peer'),
        ('prepare: ["{sources}"]', 'own.yaml:8:15: workloads.w.prepare[0]: '
         '{sources} names nothing'),
        ('parameters: {sources: 1}', 'own.yaml:8:18: workloads.w.parameters.'
         'sources: sources is a name that every command gets'),
        ("peer: 'x {work}'", 'own.yaml:8:11: workloads.w.peer: {work} names '
         'nothing'),
        # Programs in source.
        ('{source: x.c, build: cc}', ''),
        ('source: ../errors.py\n    build: cc', "own.yaml:8:13: workloads.w."
         "source: '../errors.py' is not a program of this project"),
        ('source: none.c\n    build: cc', "own.yaml:8:13: workloads.w."
         "source: 'none.c' is not a program of this project"),
        ("source: mutex.c\n    build: 'cc {work}'", 'own.yaml:9:12: '
         'workloads.w.build: {work} names nothing'))
    @ddt.unpack
    def test_errors(self, text, said):
        error = self.assertRaises(errors.InputError, parse, one(text))
        self.assertIn(said, str(error))

    def test_text_that_the_shell_may_take_for_more(self):
        error = self.assertRaises(errors.InputErrors, parse, one(
            'parameters: {a: "b\\nc"}', commands='{a}'))
        self.assertEqual(
            "own.yaml:8:21: workloads.w.parameters.a: 'b\\nc' has other "
            'characters than letters, digits and @%+=:,./_-; the command can '
            'have them', str(error))

    @ddt.data(
        ('name: f, unit: s, better: higher', 'give it a pattern, or write '
         'better: lower'),
        ('name: f, unit: s, better: lower, pattern: x', 'has 0 groups'),
        ("name: f, unit: s, better: lower, pattern: '('",
         'is not a regular expression: '),
        ('name: f, unit: s, better: best', "best is not one of higher, "
         'lower'),
        ('name: f, unit: s, better: lower}, {name: f, unit: s, better: lower',
         'there is a figure f already'))
    @ddt.unpack
    def test_figures(self, figure, said):
        error = self.assertRaises(
            errors.InputErrors, parse, one('', figure=figure))
        self.assertIn('own.yaml:7:', str(error))
        self.assertIn(said, str(error))

    def test_all_errors_at_once(self):
        error = self.assertRaises(errors.InputErrors, parse, one(
            'parameters: {cpus: 1, a: 2}', commands='{x} {cpus}'))
        self.assertEqual(
            {'workloads.w.parameters.cpus', 'workloads.w.parameters.a',
             'workloads.w.command'},
            {one.where.key for one in error.errors})


@ddt.ddt
class TestParameters(oslotest.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.workload = parse(OWN)['compress']

    def find(self, text):
        return list(workload_catalogue.parameter_problems(
            self.workload, source.parse(f'{{{text}}}', 'e.yaml').value))

    @ddt.data(
        '', 'megabytes: 1', 'threads: 3', "threads: '{vcpus}'", 'ratio: 2',
        'ratio: 2.5', "mode: 'x'", "mode: ''", "mode: '{vcpus}'",
        "level: '{memory_mib}'")
    def test_good(self, text):
        self.assertEqual([], self.find(text))

    @ddt.data(
        ('megabyte: 1', 'megabyte', 'no parameter megabyte; did you mean '
         'megabytes?'),
        ('vcpus: 1', 'vcpus', 'no parameter vcpus'),
        ("megabytes: '1'", 'megabytes', "'1' is not a whole number"),
        ('megabytes: 1.0', 'megabytes', '1.0 is not a whole number'),
        ('megabytes: true', 'megabytes', 'True is not a whole number'),
        ('threads: x', 'threads', "'x' is not a whole number"),
        ("threads: '{cpus}'", 'threads', "'{cpus}' is not a whole number"),
        ('ratio: x', 'ratio', "'x' is not a number"),
        ('ratio: true', 'ratio', 'True is not a number'),
        ('mode: 5', 'mode', '5 is not text; put it into quotes'),
        ('mode: [x]', 'mode', "['x'] is not text"),
        ("mode: 'a b'", 'mode', 'has other characters'))
    @ddt.unpack
    def test_bad(self, text, name, said):
        (of, is_key, message, advice), = self.find(text)
        self.assertEqual((name, 'no parameter' in said), (of, is_key))
        self.assertIn(said, f'{message}; {advice}')

    def test_a_value_is_no_command(self):
        """The shell is told of nothing that it would have to have quoted."""
        for form, code in itertools.product(('{}', 'a{}', '{}a'), range(256)):
            value = form.format(chr(code))
            is_bad = bool(list(workload_catalogue.parameter_problems(
                self.workload, {'mode': value})))
            self.assertEqual(shlex.quote(value) != value, is_bad, value)

    def test_none_at_all(self):
        found = list(workload_catalogue.parameter_problems(
            parse(one(''))['w'], {'x': 1}))
        self.assertEqual([('x', True, 'workload w has no parameter x',
                           'it has none at all')], found)
