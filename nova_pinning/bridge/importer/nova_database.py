# SPDX-License-Identifier: Apache-2.0
"""Nova's databases, for those who only read.

Nova's own models say what is where, and its own options and cell mappings how
to get there. Three things differ from how a service of nova goes about it:

* Nothing is ever written. Nova's objects for compute nodes and for guests'
  topologies bring old rows up to date when they are loaded
  (``ComputeNode._from_db_object``, ``InstanceNUMATopology.obj_from_db_obj``),
  so rows are read here, and only what is in their JSON goes through objects.
  The database is told, too, that each connection is for reading.
* No transaction is longer than one query of a page.
* Only the columns that are needed are read. nova.db's functions read all of
  an instance, its user data of up to 64 KiB included.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import re
from typing import Any

from oslo_config import cfg
from oslo_db import exception as db_exception
from oslo_db.sqlalchemy import enginefacade
import sqlalchemy as sa
from sqlalchemy import exc as sa_exception

from nova_pinning.bridge.offline import nova_conf_reader
from nova_pinning.bridge.offline import standalone
from nova_pinning import errors
from nova_pinning import extras

#: What a program without a command line of nova's own loads by default is
#: that of all of nova: nova.conf.
_PROGRAM = 'nova-pinning'
_CONTROLLER = ('run it on a controller, as a user who may read nova.conf, or '
               'name the file that nova-api has with --config-file')
#: How each kind of database is told that a connection only reads.
_READ_ONLY = {
    'mysql': 'SET SESSION TRANSACTION READ ONLY',
    'postgresql': 'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY',
    'sqlite': 'PRAGMA query_only = ON',
}
_DRIVER_CLASS = re.compile(r'^\([\w.]+\) ')
#: Rows that are read at once. A page takes a fraction of a second, and memory
#: for its JSON only.
PAGE_ROWS = 1000


class DatabaseError(errors.InputError):
    """A database cannot be read, or not to its end."""


@dataclasses.dataclass(frozen=True, slots=True)
class CellDatabase:
    """A cell of nova.

    :param context: a nova.context.RequestContext that leads to its database
    :param is_enabled: whether nova-scheduler may choose hosts in it
    """

    name: str
    uuid: str
    context: Any
    is_enabled: bool = True

    def __str__(self) -> str:
        return f'cell {self.name or self.uuid}'


@dataclasses.dataclass(frozen=True, slots=True)
class NovaDatabases:
    """All of nova's databases.

    :param conf: nova.conf
    :param context: a nova.context.RequestContext for the API database
    :param cells: without cell0
    :param cell0: where servers are that found no host; None if there is none
    """

    conf: cfg.ConfigOpts
    context: Any
    cells: tuple[CellDatabase, ...]
    cell0: CellDatabase | None = None


def load_conf(arguments: Sequence[str] = ()) -> cfg.ConfigOpts:
    """nova.conf of a controller.

    :param arguments: '--config-file' or '--config-dir', each followed by a
        path; what nova reads by default if there are none
    :raises errors.InputError: if it cannot be loaded
    """
    standalone.prepare()
    from nova.conf import availability_zone
    from nova.conf import base
    from nova.conf import compute
    from nova.conf import database
    from nova.conf import libvirt
    from nova.conf import pci
    from nova.conf import scheduler
    from nova.conf import service
    conf = cfg.ConfigOpts()
    for module in (availability_zone, base, compute, database, libvirt, pci,
                   scheduler, service):
        module.register_opts(conf)
    # Oslo.messaging's; cell mappings are filled in from it.
    conf.register_opt(cfg.StrOpt('transport_url', secret=True))
    try:
        conf(list(arguments), project='nova', prog=_PROGRAM)
    except (cfg.Error, OSError, ValueError) as error:
        raise errors.InputError(
            nova_conf_reader.message(error), errors.Location('nova.conf'),
            _CONTROLLER) from error
    return conf


@contextlib.contextmanager
def opened(conf: cfg.ConfigOpts) -> Iterator[NovaDatabases]:
    """Nova's databases as long as the context lasts.

    :param conf: from :func:`load_conf`
    :raises DatabaseError: if the API database cannot be read
    :raises errors.InputError: if nova.conf does not say where it is
    """
    if not conf.api_database.connection:
        raise errors.InputError(
            'there is no [api_database] connection in it',
            errors.Location(', '.join(conf.config_file) or 'nova.conf'),
            _CONTROLLER)
    standalone.prepare()
    from nova import context as nova_context
    from nova.db.api import api as api_db
    from nova import objects
    from nova.objects import cell_mapping
    objects.register_all()
    with contextlib.ExitStack() as stack:
        manager = _manager(stack, conf.api_database)
        stack.callback(api_db.context_manager.patch_factory(manager))
        context = nova_context.get_admin_context()
        with (nova_conf_reader.replaced_conf(cell_mapping, conf),
              reading('the API database')):
            mappings = list(objects.CellMappingList.get_all(context))

        def cell(mapping: Any) -> CellDatabase:
            targeted = nova_context.get_admin_context()
            # As nova.context.set_target_cell, without the message queue.
            with reading(f'cell {mapping.name or mapping.uuid}'):
                targeted.db_connection = _manager(
                    stack, conf.database, mapping.database_connection)
            targeted.cell_uuid = mapping.uuid
            return CellDatabase(mapping.name or '', mapping.uuid, targeted,
                                not mapping.disabled)

        cell0 = [mapping for mapping in mappings if mapping.is_cell0()]
        yield NovaDatabases(
            conf, context,
            tuple(
                cell(mapping)
                for mapping in mappings
                if not mapping.is_cell0()),
            cell(cell0[0]) if cell0 else None)


def pages(context: Any, query: Any, key: Any,
          rows: int = PAGE_ROWS) -> Iterator[Sequence[Any]]:
    """The rows that a query finds, page by page, each its own transaction.

    :param context: of a cell
    :param query: a sqlalchemy.Select
    :param key: the column, ascending and unique among the rows, that the
        pages go by; the query selects it first
    :param rows: of a page
    """
    marker: Any = None
    query = query.order_by(key).limit(rows)
    while True:
        page = select(
            context, query if marker is None else query.where(key > marker))
        if page:
            yield page
        if len(page) < rows:
            return
        marker = page[-1][0]


def select(context: Any, query: Any) -> Sequence[Any]:
    """All rows that a query finds, in one transaction.

    :param context: of a cell
    """
    from nova.db.main import api as main_db
    with main_db.get_context_manager(context).reader.using(context):
        rows: Sequence[Any] = context.session.execute(query).all()
    return rows


def select_api(context: Any, query: Any) -> Sequence[Any]:
    """All rows that a query finds in the API database.

    :param context: Database.context
    """
    from nova.db.api import api as api_db
    with api_db.context_manager.reader.using(context):
        rows: Sequence[Any] = context.session.execute(query).all()
    return rows


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise what goes wrong with a database as our own.

    :param what: is read: 'cell north'
    :raises DatabaseError: for all of that
    """
    try:
        yield
    except (db_exception.DBError, db_exception.CantStartEngineError,
            sa_exception.SQLAlchemyError, ImportError, OSError) as error:
        # The driver that the connection names, as in mysql+pymysql://.
        missing = extras.missing(error)
        raise DatabaseError(
            'it cannot be read: '
            f'{missing.message if missing else _first_line(error)}',
            errors.Location(what),
            missing.advice if missing else '') from error


