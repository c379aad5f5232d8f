# SPDX-License-Identifier: Apache-2.0
"""The HTTP APIs, each in its own uWSGI."""

import http.client
import pathlib
import urllib.error
import urllib.request

from minicloud import database
from minicloud import errors
from minicloud import files
from minicloud import messaging
from minicloud import service
from minicloud import settings

REGION = 'minicloud'
# What those wait for that write to databases.
DATABASE = ('schemas',)


class WebService(service.Service):
    """A WSGI application behind uWSGI.

    :cvar module: str, where uWSGI finds it
    """

    module: str
    requires: tuple[str, ...] = DATABASE

    @property
    def threads(self) -> int:
        """How many requests are answered at the same time."""
        return 4

    def command(self) -> list[str]:
        return [
            self.state.bin('uwsgi', self.release),
            '--virtualenv', str(self.state.venv(self.release)),
            '--http-socket',
            f'{settings.CONTROLLER_ADDRESS}:{self.settings.port(self.name)}',
            # No master process: that would be the application once more.
            '--module', self.module, '--need-app',
            '--die-on-term', '--processes', '1',
            '--threads', str(self.threads), '--thunder-lock',
            '--buffer-size', '65535', '--procname-prefix', f'{self.name} ',
            # It does not keep connections, and has to say so.
            '--add-header', 'Connection: close', '--disable-logging']

    def environment(self) -> dict[str, str]:
        upper = self.name.upper()
        return {f'OS_{upper}_CONFIG_DIR': str(self.state.etc / self.name)}

    def check(self) -> None:
        try:
            with urllib.request.urlopen(
                    self.settings.url(self.name) + '/', timeout=5):
                pass
        except urllib.error.HTTPError as e:
            # 300 Multiple Choices is how glance and nova list versions.
            if e.code not in (300, 401):
                raise errors.NotReady(f'HTTP status {e.code}') from e
        except (OSError, http.client.HTTPException) as e:
            raise errors.NotReady(str(e)) from e


def default(state: settings.State, name: str) -> dict[str, object]:
    """Return the options that every service has in [DEFAULT]."""
    return {'debug': True, 'use_stderr': True, 'log_options': False,
            'state_path': state.data / name}


def authtoken(state: settings.State, settings: settings.Settings,
              user: str) -> dict[str, object]:
    """Return how a service speaks with Keystone in its own name."""
    return {
        'auth_type': 'password', 'auth_url': settings.url('keystone') + '/v3',
        'username': user, 'password': state.secret,
        'project_name': 'service', 'user_domain_name': 'Default',
        'project_domain_name': 'Default', 'region_name': REGION}


def keystone_authtoken(state: settings.State,
                       settings: settings.Settings,
                       user: str) -> dict[str, object]:
    """Return the section of keystonemiddleware, which names things anew."""
    options = authtoken(state, settings, user)
    return {**options, 'www_authenticate_uri': options['auth_url'],
            'service_token_roles_required': True,
            # Without memcached each process keeps its own.
            'token_cache_time': 300}


class Keystone(WebService):
    """Identity: users, the catalogue of endpoints, tokens."""

    name = 'keystone'
    module = 'keystone.wsgi.api:application'

    def config(self) -> dict[pathlib.Path, str]:
        return {self.state.etc / 'keystone' / 'keystone.conf': files.ini({
            'DEFAULT': default(self.state, 'keystone'),
            'database': database.options(
                self.state, self.settings, 'keystone'),
        }, files.options('keystone.conf', keys=self.state.base / 'keystone'))}


class Placement(WebService):
    """What resources hosts have, and who holds them."""

    name = 'placement'
    module = 'placement.wsgi.api:application'
    requires = (*DATABASE, 'keystone')

    def config(self) -> dict[pathlib.Path, str]:
        state, settings = self.state, self.settings
        return {state.etc / 'placement' / 'placement.conf': files.ini({
            'DEFAULT': default(state, 'placement'),
            'placement_database': database.options(
                state, settings, 'placement'),
            'keystone_authtoken': keystone_authtoken(
                state, settings, 'placement'),
        }, files.options('placement.conf'))}


class Glance(WebService):
    """Images, kept as files."""

    name = 'glance'
    module = 'glance.wsgi.api:application'
    requires = (*DATABASE, 'keystone')

    def config(self) -> dict[pathlib.Path, str]:
        state, settings = self.state, self.settings
        policy = state.etc / 'glance' / 'policy.yaml'
        return {state.etc / 'glance' / 'glance-api.conf': files.ini({
            'DEFAULT': default(state, 'glance'),
            'database': database.options(state, settings, 'glance'),
            'keystone_authtoken': keystone_authtoken(
                state, settings, 'glance'),
        }, files.options(
            'glance-api.conf', url=settings.url('glance'),
            data=state.data / 'glance', policy=policy,
            paste=state.venv(self.release) / 'etc/glance/glance-api-paste.ini',
        )), policy: '{}\n'}

    def prepare(self) -> None:
        for name in ('images', 'staging', 'tasks'):
            (self.state.data / 'glance' / name).mkdir(
                parents=True, exist_ok=True)


class NeutronStandIn(service.Service):
    """Answers nova's questions about networks: there are none.

    Not Neutron. Nova asks even for servers without a NIC.
    """

    name = 'neutron'

    def command(self) -> list[str]:
        return [self.state.bin('python', self.release),
                str(pathlib.Path(__file__).with_name('neutron.py')),
                settings.CONTROLLER_ADDRESS,
                str(self.settings.port('neutron'))]

    def check(self) -> None:
        messaging.connect(self.settings.port('neutron')).close()
