# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/run_nova_functional.py, and of what it runs."""

import contextlib
import importlib
import io
import pathlib
import re
import sys
import tempfile
from unittest import mock

from nova.scheduler.filters import numa_topology_filter
from oslotest import base
from sqlalchemy import pool

import nova_pinning
from nova_pinning.scheduler import filters
from nova_pinning.tests import in_place

TOOLS = pathlib.Path(nova_pinning.__file__).resolve().parent.parent / 'tools'
_MODULE = 'nova.tests.functional.libvirt.test_numa_servers'
_FIRST = f'{_MODULE}.NUMAServersTest.test_first'
_SECOND = f'{_MODULE}.NUMAServersTest.test_second_1__1___ACTIVE__'


class RunNovaFunctionalTest(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        with mock.patch.object(sys, 'path', [str(TOOLS), *sys.path]):
            self.tool = importlib.import_module('run_nova_functional')

    def outcomes(self, **statuses):
        outcomes = self.tool.run_tests.Results()
        names = {'first': _FIRST, 'second': _SECOND}
        for name, status in statuses.items():
            outcomes.add(
                {'id': names[name], 'status': status, 'details': {}})
        return outcomes

    def main(self, runs, *arguments):
        def run(choice, regex, concurrency, scratch):
            return runs[choice]

        self.output = io.StringIO()
        with (mock.patch.object(sys, 'argv', ['tool', *arguments]),
              mock.patch.object(self.tool, 'run', run),
              contextlib.redirect_stdout(self.output)):
            return self.tool.main()

    def test_what_ends_alike_is_no_difference(self):
        runs = {'nova': self.outcomes(first='success', second='fail'),
                'ours': self.outcomes(first='success', second='fail')}
        self.assertEqual([], self.tool.differences(runs))
        self.assertEqual(0, self.main(runs))

    def test_a_difference(self):
        runs = {'nova': self.outcomes(first='success', second='success'),
                'ours': self.outcomes(first='success', second='fail')}
        self.assertEqual(1, self.main(runs))
        self.assertIn(f'{_SECOND}\n    passed with nova\'s filter, failed '
                      'with "ours"\n', self.output.getvalue())
        self.assertIn("Nova's filter: 2 passed, 0 failed, 0 skipped\n"
                      'PinnedTopologyFilter: 1 passed, 1 failed, 0 skipped\n',
                      self.output.getvalue())

    def test_a_test_that_did_not_run_is_a_difference(self):
        runs = {'nova': self.outcomes(first='success', second='success'),
                'ours': self.outcomes(first='success')}
        difference, = self.tool.differences(runs)
        self.assertRegex(difference, rf'^{re.escape(_SECOND)}\n.*, not run ')

    def test_what_passes_when_run_once_more_has_passed(self):
        outcomes = self.outcomes(first='fail', second='fail')
        passed = self.tool.put_right(
            outcomes, self.outcomes(first='fail', second='success'))
        self.assertEqual([_SECOND], passed)
        self.assertEqual({_FIRST: 'failed', _SECOND: 'passed'},
                         outcomes.by_test)
        self.assertEqual([_FIRST], list(outcomes.failed))
        self.assertEqual({'passed': 1, 'failed': 1},
                         dict(outcomes.counts))

    def test_failures_are_run_once_more(self):
        runs = [self.outcomes(first='fail', second='success'),
                self.outcomes(first='success')]
        scratch = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory()))
        with (mock.patch.object(self.tool, '_run', side_effect=runs) as run,
              contextlib.redirect_stdout(io.StringIO())):
            outcomes = self.tool.run('ours', None, 1, scratch)
        self.assertEqual({_FIRST: 'passed', _SECOND: 'passed'},
                         outcomes.by_test)
        *_options, names = run.call_args.args[2]
        self.assertEqual(f'{_FIRST}\n', pathlib.Path(names).read_text())

    def test_a_run_without_tests_is_no_success(self):
        self.assertEqual(1, self.main(
            {'nova': self.outcomes(), 'ours': self.outcomes()}))


class InPlaceTest(base.BaseTestCase):

    def test_ours_stands_where_novas_is(self):
        self.assertEqual(
            ['NUMATopologyFilter', 'PciPassthroughFilter'],
            in_place.names(['NUMATopologyFilter', 'PciPassthroughFilter'],
                           in_place.OURS))

    def test_ours_judges_where_novas_is_not_enabled(self):
        self.assertEqual(['NUMATopologyFilter'],
                         in_place.names([], in_place.OURS))

    def test_classes_come_before_topologies(self):
        enabled = in_place.names(
            ['NUMATopologyFilter', 'PciPassthroughFilter'], in_place.CLASSES)
        self.assertEqual(['HostClassFilter', 'NUMATopologyFilter',
                          'PciPassthroughFilter'], enabled)
        self.assertEqual(enabled, in_place.names(enabled, in_place.CLASSES))

    def test_what_is_installed_is_ours_and_can_be_watched(self):
        self.enterContext(mock.patch.object(in_place, '_find_paste'))
        self.enterContext(mock.patch.object(
            numa_topology_filter, 'NUMATopologyFilter',
            numa_topology_filter.NUMATopologyFilter))
        self.enterContext(
            mock.patch.object(in_place.pool, 'NullPool', pool.NullPool))
        in_place.install(in_place.OURS)
        there = numa_topology_filter.NUMATopologyFilter
        self.assertEqual('NUMATopologyFilter', there.__name__)
        self.assertTrue(issubclass(there, filters.PinnedTopologyFilter))
        with (mock.patch.object(there, 'host_passes') as watched,
              mock.patch.object(filters.PinnedTopologyFilter, 'filter_all',
                                lambda _, hosts, _spec: list(hosts)[1:])):
            self.assertEqual(
                ['b'], there().filter_all(['a', 'b'], 'spec'))
        self.assertEqual([mock.call('a', 'spec'), mock.call('b', 'spec')],
                         watched.call_args_list)
