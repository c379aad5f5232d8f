# SPDX-License-Identifier: Apache-2.0

import shlex

import ddt
import hypothesis
from hypothesis import strategies as st
from oslotest import base as oslotest

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.workloads import command
from nova_pinning.tests.unit import unit_base

VALUES = command.InstanceValues(
    vcpus=4, cpus=cpuset.CpuSet([2, 3, 6, 7]), memory_mib=2048,
    programs='/opt/my programs', work='/tmp/work', peer='192.0.2.1')


def fill(text, parameters=None, **values):
    return command.fill(text, parameters or {}, command.InstanceValues(**{
        **{key: getattr(VALUES, key) for key in VALUES.__slots__}, **values}))


@ddt.ddt
class TestFill(oslotest.BaseTestCase):

    @ddt.data(
        ('plain', 'plain'),
        ('-t {vcpus} -m {memory_mib}', '-t 4 -m 2048'),
        ('{cpus} {cpu0} {cpu1}', '2-3,6-7 2 3'),
        ('{programs}/x {work} {peer}', "'/opt/my programs'/x /tmp/work "
         '192.0.2.1'),
        ('${{HOME}} {{}} {a}', '${HOME} {} 5'),
        ("{b} '{{b}}'", "'two words' '{b}'"),
        ('{c}', '4'), ('{d}', "'{vcpus} '"))
    @ddt.unpack
    def test_values(self, text, expected):
        self.assertEqual(expected, fill(text, {
            'a': 5, 'b': 'two words', 'c': '{vcpus}', 'd': '{vcpus} '}))

    def test_one_cpu(self):
        one = cpuset.CpuSet([5])
        self.assertEqual('5', fill('{cpu0}', cpus=one))
        error = self.assertRaises(
            bench_errors.WorkloadError, fill, '{cpu0} {cpu1}', cpus=one)
        self.assertEqual('the command needs 2 CPUs, and the instance has 1',
                         str(error))

    def test_no_peer(self):
        error = self.assertRaises(
            bench_errors.WorkloadError, fill, '{peer}', peer='')
        self.assertIn('{peer}', str(error))
        # It is only needed where it is named.
        self.assertEqual('x', fill('x', peer=''))

    def test_unknown(self):
        self.assertRaises(bench_errors.WorkloadError, fill, '{unknown}')

    def test_of_an_instance(self):
        class Instance:
            cpus = VALUES.cpus
            programs = VALUES.programs
            work = VALUES.work
            peer = VALUES.peer
        self.assertEqual(VALUES, command.InstanceValues.of(
            Instance(), bench_model.InstanceSize(vcpus=4, memory_mib=2048)))

    def test_merge(self):
        workload = bench_model.Workload(
            name='w', workload_class=bench_model.WorkloadClass.CPU, about='',
            command='', figures=(), parameters={'a': 1, 'b': 2})
        self.assertEqual({'a': 1, 'b': 3}, command.merge(workload, {'b': 3}))

    @unit_base.settings(200)
    @hypothesis.given(value=st.text(st.characters(
        exclude_categories=('Cs', 'Cc')), max_size=20))
    def test_a_value_is_one_word(self, value):
        self.assertEqual(['x', value, f'--y={value}'],
                         shlex.split(fill('x {a} --y={a}', {'a': value})))


@ddt.ddt
class TestNames(oslotest.BaseTestCase):

    def test_names(self):
        self.assertEqual({'a', 'vcpus'},
                         command.names('{a} {vcpus} {{b}} ${{c}} {a}'))

    @ddt.data('{', '}', '{}', '{a', 'a}', '{a b}', '{0}', '{a.b}', '{a[0]}',
              '{a!r}', '{a:>9}', '{print $1}', '${{a}')
    def test_odd_braces(self, text):
        self.assertRaises(ValueError, command.names, text)

    @ddt.data(('{vcpus}', 'vcpus'), ('{memory_mib}', 'memory_mib'),
              ('{cpus}', ''), (' {vcpus}', ''), ('vcpus', ''), (4, ''))
    @ddt.unpack
    def test_reference(self, value, expected):
        self.assertEqual(expected, command.reference(value))
