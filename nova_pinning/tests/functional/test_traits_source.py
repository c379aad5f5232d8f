# SPDX-License-Identifier: Apache-2.0
"""Traits keep guests in their place, also while Placement is in trouble.

Only the queries for traits are troubled: nova-scheduler asks Placement for
allocation candidates as well, and without those it schedules nothing.
"""

from http import server
import json
import os
import socket
import subprocess
import sys
import threading
import time

import ddt
import fixtures
from nova.scheduler import manager
from oslotest import base as oslotest

from nova_pinning.placement import client
from nova_pinning.placement import placement_traits
from nova_pinning.placement import provider_reader
from nova_pinning.scheduler import traits_reader
from nova_pinning.tests.functional import functional_base
from nova_pinning.tests.functional import operated_cloud
from nova_pinning.tests.functional import thread_kinds
from nova_pinning.tests import ports

DEDICATED, SHARED = placement_traits.DEDICATED, placement_traits.SHARED

#: Nothing here takes as long; only a test that fails waits for it.
_PATIENCE_S = 60

#: More than nova itself needs for select_destinations on a machine that is
#: busy or stalls, and less than a query may take, which is 30 s.
_NOVA_S = 20


class Door(fixtures.Fixture):
    """Placement over HTTP, for the queries for traits only.

    :ivar status: what requests are answered with, None for what Placement
        says
    :ivar is_open: while this is not set, no request is answered
    :ivar held: how many requests wait for that
    :ivar asked: the paths of all requests
    """

    def __init__(self, stage):
        super().__init__()
        self._stage = stage
        self.status = None
        self.is_open = threading.Event()
        self.is_open.set()
        self.held = 0
        self.asked = []

    def _setUp(self):
        self._serve(ports.free())
        self.addCleanup(self.stop)
        self.addCleanup(self.is_open.set)
        self._stage.flags(
            endpoint=f'http://127.0.0.1:{self._server.server_port}',
            group='placement')

    def _serve(self, port):
        self._server = server.ThreadingHTTPServer(
            ('127.0.0.1', port), _handler(self.answer))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={'poll_interval': 0.01})
        self._thread.start()

    def stop(self):
        """From now on, nobody listens; fine if nobody did."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def start_again(self):
        self._serve(self._server.server_port)

    def answer(self, path):
        self.asked.append(path)
        if not self.is_open.is_set():
            self.held += 1
            self.is_open.wait(_PATIENCE_S)
            self.held -= 1
        if self.status is not None:
            return self.status, b'out of order'
        found = self._stage.placement.get(
            path, version=provider_reader.MICROVERSION)
        return found.status, json.dumps(found.body).encode()


def _handler(answer):

    class Handler(server.BaseHTTPRequestHandler):

        def do_GET(self):
            status, content = answer(self.path)
            try:
                self.send_response(status)
                self.send_header('Content-Length', str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                # Whoever asked does not wait any longer.
                pass

        def log_message(self, *args):
            pass

    return Handler


class Clock:

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class TestCase(functional_base.TestCase):
    """Two hosts that Placement offers to guests of either class."""

    def setUp(self):
        super().setUp()
        for name in ('host-1', 'host-2'):
            self.nova.start_host(name, functional_base.small_host(
                cores_per_cell=8, dedicated='0-3,8-11', shared='4-7,12-15'))
        self.flavors = {
            'dedicated': self.nova.create_flavor(
                'dedicated', 2, functional_base.GIB,
                {'hw:cpu_policy': 'dedicated'}),
            'shared': self.nova.create_flavor(
                'shared', 2, functional_base.GIB)}
        # Not through the door, if there will be one.
        self.placement = client.PlacementClient(
            traits_reader.connect()._adapter)
        self._count = 0

    def mark(self, host, *names):
        """Give a host these of our traits, and take the others away."""
        self.placement.change_traits(
            self.nova.stage.compute_rp_uuids[host], names,
            {DEDICATED, SHARED} - set(names))

    def aggregate(self, host, host_class):
        self.nova.create_aggregate(
            f'aggregate-{host}', [host], {'pinning:class': host_class})

    def boot(self, host_class):
        self._count += 1
        return self.nova.boot(
            f'{host_class}-{self._count}', self.flavors[host_class])

    def assert_takes(self, host_class, host):
        """Two guests of a class both go to this host."""
        self.assert_active(
            [self.boot(host_class) for _one in range(2)], host=host)

    def assert_refuses(self, host_class, *words):
        """A guest of a class finds no host, and the log says why."""
        self.assert_refused(self.boot(host_class), *words)


class TestTraits(TestCase):

    def test_traits_decide_where_aggregates_are_silent(self):
        self.mark('host-1', DEDICATED)
        self.mark('host-2', SHARED)
        self.assert_takes('dedicated', 'host-1')
        self.assert_takes('shared', 'host-2')

    def test_a_change_counts_after_a_refresh(self):
        self.mark('host-1', DEDICATED)
        self.mark('host-2', SHARED)
        self.assert_takes('shared', 'host-2')
        self.mark('host-1', SHARED)
        self.mark('host-2', DEDICATED)
        self.assert_takes('shared', 'host-2')

        self.assertTrue(traits_reader.refresh())

        self.assert_takes('shared', 'host-1')
        self.assert_takes('dedicated', 'host-2')

    def test_aggregates_and_traits_have_to_agree(self):
        self.mark('host-1', DEDICATED)
        self.aggregate('host-1', 'shared')
        self.mark('host-2', DEDICATED, SHARED)
        for host_class in ('dedicated', 'shared'):
            self.assert_refuses(
                host_class, '2 hosts: the class of the host or the guest is '
                'not known')
        self.mark('host-2')
        self.aggregate('host-2', 'dedicated')
        traits_reader.refresh()
        self.assert_takes('dedicated', 'host-2')
        self.assert_refuses(
            'shared', 'its aggregates name shared under pinning:class, its '
            f'provider has {DEDICATED}')

    def test_one_query_a_trait(self):
        door = self.useFixture(Door(self.nova.stage))
        self.mark('host-1', DEDICATED)
        self.mark('host-2', DEDICATED)
        self.assert_takes('dedicated', None)
        self.assertEqual(
            ['/traits', '/resource_providers'],
            [path.partition('?')[0] for path in door.asked])

    def test_traits_are_not_read(self):
        self.nova.stage.flags(traits_refresh_seconds=0, group='pinning')
        self.mark('host-1', SHARED)
        self.mark('host-2', SHARED)
        # Both have CPUs set aside for pinning.
        self.assert_takes('dedicated', None)
        self.assert_refuses('shared')


class TestTrouble(TestCase):

    def setUp(self):
        super().setUp()
        self.mark('host-1', DEDICATED)
        self.mark('host-2', SHARED)
        self.door = self.useFixture(Door(self.nova.stage))
        self.longest_s = 0.0
        select = manager.SchedulerManager.select_destinations

        def timed(*args, **kwargs):
            start = time.monotonic()
            try:
                return select(*args, **kwargs)
            finally:
                self.longest_s = max(
                    self.longest_s, time.monotonic() - start)

        self.useFixture(fixtures.MonkeyPatch(
            'nova.scheduler.manager.SchedulerManager.select_destinations',
            timed))

    def configure(self, **options):
        self.nova.stage.flags(**options, group='pinning')

    def use_clock(self):
        """A reader whose time passes, and which reads, as a test says."""
        clock = Clock()
        traits_reader.use(traits_reader.TraitsReader(
            traits_reader.connect, traits_reader.TraitsSettings(60, 3600, 0),
            clock))
        return clock

    def assert_log(self, *words):
        for word in words:
            self.assertIn(word, self.nova.nova_log)

    def assert_only_what_is_certain(self, *words):
        """As a scheduler decides that knows no traits it may rely on."""
        self.assert_refuses(
            'dedicated', 'the traits that tell what the host is for could '
            'not be read from Placement for too long', *words)
        self.aggregate('host-1', 'dedicated')
        self.assert_takes('dedicated', 'host-1')

    def assert_goes_by_what_hosts_show(self):
        """Both have CPUs set aside for pinning, and others: dedicated ones,
        unless a trait that could not be read says something else.
        """
        self.assert_takes('dedicated', None)
        self.assert_refuses(
            'shared', 'the traits that tell what the host is for could not '
            'be read from Placement for too long')

    def test_errors_from_the_start(self):
        self.door.status = 500
        self.assert_goes_by_what_hosts_show()
        self.assert_log(
            'Cannot read the traits of hosts from Placement: Placement: GET '
            '/traits: 500', 'None have been read so far, and dedicated guests '
            'are refused on hosts whose class neither an aggregate nor their '
            'topology tells: [pinning] traits_max_age_seconds is 3600')
        self.assertLess(self.longest_s, 5 + _NOVA_S)

        self.door.status = None
        self.assertTrue(traits_reader.refresh())
        self.assert_takes('dedicated', 'host-1')
        self.assert_takes('shared', 'host-2')

    def test_stopped_from_the_start(self):
        self.door.stop()
        self.assert_goes_by_what_hosts_show()
        self.assert_log('Cannot read the traits of hosts from Placement: '
                        'Placement: Unable to establish connection')
        self.assertLess(self.longest_s, 5 + _NOVA_S)

    def test_no_limit_to_the_age(self):
        self.configure(traits_max_age_seconds=0)
        self.door.status = 500
        # By what the hosts show.
        self.assert_takes('dedicated', None)

    def test_stopped_later(self):
        clock = self.use_clock()
        self.assertTrue(traits_reader.refresh())
        self.door.stop()
        clock.now += 3600
        self.assertFalse(traits_reader.refresh())
        self.assert_takes('dedicated', 'host-1')
        self.assert_takes('shared', 'host-2')
        self.assert_log('Those read 3600 s ago are used')

        clock.now += 1
        self.assertFalse(traits_reader.refresh())

        self.assert_takes('shared', 'host-2')
        self.assert_only_what_is_certain('last read 3601 s ago')
        self.assert_log('Those read 3601 s ago are used, and dedicated guests '
                        'are refused on hosts whose class no aggregate names')

        self.door.start_again()
        self.mark('host-1', SHARED)
        self.mark('host-2', DEDICATED)
        self.assertTrue(traits_reader.refresh())
        self.assert_takes('dedicated', 'host-2')
        self.assert_log('Traits of hosts can be read from Placement again')

    def test_answers_take_long_from_the_start(self):
        self.useFixture(fixtures.MonkeyPatch(
            'nova_pinning.scheduler.traits_reader.FIRST_WAIT_SECONDS', 0.5))
        self.door.is_open.clear()

        self.assert_active([self.boot('dedicated')])

        self.assertEqual(1, self.door.held)
        self.assertGreater(self.longest_s, 0.5)
        self.assertLess(self.longest_s, 0.5 + _NOVA_S)
        # Later requests do not wait at all, and what was slow counts in the
        # end.
        self.assert_takes('dedicated', None)
        self.assertEqual(1, self.door.held)
        self.door.is_open.set()
        self.assertTrue(traits_reader.refresh())
        self.assert_takes('shared', 'host-2')

    def test_answers_take_long_later(self):
        self.use_clock()
        self.assertTrue(traits_reader.refresh())
        self.door.is_open.clear()
        reading = threading.Thread(target=traits_reader.refresh)
        reading.start()
        self.addCleanup(reading.join)
        self.addCleanup(self.door.is_open.set)

        self.assert_takes('dedicated', 'host-1')
        self.assert_takes('shared', 'host-2')

        self.assertTrue(reading.is_alive())
        self.assertLess(self.longest_s, _NOVA_S)


#: Asks a Placement that takes connections and then says nothing.
_HUNG = """
from nova import monkey_patch
if hasattr(monkey_patch, 'patch'):
    monkey_patch.patch()
