# SPDX-License-Identifier: Apache-2.0
"""Databases: of a new cloud, and of one that goes to a later release.

To make them, with schema, users and catalogue, takes most of a minute, and
they are the same for each cloud of the same settings. So they are made once
and copied from then on.
"""

from concurrent import futures
import hashlib
import os
import pathlib
import shutil
import subprocess

from minicloud import api
from minicloud import database
from minicloud import errors
from minicloud import files
from minicloud import nova
from minicloud import process
from minicloud import service
from minicloud import settings
from minicloud import web

# In the directory of the databases, the release that their schemas are of.
RELEASE = 'release'

# Service type and path below the service's URL, by service.
SERVICES = {
    'placement': ('placement', ''),
    'glance': ('image', ''),
    'nova': ('compute', '/v2.1'),
    'neutron': ('network', ''),
}


def key(state: settings.State, settings: settings.Settings) -> str:
    """Return what prepared databases depend on, as a digest."""
    packages = sorted(path.name for path in state.venv(settings.release).glob(
        'lib/python3*/site-packages/*.dist-info'))
    parts = [*packages, str(settings.base_port), str(state.root),
             state.secret]
    parts += [path.read_text() for path in (
        pathlib.Path(__file__), pathlib.Path(database.__file__))]
    digest = hashlib.sha256('\0'.join(parts).encode()).hexdigest()[:16]
    return f'{settings.release}-{digest}'


class Databases(service.Task):
    """Databases with all that a new cloud starts from."""

    name = 'databases'

    def do(self) -> None:
        kept = self.state.prepared / key(self.state, self.settings)
        if not kept.exists():
            self._prepare(kept)
        shutil.rmtree(self.state.base, ignore_errors=True)
        shutil.copytree(kept, self.state.base)

    def _prepare(self, kept: pathlib.Path) -> None:
        shutil.rmtree(self.state.base, ignore_errors=True)
        database.create(self.state, self.settings)
        mariadb = database.MariaDB(self.state, self.settings)
        keystone = web.Keystone(self.state, self.settings)
        try:
            mariadb.up()
            write_files(self.state, self.settings)
            _sync(self.state, self.settings)
            keystone.up()
            register(self.state, self.settings)
        finally:
            keystone.down()
            mariadb.down()
        files.write(self.state.base / RELEASE, self.release)
        for old in self.state.prepared.glob(f'{self.release}-*'):
            shutil.rmtree(old)
        # Only what is finished gets the name.
        unfinished = self.state.prepared / 'unfinished'
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(self.state.base, unfinished)
        unfinished.rename(kept)


def release(state: settings.State) -> str | None:
    """Return the release that the schemas are of, None without databases."""
    try:
        return (state.base / RELEASE).read_text()
    except FileNotFoundError:
        return None


class Schemas(service.Part):
    """The schemas of all databases, of the release of the services.

    What writes to them must not run while they change.
    """

    name = 'schemas'
    requires = ('databases', 'mariadb')

    def up(self) -> None:
        if release(self.state) == self.release:
            return
        write_files(self.state, self.settings)
        keystone, placement, glance, nova_manage = managers(self.state)
        run_chains(self.state, self.release, [
            [[*keystone, 'db_sync']],
            [[*placement, 'db', 'sync'],
             [*placement, 'db', 'online_data_migrations'],
             [*glance, 'db_sync'],
             [*nova_manage, 'api_db', 'sync'],
             [*nova_manage, 'db', 'sync'],
             [*nova_manage, 'db', 'online_data_migrations']]], 'migrate')
        files.write(self.state.base / RELEASE, self.release)


def write_files(state: settings.State,
                settings: settings.Settings) -> None:
    """Write what the programs read that change schemas."""
    for part in (web.Keystone, web.Placement, web.Glance, nova.NovaConductor):
        for path, text in part(state, settings).config().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write(path, text)


