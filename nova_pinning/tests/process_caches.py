# SPDX-License-Identifier: Apache-2.0
"""What is the same in each test is made once a process.

Each test has databases of its own. To SQLAlchemy each is another engine with
another dialect, so that it would compile every statement of nova's and
Placement's anew in every test, which is a tenth of all that a test does.

Nova's policy is a file of 400 rules in YAML, which each cloud reads twice.

Placement has jsonschema check its own schemas with each request, and nova
that of a PCI alias with each flavor.
"""

import functools

import jsonschema
from oslo_policy import policy
from sqlalchemy.dialects.sqlite import pysqlite
from sqlalchemy import engine
from sqlalchemy import event
from sqlalchemy import util

#: More than nova and Placement have, and each of them is some 10 kB.
_STATEMENTS = util.LRUCache(2000)


def install():
    """Have all tests of this process share it."""
    _share_statements()
    read = functools.cache(policy.parse_file_contents)
    policy.parse_file_contents = lambda data: dict(read(data))
    _check_schemas_once(jsonschema.Draft202012Validator)


def _share_statements():
    dialect = pysqlite.SQLiteDialect_pysqlite
    # They are part of the key, and all of them write SQL alike.
    dialect.__eq__ = lambda self, other: type(self) is type(other)
    dialect.__hash__ = lambda self: hash(type(self))

    @event.listens_for(engine.Engine, 'engine_connect')
    def share(connection):
        if isinstance(connection.dialect, dialect):
            connection.execution_options(compiled_cache=_STATEMENTS)


def _check_schemas_once(validator):
    check = validator.check_schema
    # Kept, so that no other gets the id of one.
    checked = {}

    def check_schema(schema, **options):
        if id(schema) not in checked:
            check(schema, **options)
            checked[id(schema)] = schema

    validator.check_schema = check_schema
