# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ and the name server that Erlang needs for it."""

import pathlib
import socket

from minicloud import errors
from minicloud import files
from minicloud import service
from minicloud import settings

ADDRESS = settings.CONTROLLER_ADDRESS


def transport_url(state: settings.State,
                  settings: settings.Settings) -> str:
    return (f'rabbit://cloud:{state.secret}@{ADDRESS}:'
            f'{settings.port("rabbitmq")}/')


class Epmd(service.Service):
    """Erlang's port mapper; RabbitMQ would start one on every address."""

    name = 'epmd'

    def command(self) -> list[str]:
        return ['epmd', '-address', ADDRESS, '-port',
                str(self.settings.port('epmd'))]

    def check(self) -> None:
        connect(self.settings.port('epmd'))


class RabbitMQ(service.Service):
    """One broker, which forgets everything when it stops."""

    name = 'rabbitmq'
    requires = ('epmd',)
    grace_seconds = 20.0

    def config(self) -> dict[pathlib.Path, str]:
        return {
            self.state.etc / 'rabbitmq.conf': files.filled(
                'rabbitmq.conf', address=ADDRESS, secret=self.state.secret,
                port=self.settings.port('rabbitmq'),
                erlang_port=self.settings.port('erlang')),
            self.state.etc / 'rabbitmq-plugins': '[].\n'}

    def command(self) -> list[str]:
        # Debian's own script would change to another user first.
        return ['/usr/lib/rabbitmq/bin/rabbitmq-server']

    def environment(self) -> dict[str, str]:
        settings = self.settings
        data = self.state.data / 'rabbitmq'
        return {
            'HOME': str(data),
            'RABBITMQ_NODENAME': f'cloud{settings.base_port}@localhost',
            'RABBITMQ_NODE_IP_ADDRESS': ADDRESS,
            'RABBITMQ_NODE_PORT': str(settings.port('rabbitmq')),
            'RABBITMQ_DIST_PORT': str(settings.port('erlang')),
            'RABBITMQ_CONFIG_FILE': str(self.state.etc / 'rabbitmq.conf'),
            'RABBITMQ_CONF_ENV_FILE': '/dev/null',
            'RABBITMQ_ENABLED_PLUGINS_FILE':
                str(self.state.etc / 'rabbitmq-plugins'),
            'RABBITMQ_MNESIA_BASE': str(data),
            'RABBITMQ_LOG_BASE': str(self.state.log),
            'RABBITMQ_PID_FILE': str(data / 'pid'),
            # There is one already; this would outlive everything.
            'ERL_FLAGS': '-start_epmd false',
            'ERL_EPMD_ADDRESS': ADDRESS,
            'ERL_EPMD_PORT': str(settings.port('epmd')),
            # Erlang would listen on all addresses and spin while idle.
            'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS':
                '-kernel inet_dist_use_interface {127,0,0,1} '
                '+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none'}

    def prepare(self) -> None:
        (self.state.data / 'rabbitmq').mkdir(parents=True, exist_ok=True)

    def check(self) -> None:
        with connect(self.settings.port('rabbitmq')) as connection:
            connection.settimeout(2)
            try:
                connection.sendall(b'AMQP\0\0\x09\x01')
                if not connection.recv(8):
                    raise errors.NotReady('it hangs up')
            except OSError as e:
                raise errors.NotReady(str(e)) from e


def connect(port: int, address: str = ADDRESS) -> socket.socket:
    """Return a connection to a port.

    :raises: NotReady
    """
    try:
        return socket.create_connection((address, port), timeout=2)
    except OSError as e:
        raise errors.NotReady(f'{address}:{port}: {e.strerror or e}') from e
