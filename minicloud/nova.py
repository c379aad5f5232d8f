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

# The network card on each NUMA node of a virtual host, an Intel 82574L.
PCI_ALIAS = {'name': 'minicloud', 'vendor_id': '8086', 'product_id': '10d3',
             'device_type': 'type-PCI'}

# What a nova service that listens on RabbitMQ says in its log.
STARTED = 'Join ServiceGroup membership'


def common(state: settings.State,
           cloud_settings: settings.Settings) -> files.Sections:
    """Return what the files of all services have, nova-compute's too."""
    def client(user: str) -> dict[str, object]:
        return web.authtoken(state, cloud_settings, user)

    return files.merged({
        'DEFAULT': web.default(state, 'nova'),
        'keystone_authtoken': web.keystone_authtoken(
            state, cloud_settings, 'nova'),
        'service_user': client('nova'), 'placement': client('placement'),
        'neutron': client('neutron'), 'cinder': client('nova'),
    }, files.options(
        'nova-common.conf', address=settings.CONTROLLER_ADDRESS,
        transport_url=messaging.transport_url(state, cloud_settings),
        locks=state.run / 'lock', pci_alias=json.dumps(PCI_ALIAS),
        **{name: cloud_settings.url(name)
           for name in ('glance', 'keystone', 'neutron')}))


def controller(state: settings.State,
               cloud_settings: settings.Settings) -> files.Sections:
    """Return the nova.conf of the API, the conductor and the scheduler."""
    return files.merged(common(state, cloud_settings), files.options(
        'nova.conf', filters=','.join(FILTERS), weighers=','.join(WEIGHERS)), {
            'database': database.options(state, cloud_settings, 'nova'),
            'api_database': database.options(
                state, cloud_settings, 'nova_api'),
            'filter_scheduler': {'available_filters': [
                'nova.scheduler.filters.all_filters',
                'nova_pinning.scheduler.filters.all_filters']}})


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
