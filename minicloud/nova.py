# SPDX-License-Identifier: Apache-2.0
"""Nova's API, conductor and scheduler, and what every nova.conf says."""

import json
import pathlib

from minicloud import database
from minicloud import files
from minicloud import messaging
from minicloud import service
from minicloud import settings
from minicloud import web

FILTERS = (
    'ComputeFilter', 'ComputeCapabilitiesFilter', 'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter', 'ServerGroupAffinityFilter',
    'PciPassthroughFilter', 'HostClassFilter', 'PinnedTopologyFilter')

WEIGHERS = ('nova.scheduler.weights.all_weighers',
            'nova_pinning.scheduler.weights.all_weighers')

# The device on each NUMA node of a virtual host, an Intel 82574L.
PCI_ALIAS = {'name': 'minicloud', 'vendor_id': '8086', 'product_id': '10d3',
             'device_type': 'type-PCI'}

# What a nova service that listens on RabbitMQ says in its log.
STARTED = 'Join ServiceGroup membership'

Sections = dict[str, dict[str, object]]


def common(state: settings.State,
           cloud_settings: settings.Settings) -> Sections:
    """Return what the files of all services have, nova-compute's too.

    No database is in it: a nova-compute that knows one does not start.
    """
    def client(user: str) -> dict[str, object]:
        return web.authtoken(state, cloud_settings, user)

    return {
        'DEFAULT': {
            **web.default(state, 'nova'),
            'transport_url': messaging.transport_url(state, cloud_settings),
            'my_ip': settings.CONTROLLER_ADDRESS,
            'rpc_response_timeout': 60,
            'report_interval': 3,
            'service_down_time': 30,
            # Else the scheduler first looks for new hosts after a minute.
            'periodic_fuzzy_delay': 0,
            # oslo.log's own defaults for these are INFO and noisy.
            'default_log_levels': ','.join([
                'amqp=WARN', 'amqplib=WARN', 'oslo.messaging=WARN',
                'oslo_messaging=WARN', 'sqlalchemy=WARN', 'urllib3=WARN',
                'keystonemiddleware=WARN', 'keystoneauth=WARN',
                'oslo_concurrency=WARN', 'oslo_policy=WARN',
                'oslo_service=WARN', 'stevedore=WARN'])},
        'oslo_concurrency': {'lock_path': state.run / 'lock'},
        'oslo_messaging_notifications': {'driver': 'noop'},
        'keystone_authtoken': web.keystone_authtoken(
            state, cloud_settings, 'nova'),
        'service_user': {**client('nova'), 'send_service_user_token': True},
        'placement': client('placement'),
        'glance': {'api_servers': cloud_settings.url('glance')},
        'neutron': {**client('neutron'),
                    'endpoint_override': cloud_settings.url('neutron')},
        'cinder': {**client('nova')},
        'barbican': {'auth_endpoint': cloud_settings.url('keystone') + '/v3'},
        'upgrade_levels': {'compute': 'auto'},
        'pci': {'alias': json.dumps(PCI_ALIAS)}}


def controller(state: settings.State,
               cloud_settings: settings.Settings) -> Sections:
    """Return the nova.conf of the API, the conductor and the scheduler."""
    sections = common(state, cloud_settings)
    sections |= {
        'database': database.options(state, cloud_settings, 'nova'),
        'api_database': database.options(state, cloud_settings, 'nova_api'),
        'api': {'auth_strategy': 'keystone'},
        'conductor': {'workers': 1},
        'quota': {'cores': -1, 'instances': -1, 'ram': -1},
        'scheduler': {
            'workers': 1,
            # Compute hosts that come up are there without nova-manage.
            'discover_hosts_in_cells_interval': 2,
            'limit_tenants_to_placement_aggregate': False,
            'enable_isolated_aggregate_filtering': True},
        'filter_scheduler': {
            'available_filters': [
                'nova.scheduler.filters.all_filters',
                'nova_pinning.scheduler.filters.all_filters'],
            'enabled_filters': ','.join(FILTERS),
            'weight_classes': ','.join(WEIGHERS),
            'track_instance_changes': False},
        'pinning': {'traits_refresh_seconds': 2}}
    return sections


def directory(state: settings.State) -> pathlib.Path:
    return state.etc / 'nova'


def config(state: settings.State,
           cloud_settings: settings.Settings) -> dict[pathlib.Path, str]:
    """Return the files that the three services share: text by path."""
    return {directory(state) / 'nova.conf':
            files.ini(controller(state, cloud_settings)),
            directory(state) / 'extra.conf':
            extra(cloud_settings.nova_conf)}


def extra(path: str) -> str:
    """Return the options that the user wants to have, read last."""
    return pathlib.Path(path).read_text() if path else ''


def config_files(directory: pathlib.Path,
                 main: str = 'nova.conf') -> list[str]:
    """Return the options that name the files, for a command line."""
    return [option for name in (main, 'extra.conf') for option in
            ('--config-file', str(directory / name))]


class NovaApi(web.WebService):
    """Nova's compute API."""

    name = 'nova'
    module = 'nova.wsgi.osapi_compute:application'
    # The conductor is not needed to answer, but to do anything.
    requires = (*web.DATABASE, 'rabbitmq', 'keystone')

    def config(self) -> dict[pathlib.Path, str]:
        return config(self.state, self.settings)

    @property
    def threads(self) -> int:
        # Up to 2025.2 eventlet patches them, and whatever answers second
        # cannot switch back to the first.
        return super().threads if self.release >= '2026.1' else 1

    def environment(self) -> dict[str, str]:
        paste = (self.state.venv(self.release) / 'etc' / 'nova' /
                 'api-paste.ini')
        return {'OS_NOVA_CONFIG_DIR': str(directory(self.state)),
                'OS_NOVA_CONFIG_FILES': f'{paste};nova.conf;extra.conf'}


class _Daemon(service.Service):
    """A nova service that listens on RabbitMQ only."""

    requires: tuple[str, ...] = (*web.DATABASE, 'rabbitmq', 'keystone')

    def config(self) -> dict[pathlib.Path, str]:
        return config(self.state, self.settings)

    def command(self) -> list[str]:
        return [self.state.bin(self.name, self.release),
                *config_files(directory(self.state))]

    def check(self) -> None:
        """Wait for its line in the log.

        What counts is that it listens on RabbitMQ; the API shows a service
        of an earlier run just the same.
        """
        service.find_in_log(self.log, STARTED)


class NovaConductor(_Daemon):
    """Nova's writer into the databases."""

    name = 'nova-conductor'


class NovaScheduler(_Daemon):
    """Nova's scheduler, with this project's filters and weighers."""

    name = 'nova-scheduler'
    requires = (*web.DATABASE, 'rabbitmq', 'keystone', 'placement')
