# SPDX-License-Identifier: Apache-2.0
"""Watcher's own services, beside those of a minicloud.

They run from the virtual environment that the test runs from.
"""

import pathlib
import subprocess
import sys
import urllib.error
import urllib.request

import fixtures
import pymysql

from minicloud import database
from minicloud import errors
from minicloud import files
from minicloud import messaging
from minicloud import service
from minicloud import settings
from minicloud import web

BIN = pathlib.Path(sys.executable).parent
# Behind the ports of minicloud's own services, see settings.PORTS.
PORT = 10


class WatcherService(service.Service):
    """One of Watcher's services.

    :ivar host_files: pathlib.Path, a directory
    """

    host_files: pathlib.Path

    @property
    def port(self):
        return self.settings.base_port + PORT

    @property
    def file(self):
        return self.state.etc / 'watcher' / 'watcher.conf'

    def config(self):
        state, cloud = self.state, self.settings
        return {self.file: files.ini({
            'DEFAULT': {
                **web.default(state, 'watcher'),
                'transport_url': messaging.transport_url(state, cloud)},
            'api': {'host': settings.CONTROLLER_ADDRESS, 'port': self.port},
            'collector': {'collector_plugins': 'compute'},
            'database': database.options(state, cloud, 'watcher'),
            'keystone_authtoken': web.keystone_authtoken(
                state, cloud, 'watcher'),
            'nova': {'region_name': web.REGION,
                     # Watcher looks so often whether a guest has arrived.
                     'migration_interval': 1},
            'oslo_concurrency': {'lock_path': state.run / 'lock'},
            'oslo_messaging_notifications': {'driver': 'noop'},
            'pinning_watcher': {'host_files': self.host_files},
            'placement': {'region_name': web.REGION},
            'watcher_clients_auth': web.authtoken(state, cloud, 'watcher'),
            'watcher_decision_engine': {'continuous_audit_interval': 2},
        })}

    def command(self):
        return [str(BIN / self.name), '--config-file', str(self.file)]

    def check(self):
        service.find_in_log(self.log, 'Connecting to messaging transport')


class WatcherApi(WatcherService):
    name = 'watcher-api'

    def command(self):
        return [
            str(BIN / 'uwsgi'), '--virtualenv', str(BIN.parent),
            '--http-socket', f'{settings.CONTROLLER_ADDRESS}:{self.port}',
            '--module', 'watcher.wsgi.api:application', '--need-app',
            '--pyargv', f'--config-file {self.file}',
            '--die-on-term', '--processes', '1', '--threads', '2',
            '--buffer-size', '65535', '--add-header', 'Connection: close']

    def check(self):
        url = f'http://{settings.CONTROLLER_ADDRESS}:{self.port}/'
        try:
            with urllib.request.urlopen(url, timeout=5):
                pass
        except urllib.error.HTTPError as error:
            if error.code != 401:
                raise errors.NotReady(str(error)) from error
        except OSError as error:
            raise errors.NotReady(str(error)) from error


class WatcherDecisionEngine(WatcherService):
    name = 'watcher-decision-engine'


class WatcherApplier(WatcherService):
    name = 'watcher-applier'


class Watcher(fixtures.Fixture):
    """Watcher while the test runs.

    :param cloud: minicloud_runner.MiniCloud, which is up
    :param host_files: pathlib.Path, a directory
    """

    def __init__(self, cloud, host_files):
        super().__init__()
        self._cloud = cloud
        self._host_files = host_files

    def _setUp(self):
        state = self._cloud.state
        parts = [kind(state, state.load()) for kind in (
            WatcherApi, WatcherDecisionEngine, WatcherApplier)]
        self._register(parts[0])
        for part in parts:
            part.host_files = self._host_files
        for path, text in parts[0].config().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write(path, text)
        for command in ('create_schema', 'upgrade'):
            subprocess.run(
                [BIN / 'watcher-db-manage', '--config-file', parts[0].file,
                 command], check=True, capture_output=True)
        for part in parts:
            self.addCleanup(part.down)
            part.up()

    def _register(self, api):
        """Make a database, a user, and an endpoint."""
        with pymysql.connect(
                host=settings.CONTROLLER_ADDRESS, user='cloud',
                port=api.settings.port('mariadb'),
                password=api.state.secret) as connection:
            connection.cursor().execute(
                'CREATE DATABASE watcher CHARACTER SET utf8')
        url = f'http://{settings.CONTROLLER_ADDRESS}:{api.port}'
        self._cloud.run(f'''set -e
            openstack user create --domain default \\
                --password {api.state.secret} watcher
            openstack role add --project service --user watcher admin
            openstack service create --name watcher infra-optim
            openstack endpoint create --region {web.REGION} infra-optim \\
                public {url}
            ''')