def _sync(state: settings.State, settings: settings.Settings) -> None:
    """Bring all schemas up; side by side, since they do not share a thing."""
    keystone, placement, glance, nova_manage = managers(state)
    for name in ('fernet', 'credential'):
        (state.base / 'keystone' / name).mkdir(parents=True)
    chains = [
        [[*keystone, 'db_sync'],
         [*keystone, 'fernet_setup', '--keystone-user', 'root',
          '--keystone-group', 'root'],
         [*keystone, 'credential_setup', '--keystone-user', 'root',
          '--keystone-group', 'root'],
         # Its password is in the environment, where nobody else sees it.
         [*keystone, 'bootstrap', '--bootstrap-region-id', web.REGION,
          *(option for kind in ('public', 'internal', 'admin')
            for option in (f'--bootstrap-{kind}-url',
                           settings.url('keystone') + '/v3'))]],
        [[*placement, 'db', 'sync'],
         [*glance, 'db_sync'],
         [*nova_manage, 'api_db', 'sync'],
         [*nova_manage, 'cell_v2', 'map_cell0'],
         [*nova_manage, 'cell_v2', 'create_cell', '--name', 'cell1'],
         [*nova_manage, 'db', 'sync']]]
    run_chains(state, settings.release, chains, 'prepare')


def managers(state: settings.State) -> list[list[str]]:
    """Return the beginnings of keystone-manage's command line and so on.

    :returns: of Keystone, Placement, Glance and Nova
    """
    return [
        *([f'{name}-manage', '--config-file', str(state.etc / name / file)]
          for name, file in (('keystone', 'keystone.conf'),
                             ('placement', 'placement.conf'),
                             ('glance', 'glance-api.conf'))),
        ['nova-manage', *nova.config_files(nova.directory(state))]]


def run_chains(state: settings.State, release: str,
               chains: list[list[list[str]]], name: str) -> None:
    """Run commands of a release, those of each chain one after the other.

    :param name: of the logs
    :raises: MiniCloudError
    """
    with futures.ThreadPoolExecutor() as pool:
        running = [pool.submit(_run, state, release, chain,
                               state.log / f'{name}-{number}.log')
                   for number, chain in enumerate(chains)]
    for future in running:
        future.result()


def _run(state: settings.State, release: str, commands: list[list[str]],
         log: pathlib.Path) -> None:
    """Run commands one after the other, until one fails."""
    environment = {**os.environ, 'OS_BOOTSTRAP_PASSWORD': state.secret}
    with log.open('w') as output:
        for program, *arguments in commands:
            done = subprocess.run(
                [*process.ENDS_WITH_US, state.bin(program, release),
                 *arguments],
                stdout=output, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, env=environment)
            if done.returncode:
                raise errors.MiniCloudError(
                    f'{program} {" ".join(arguments[2:4])} failed',
                    detail=process.tail(log))


def register(state: settings.State, settings: settings.Settings) -> None:
    """Tell Keystone of the services: their users and where they are."""
    keystone = api.Api(state, settings)

    def post(path: str, name: str, body: api.Body) -> str:
        answer = keystone.send('keystone', 'POST', path, {name: body})
        return str(answer[name]['id'])

    roles = {role['name']: role['id'] for role in
             keystone.get('keystone', '/roles')['roles']}
    for name in {'service'} - set(roles):
        roles[name] = post('/roles', 'role', {'name': name})
    project = post('/projects', 'project',
                   {'name': 'service', 'domain_id': 'default'})
    for name, (kind, path) in SERVICES.items():
        user = post('/users', 'user', {
            'name': name, 'password': state.secret, 'domain_id': 'default'})
        for role in ('admin', 'service'):
            keystone.send('keystone', 'PUT', f'/projects/{project}/users/'
                          f'{user}/roles/{roles[role]}')
        made = post('/services', 'service', {'name': name, 'type': kind})
        for interface in ('public', 'internal', 'admin'):
            post('/endpoints', 'endpoint', {
                'service_id': made, 'interface': interface,
                'region_id': web.REGION,
                'url': settings.url(name) + path})
