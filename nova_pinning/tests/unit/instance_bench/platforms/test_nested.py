# SPDX-License-Identifier: Apache-2.0

import itertools
import json
import shlex

import ddt
import testtools

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.platforms import nested
from nova_pinning.instance_bench.platforms import settings
from nova_pinning.tests.unit.instance_bench.platforms import platform_fakes


class Guest:
    """A guest that tells what was run in it."""

    programs = '/programs'
    work = '/a work'
    peer = '10.0.0.1'

    def __init__(self, name, jobs=()):
        self.name = name
        self.cpus = cpuset.CpuSet([0, 1])
        self.jobs = iter(jobs)
        self.commands = []
        self.is_closed = False

    def start(self, command):
        self.commands.append(command)
        job = next(self.jobs, None)
        return platform_fakes.Job() if job is None else job

    def affinities(self):
        return ['affinity']

    def close(self):
        self.is_closed = True


class Guests:
    """A platform that makes them."""

    def __init__(self, *jobs):
        self.jobs = jobs
        self.calls = []
        self.guests = []

    def __enter__(self):
        self.calls.append('enter')
        return self

    def __exit__(self, *details):
        self.calls.append('exit')

    def check(self, requests):
        self.calls.append(('check', requests))

    def launch(self, requests):
        self.calls.append(('launch', requests))
        self.guests = [
            Guest(request.name, jobs) for request, jobs in
            itertools.zip_longest(requests, self.jobs, fillvalue=())]
        return self.guests

    def versions(self):
        return {'qemu': '7.2'}


def request(number=0, **changes):
    return platform_fakes.request(
        number, platform=bench_model.PlatformName.CONTAINER_IN_GUEST,
        **changes)


def container(*jobs, provisioning=bench_model.Provisioning.PINNED):
    guest = Guest('a-0', jobs)
    seconds = itertools.count()
    return guest, nested.NestedInstance(
        guest, provisioning, clock=lambda: next(seconds),
        sleep=lambda seconds: None)


@ddt.ddt
class TestNestedInstance(testtools.TestCase):

    def test_like_the_guest(self):
        guest, instance = container()
        self.assertEqual(
            ('a-0', guest.cpus, '/programs', '/a work', '10.0.0.1',
             ['affinity']),
            (instance.name, instance.cpus, instance.programs, instance.work,
             instance.peer, instance.affinities()))
        instance.close()
        self.assertTrue(guest.is_closed)

    @ddt.data((bench_model.Provisioning.PINNED, '0-1'),
              (bench_model.Provisioning.VANILLA, None))
    @ddt.unpack
    def test_set_up(self, provisioning, cpus):
        guest, instance = container(provisioning=provisioning)
        instance.set_up()
        script, = guest.commands
        words = shlex.split(script)
        document = json.loads(words[words.index('%s') + 1])
        self.assertEqual(
            cpus, document['linux']['resources'].get('cpu', {}).get('cpus'))
        self.assertTrue(document['root']['readonly'])
        writable = [one['destination'] for one in document['mounts']
                    if 'bind' in one['options'] and 'ro' not in one['options']]
        self.assertEqual(['/a work'], writable)

    def test_set_up_failed(self):
        _guest, instance = container(
            platform_fakes.Job(status=1,
                               stderr='at first\nthere is no runc\n'))
        error = self.assertRaises(bench_errors.InstanceError, instance.set_up)
        self.assertEqual('a-0: its container cannot be started: there is no '
                         'runc', str(error))

    def test_set_up_does_not_end(self):
        job = platform_fakes.Job(None)
        _guest, instance = container(job)
        error = self.assertRaises(bench_errors.InstanceError, instance.set_up)
        self.assertIn('within 120 s', str(error))
        self.assertTrue(job.is_stopped)

    def test_command(self):
        guest, instance = container(
            platform_fakes.Job(1, status=3, stdout='yes'))
        job = instance.start('echo "it\'s" $HOME')
        self.assertIsNone(job.poll())
        self.assertEqual((3, 'yes'), (job.poll().status, job.poll().stdout))
        words = shlex.split(guest.commands[0])
        self.assertEqual(['exec', 'runc', 'exec'], words[:3])
        self.assertEqual(['/bin/sh', '-c', 'echo "it\'s" $HOME'], words[-3:])
        # Nothing is left to be ended.
        job.stop()
        self.assertEqual(1, len(guest.commands))

    def test_stop(self):
        outer = platform_fakes.Job(None)
        guest, instance = container(platform_fakes.Job(None), outer)
        instance.start('one')
        job = instance.start('two')
        job.stop()
        self.assertTrue(outer.is_stopped)
        marks = [word for word in shlex.split(guest.commands[1])
                 if word.startswith('NOVA_')]
        self.assertNotIn(marks[0], guest.commands[0])
        self.assertIn(f'grep -lzsx {marks[0]} ', guest.commands[2])

    def test_what_cannot_be_stopped(self):
        outer = platform_fakes.Job(None)
        _guest, instance = container(outer, platform_fakes.Job(status=1))
        self.assertRaises(bench_errors.InstanceError,
                          instance.start('one').stop)


class TestNestedPlatform(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.guests = Guests()

    def platform(self):
        return nested.NestedPlatform(settings.PlatformSettings(), self.guests)

    def test_guests(self):
        with self.platform() as platform:
            wanted = [request(0), request(1)]
            platform.check(wanted)
            instances = platform.launch(wanted)
            self.assertEqual({'qemu': '7.2'}, platform.versions())
        self.assertEqual(['enterprise-0', 'enterprise-1'],
                         [instance.name for instance in instances])
        self.assertEqual([1, 1], [len(guest.commands) for guest in
                                  self.guests.guests])
        enter, check, launch, leave = self.guests.calls
        self.assertEqual(('enter', 'exit'), (enter, leave))
        for name, requests in (check, launch):
            self.assertEqual([
                platform_fakes.request(number,
                                       platform=bench_model.PlatformName.GUEST)
                for number in range(2)], requests, name)

    def test_one_fails(self):
        self.guests = Guests((), (platform_fakes.Job(status=1),))
        with self.platform() as platform:
            self.assertRaises(bench_errors.InstanceError, platform.launch,
                              [request(0), request(1), request(2)])
            self.assertEqual([True] * 3, [
                guest.is_closed for guest in self.guests.guests])