import json, sys, time
from keystoneauth1 import loading
import nova.conf
from nova_pinning.scheduler import traits_reader

conf = nova.conf.CONF
conf([], project='nova', default_config_files=[])
conf.register_opts(loading.get_auth_plugin_conf_options('admin_token'),
                   group='placement')
for name, value in (('auth_type', 'admin_token'), ('token', 'admin'),
                    ('endpoint', sys.argv[1]), ('timeout', 3600)):
    conf.set_override(name, value, 'placement')
traits_reader.FIRST_WAIT_SECONDS = 0.2
traits_reader._STOP_SECONDS = 0
start = time.monotonic()
first = traits_reader.view().stale
waited = time.monotonic() - start
# One that does not wait for its answer as long.
traits_reader.use(None)
conf.set_override('timeout', 1, 'placement')
while 'imed out' not in traits_reader.view().stale:
    time.sleep(0.05)
# Some releases import it whether they run on it or not.
eventlet = sys.modules.get('eventlet')
print(json.dumps([
    eventlet is not None and eventlet.patcher.is_monkey_patched('thread'),
    first, waited]))
traits_reader.use(None)
"""


@ddt.ddt
class TestThreads(oslotest.BaseTestCase):

    def test_the_thread_ends_with_the_cloud(self):
        with operated_cloud.Cloud() as nova:
            nova.start_host('host-1', functional_base.small_host())
            nova.boot('server', nova.create_flavor(
                'dedicated', 2, functional_base.GIB,
                {'hw:cpu_policy': 'dedicated'}))
            [thread] = [one for one in threading.enumerate()
                        if one.name == 'pinning-traits']
        self.assertFalse(thread.is_alive())

    @ddt.data(True, False)
    def test_a_hung_placement(self, eventlet):
        """With either kind of threads that nova may run on."""
        if not (eventlet or thread_kinds.HAS_NATIVE):
            self.skipTest('services of this nova have no native threads')
        hung = socket.create_server(('127.0.0.1', 0))
        self.addCleanup(hung.close)
        done = subprocess.run(
            [sys.executable, '-c', _HUNG,
             f'http://127.0.0.1:{hung.getsockname()[1]}'],
            env={**os.environ, 'PYTHONWARNINGS': 'ignore',
                 'OS_NOVA_DISABLE_EVENTLET_PATCHING': str(int(not eventlet))},
            capture_output=True, text=True, timeout=_PATIENCE_S)
        self.assertEqual(0, done.returncode, done.stderr)
        patched, first, waited = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(eventlet, patched)
        self.assertEqual(
            'not read since nova-scheduler was started; [pinning] '
            'traits_max_age_seconds is 3600', first)
        # The first request waits for 0.2 s, the query for an hour.
        self.assertGreater(waited, 0.19)
