# SPDX-License-Identifier: Apache-2.0
"""Where the services keep their data: MariaDB."""

import pathlib
import shutil
import subprocess

from minicloud import errors
from minicloud import process
from minicloud import service
from minicloud import settings

NAMES = ('keystone', 'placement', 'glance', 'nova_api', 'nova_cell0', 'nova')


def directory(state: settings.State) -> pathlib.Path:
    return state.base / 'db'


def options(state: settings.State, cloud_settings: settings.Settings,
            name: str) -> dict[str, object]:
    """Return the options of a [database] section, for one of NAMES."""
    address = f'{settings.CONTROLLER_ADDRESS}:{cloud_settings.port("mariadb")}'
    return {'connection': f'mysql+pymysql://cloud:{state.secret}@{address}/'
                          f'{name}?charset=utf8',
            'max_pool_size': 4, 'max_overflow': 8}


def sql(state: settings.State, cloud_settings: settings.Settings) -> str:
    """Return the statements that make the databases and their user."""
    user = f"'cloud'@'{settings.CONTROLLER_ADDRESS}'"
    return '\n'.join([
        *(f'CREATE DATABASE {name} CHARACTER SET utf8;' for name in NAMES),
        f"CREATE USER {user} IDENTIFIED BY '{state.secret}';",
        f'GRANT ALL ON *.* TO {user};'])


class MariaDB(service.Service):
    """One mariadbd, its data under the state directory."""

    name = 'mariadb'
    requires = ('databases',)

    def command(self) -> list[str]:
        data = directory(self.state)
        return [
            'mariadbd', '--no-defaults', '--user=root', f'--datadir={data}',
            f'--bind-address={settings.CONTROLLER_ADDRESS}',
            f'--port={self.settings.port("mariadb")}',
            # Nobody needs the socket, but it cannot be left out, and the
            # path to it must be short: it is relative to datadir.
            '--socket=mariadb.sock', f'--pid-file={data}/mariadb.pid',
            '--skip-name-resolve', '--max-connections=300',
            # A cloud that is thrown away need not survive a power cut.
            '--innodb-flush-log-at-trx-commit=0', '--skip-log-bin',
            '--innodb-doublewrite=0', '--innodb-log-file-size=16M',
            '--innodb-buffer-pool-size=48M', '--performance-schema=0',
            '--aria-pagecache-buffer-size=8M', '--key-buffer-size=1M']

    def check(self) -> None:
        # PyMySQL may not be there yet, so the client asks.
        answer = subprocess.run(
            ['mariadb', '--no-defaults', '--protocol=tcp', '--user=cloud',
             f'--host={settings.CONTROLLER_ADDRESS}',
             f'--port={self.settings.port("mariadb")}', '--execute=SELECT 1'],
            env={'MYSQL_PWD': self.state.secret, 'PATH': '/usr/bin'},
            capture_output=True, text=True)
        if answer.returncode:
            raise errors.NotReady(answer.stderr.strip())


def create(state: settings.State, cloud_settings: settings.Settings) -> None:
    """Make empty databases.

    :raises: MiniCloudError
    """
    data = directory(state)
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    for command, text in (
            (['mariadb-install-db', '--no-defaults', '--user=root',
              '--auth-root-authentication-method=normal', f'--datadir={data}',
              '--skip-test-db', '--innodb-log-file-size=16M'], ''),
            (['mariadbd', '--no-defaults', '--user=root', f'--datadir={data}',
              '--bootstrap', '--innodb-log-file-size=16M'],
             f'FLUSH PRIVILEGES;\n{sql(state, cloud_settings)}\n')):
        process.run([*process.ENDS_WITH_US, *command],
                    f'{command[0]} failed', text=text)
