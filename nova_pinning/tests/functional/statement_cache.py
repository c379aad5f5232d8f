# SPDX-License-Identifier: Apache-2.0
"""Statements of SQL are compiled once a process, not once a cloud.

Each test has databases of its own. To SQLAlchemy each is another engine with
another dialect, so that it would compile every statement of nova's and
Placement's anew in every test, which is a tenth of all that a test does.
"""

from sqlalchemy.dialects.sqlite import pysqlite
from sqlalchemy import engine
from sqlalchemy import event
from sqlalchemy import util

#: More than nova and Placement have, and each of them is some 10 kB.
_STATEMENTS = util.LRUCache(2000)


def install():
    """Have all databases in files and in memory share what is compiled."""
    dialect = pysqlite.SQLiteDialect_pysqlite
    # They are part of the key, and all of them write SQL alike.
    dialect.__eq__ = lambda self, other: type(self) is type(other)
    dialect.__hash__ = lambda self: hash(type(self))

    @event.listens_for(engine.Engine, 'engine_connect')
    def share(connection):
        if isinstance(connection.dialect, dialect):
            connection.execution_options(compiled_cache=_STATEMENTS)