def _first_line(error: Exception) -> str:
    """What a driver says, without what SQLAlchemy puts around it.

    That is the class before it, and on further lines the query and a link.
    """
    lines = _DRIVER_CLASS.sub('', str(error).strip()).splitlines()
    return lines[0].rstrip('.') if lines else type(error).__name__


def _manager(stack: contextlib.ExitStack, options: Any,
             connection: str = '') -> Any:
    """A context manager of oslo.db for a database, closed with the stack.

    :param options: [api_database] or [database]
    :param connection: in place of the one that the options have
    """
    settings = dict(options.items())
    if connection:
        # Those of [database] belong to one cell only.
        settings |= {'connection': connection, 'slave_connection': None}
    # A connection that fails is told at once. Oslo.db would try ten times,
    # ten seconds each.
    settings |= {'max_retries': 0}
    manager = enginefacade.transaction_context()
    manager.configure(**settings)
    engines: list[Any] = []
    manager.append_on_engine_create(engines.append)
    manager.append_on_engine_create(_set_read_only)
    stack.callback(_each(engines, lambda engine: engine.dispose()))
    return manager


def _each(engines: list[Any],
          action: Callable[[Any], None]) -> Callable[[], None]:
    def run() -> None:
        for engine in engines:
            action(engine)
    return run


def _set_read_only(engine: Any) -> None:
    statement = _READ_ONLY.get(engine.dialect.name)
    if statement is None:
        return

    def set_read_only(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()

    sa.event.listen(engine, 'connect', set_read_only)
