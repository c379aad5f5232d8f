# SPDX-License-Identifier: Apache-2.0
"""A MariaDB of its own for a test: all of it in a temporary directory."""

import contextlib
import dataclasses
import pathlib
import shutil
import subprocess
import sys
import time

import fixtures
from nova.db.api import models as api_models
import pymysql
import sqlalchemy as sa

from nova_pinning.tests import novadatabase

_START_SECONDS = 60
_END_SECONDS = 30
_PASSWORD = 'secret'


def missing() -> str:
    """Why there can be none, '' if there can."""
    absent = [name for name in ('mariadbd', 'mariadb-install-db')
              if shutil.which(name) is None]
    return (f'{" and ".join(absent)} not installed (Debian: mariadb-server)'
            if absent else '')


@dataclasses.dataclass(frozen=True, slots=True)
class Transactions:
    """Those of one user.

    :param writing: that were not begun as read-only ones
    """

    count: int
    writing: int
    longest_seconds: float


class MariaDB(fixtures.Fixture):
    """A server with an empty password for root, and users to be made.
    """

    def _setUp(self) -> None:
        self.directory = pathlib.Path(self.useFixture(
            fixtures.TempDir()).path)
        self._socket = self.directory / 'socket'
        data = self.directory / 'data'
        subprocess.run(
            ['mariadb-install-db', '--no-defaults', '--user=root',
             '--auth-root-authentication-method=normal', f'--datadir={data}',
             '--skip-test-db', '--innodb-log-file-size=16M'],
            check=True, capture_output=True)
        self._log = self.useFixture(_Closing(
            (self.directory / 'log').open('wb'))).file
        self.start()

    def start(self) -> None:
        """Start it, also once it was stopped, with the data that it had."""
        data, log = self.directory / 'data', self._log
        self.process = subprocess.Popen(
            ['mariadbd', '--no-defaults', '--user=root', f'--datadir={data}',
             # A port might be somebody else's before it has it.
             '--skip-networking', f'--socket={self._socket}',
             f'--pid-file={data}/mariadb.pid',
             '--skip-name-resolve', '--innodb-flush-log-at-trx-commit=0',
             '--skip-log-bin', '--innodb-doublewrite=0',
             '--innodb-log-file-size=64M', '--innodb-buffer-pool-size=128M',
             '--character-set-server=utf8mb3',
             # Counts and times the transactions of each user.
             '--performance-schema=ON',
             '--performance-schema-instrument=transaction=ON',
             '--performance-schema-consumer-events-transactions-current=ON'],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(self.stop)
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self.execute('SELECT 1')
                return
            except pymysql.OperationalError:
                if (self.process.poll() is not None
                        or time.monotonic() > deadline):
                    raise
                time.sleep(0.1)

    def stop(self) -> None:
        """End it; data are gone with the fixture, so it need not be nice."""
        self.process.terminate()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def execute(self, *statements: str) -> list[tuple]:
        """Run statements as root; returns the rows of the last."""
        connection = pymysql.connect(
            unix_socket=str(self._socket), user='root')
        with contextlib.closing(connection), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()
            return list(cursor.fetchall())

    def create(self, *databases: str, charset: str = 'utf8mb3') -> None:
        self.execute(*(f'CREATE DATABASE {name} CHARACTER SET {charset}'
                       for name in databases))

    def copy_tables(self, source: str, target: str) -> None:
        """Make the same tables in another database, all empty."""
        names = self.execute(f'SHOW TABLES FROM {source}')
        self.execute(
            'SET FOREIGN_KEY_CHECKS = 0',
            *(f'CREATE TABLE {target}.{name} LIKE {source}.{name}'
              for name, in names))

    def create_user(self, name: str, privileges: str) -> None:
        self.execute(
            f"CREATE USER '{name}'@'localhost' IDENTIFIED BY '{_PASSWORD}'",
            f"GRANT {privileges} ON *.* TO '{name}'@'localhost'")

    def give_to_reader(self, nova: novadatabase.NovaDatabase) -> None:
        """Make a user who may only read, and have nova.conf name it."""
        self.create_user('reader', 'SELECT')
        for name in nova.cells:
            nova.execute('api', sa.update(api_models.CellMapping).where(
                api_models.CellMapping.name == name).values(
                    database_connection=self.url(name, 'reader')))
        nova.conf.write_text('[api_database]\n'
                             f'connection = {self.url("api", "reader")}\n')

    def transactions(self, user: str) -> Transactions:
        """The transactions that a user has ended since the server began."""
        (count, writing, longest), = self.execute(
            'SELECT COUNT_STAR, COUNT_READ_WRITE, MAX_TIMER_WAIT FROM '
            'performance_schema.events_transactions_summary_by_user_by_'
            f"event_name WHERE USER = '{user}'")
        return Transactions(count, writing, longest / 10 ** 12)

    def url(self, database: str, user: str = '') -> str:
        """What SQLAlchemy connects to.

        :param user: root if none is given
        """
        who = f'{user}:{_PASSWORD}' if user else 'root'
        return (f'mysql+pymysql://{who}@localhost/{database}'
                f'?unix_socket={self._socket}&charset=utf8mb3')


class _Closing(fixtures.Fixture):

    def __init__(self, file) -> None:
        super().__init__()
        self.file = file

    def _setUp(self) -> None:
        self.addCleanup(self.file.close)


def nova_on_mariadb(server: MariaDB, is_migrated: bool = True,
                    ) -> novadatabase.NovaDatabase:
    """Databases of nova with its tables.

    :param is_migrated: whether nova-manage makes these, step by step, which
        takes longer than all else; nova's models otherwise
    """
    # Of three bytes a letter, an index of the models is too long.
    server.create('api', 'cell0', 'north',
                  charset='utf8mb3' if is_migrated else 'latin1')
    nova = novadatabase.NovaDatabase(server.directory, urls={
        name: server.url(name) for name in ('api', 'cell0', 'north')})
    if not is_migrated:
        nova.create_tables()
        nova.add_mappings()
        return nova
    nova.write_conf(f'[database]\nconnection = {nova.urls["north"]}\n')
    manage = [sys.executable, '-c', 'from nova.cmd import manage; '
              'raise SystemExit(manage.main())', '--config-file',
              str(nova.conf)]
    for command in (['api_db', 'sync'], ['db', 'sync', '--local_cell']):
        subprocess.run([*manage, *command], check=True, capture_output=True)
    server.copy_tables('north', 'cell0')
    nova.add_mappings()
    return nova
