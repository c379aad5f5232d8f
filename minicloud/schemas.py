# SPDX-License-Identifier: Apache-2.0
"""The databases of a cloud that goes from one release to a later one."""

from minicloud import files
from minicloud import prepare
from minicloud import service
from minicloud import settings


def release(state: settings.State) -> str | None:
    """Return the release that the schemas are of, None without databases."""
    try:
        return (state.base / prepare.RELEASE).read_text()
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
        prepare.write_files(self.state, self.settings)
        keystone, placement, glance, nova = prepare.managers(self.state)
        prepare.run_chains(self.state, self.release, [
            [[*keystone, 'db_sync']],
            [[*placement, 'db', 'sync'],
             [*placement, 'db', 'online_data_migrations'],
             [*glance, 'db_sync'],
             [*nova, 'api_db', 'sync'],
             [*nova, 'db', 'sync'],
             [*nova, 'db', 'online_data_migrations']]], 'migrate')
        files.write(self.state.base / prepare.RELEASE, self.release)
