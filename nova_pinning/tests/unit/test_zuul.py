#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What zuul.d refers to in this repository exists."""

import configparser
import pathlib
import re
import unittest

from oslotest import base
import yaml

import nova_pinning

CHECKOUT = pathlib.Path(nova_pinning.__file__).resolve().parent.parent
DEVSTACK = CHECKOUT / 'devstack'


def _load(name):
    with (CHECKOUT / 'zuul.d' / name).open() as file:
        return yaml.safe_load(file)


def _jobs():
    return {entry['job']['name']: entry['job']
            for entry in _load('jobs.yaml')}


def _localrc_variables(tree):
    """The names in every devstack_localrc, wherever it stands."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == 'devstack_localrc':
                yield from value
            yield from _localrc_variables(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _localrc_variables(value)


def _tox_environments():
    """Those of tox.ini, and those that its list of factors makes."""
    parser = configparser.RawConfigParser()
    parser.read(CHECKOUT / 'tox.ini')
    found = set(re.split(r'[,\s]+', parser['tox']['env_list']))
    for section in parser.sections():
        _testenv, _colon, name = section.partition(':')
        match = re.fullmatch(r'(.*)\{(.*)\}', name)
        if match is None:
            found.add(name)
        else:
            found.update(match[1] + end for end in match[2].split(','))
    return found


@unittest.skipUnless(DEVSTACK.is_dir(), 'not run from a checkout')
class ZuulTest(base.BaseTestCase):

    def test_every_job_of_the_project_exists(self):
        ours = _jobs()
        [entry] = _load('project.yaml')
        environments = _tox_environments()
        for pipeline in ('check', 'gate'):
            names = entry['project'][pipeline]['jobs']
            self.assertEqual(len(set(names)), len(names))
            for name in names:
                if name.startswith('openstack-tox-'):
                    self.assertIn(name.removeprefix('openstack-tox-'),
                                  environments)
                else:
                    self.assertIn(name, ours)
            self.assertLessEqual(set(ours), set(names))

    def test_templates_find_their_environments(self):
        [entry] = _load('project.yaml')
        environment = {'publish-openstack-docs-pti': 'docs',
                       'release-notes-jobs-python3': 'releasenotes'}
        self.assertEqual(sorted(environment),
                         sorted(entry['project']['templates']))
        self.assertLessEqual(set(environment.values()), _tox_environments())

    def test_tox_environments_exist(self):
        jobs = [job for job in _jobs().values()
                if job['parent'] == 'openstack-tox']
        self.assertTrue(jobs)
        for job in jobs:
            self.assertIn(job['vars']['tox_envlist'], _tox_environments())

    def test_parents_exist(self):
        known = {'openstack-tox', 'devstack-tempest', *_jobs()}
        for job in _jobs().values():
            self.assertIn(job['parent'], known)

    def test_the_regex_finds_the_tempest_tests(self):
        job = _jobs()['nova-pinning-tempest']
        regex = job['vars']['tempest_test_regex']
        tests = CHECKOUT / 'nova_pinning' / 'tempest_plugin' / 'tests'
        modules = [path.relative_to(CHECKOUT).with_suffix('')
                   for path in tests.glob('test_*.py')]
        self.assertTrue(modules)
        for module in modules:
            self.assertRegex('.'.join(module.parts), regex)
        self.assertNotRegex('tempest.api.compute.test_nova_pinning', regex)

    def test_the_plugin_is_this_project(self):
        job = _jobs()['nova-pinning-tempest']
        self.assertEqual(['nova-pinning'],
                         list(job['vars']['devstack_plugins']))
        self.assertEqual(['nova-pinning'], job['vars']['tempest_plugins'])
        self.assertIn('openstack/nova-pinning', job['required-projects'])

    def test_playbooks_exist(self):
        for job in _jobs().values():
            if 'pre-run' in job:
                path = CHECKOUT / job['pre-run']
                self.assertEqual(
                    {'all'}, {play['hosts']
                              for play in yaml.safe_load(path.read_text())})

    def test_variables_are_those_of_the_settings(self):
        settings = set(re.findall(r'^(NOVA_PINNING_\w+)=',
                                  (DEVSTACK / 'settings').read_text(),
                                  re.MULTILINE))
        used = {name for name in _localrc_variables(_load('jobs.yaml'))
                if name.startswith('NOVA_PINNING_')}
        self.assertTrue(used)
        self.assertLessEqual(used, settings)

    def test_groups_set_cpus_where_the_job_does(self):
        # group-vars is where a compute node finds its own variables.
        for job in _jobs().values():
            if 'nodeset' in job:
                local = job['group-vars']['subnode']['devstack_localrc']
                self.assertLessEqual(
                    {'NOVA_PINNING_HOST_CLASS',
                     'NOVA_PINNING_CPU_DEDICATED_SET',
                     'NOVA_PINNING_CPU_SHARED_SET'}, set(local))
