# SPDX-License-Identifier: Apache-2.0
"""Stands in for SSH where whitebox-tempest-plugin looks at compute hosts.

    python tools/whitebox_adapter.py -m stestr.subunit_runner.run ...

runs a module as Python would, with the clients of whitebox-tempest-plugin made
to go through minicloud: its commands run on the compute host that they name,
services are started and stopped as minicloud does it, and the database is
where minicloud has it. run_whitebox.py has stestr call this in place of
Python.

    python tools/whitebox_adapter.py start HOST
    python tools/whitebox_adapter.py stop HOST

start and stop the nova-compute of a host, and leave its files as they are.
"""

import os
import pathlib
import runpy
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from minicloud import cloud  # noqa: E402
from minicloud import settings  # noqa: E402

MINICLOUD = ROOT / 'tools' / 'minicloud'

#: The environment variable with minicloud's directory.
STATE = 'WHITEBOX_MINICLOUD_STATE'


def service_command(action, host):
    """Return what whitebox is to run to start or stop a nova-compute.

    :param action: 'start' or 'stop'
    """
    return shlex.join([sys.executable, __file__, action, host])


def command_line(state, host, command):
    """Return what runs a command of whitebox's.

    Files of nova-compute are this machine's, and so are its services.

    :param state: minicloud's directory
    :param command: as the shell of the compute host would get it
    """
    if command.startswith(('crudini ', f'{sys.executable} ')):
        return ['sh', '-c', command]
    return [str(MINICLOUD), '--state', state, 'exec', host, '--',
            'sh', '-c', command]


def execute(host, command):
    """Run a command as root, on a compute host.

    :returns: its output
    :raises: SSHExecCommandFailed if its exit status is not 0
    """
    from tempest.lib import exceptions
    # Where crudini is.
    programs = os.path.dirname(sys.executable)
    done = subprocess.run(
        command_line(os.environ[STATE], host, command), text=True,
        stdin=subprocess.DEVNULL, capture_output=True,
        env={**os.environ, 'PATH': f'{programs}:{os.environ["PATH"]}'})
    if done.returncode:
        raise exceptions.SSHExecCommandFailed(
            command=command, exit_status=done.returncode,
            stderr=done.stderr, stdout=done.stdout)
    return done.stdout


def adapt():
    """Have whitebox's clients go through minicloud."""
    from whitebox_tempest_plugin.services import clients

    def ssh(client, command, container_name=None, sudo=False):
        return execute(client.ctlplane_address, command)

    connect = clients.pymysql.connect
    port = settings.State(
        pathlib.Path(os.environ[STATE])).load().port('mariadb')

    def connect_there(**options):
        return connect(**{**options, 'port': port})

    clients.SSHClient.execute = ssh
    clients.pymysql.connect = connect_there


def nova_compute(state, host):
    """Return a host's nova-compute, which reads the files that are there.

    :param state: settings.State
    """
    service = cloud.Cloud(state, state.load()).parts[f'nova-compute-{host}']
    service.config = dict
    return service


def main(arguments):
    action, *rest = arguments
    if action == '-m':
        module, *options = rest
        sys.argv = [module, *options]
        sys.path[0] = ''
        adapt()
        runpy.run_module(module, run_name='__main__', alter_sys=True)
        return
    host, = rest
    service = nova_compute(
        settings.State(pathlib.Path(os.environ[STATE])), host)
    {'start': service.up, 'stop': service.down}[action]()


if __name__ == '__main__':
    main(sys.argv[1:])
