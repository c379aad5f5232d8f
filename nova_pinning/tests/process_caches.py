# SPDX-License-Identifier: Apache-2.0
"""What is the same in each test is made once a process.

Each test has databases of its own. To SQLAlchemy each is another engine with
another dialect, so that it would compile every statement of nova's and
Placement's anew in every test, which is a tenth of all that a test does.

Nova's policy is a file of 400 rules in YAML, which each cloud reads twice,
and 230 defaults in code, which are copied each time. With each request oslo's
policy looks whether the file has changed, and asks for the signature of each
check.

Placement has jsonschema check its own schemas with each request, and nova
that of a PCI alias with each flavor. Nova makes a class of validators for each
request, which jsonschema compiles. Placement also makes the columns of its
tables anew under the same other names with each query.

Nova's fixtures replace two hundred functions of nova's for each cloud, and
oslotest looks up the signature of each. Neither have loggers to forget what
they know when they are given the level that they have.

Nova's objects list all their fields each time that one of them is asked for,
ask for each of them to find what has changed, and take their versions apart
whenever they are sent.

Whoever makes a client for messages registers its options again, whereupon
oslo.config forgets the values of all options.

openstacksdk looks through all classes of a resource for its attributes nine
times with each that it reads, and copies a table of all services with each
request, before which keystoneauth parses six times when the token expires.
"""

import functools
import inspect
import logging
import types

import jsonschema
from keystoneauth1 import _utils
from openstack import resource
import os_service_types
from oslo_config import cfg
from oslo_policy import _checks
from oslo_policy import policy
from oslo_utils import versionutils
from oslo_versionedobjects import base
from oslotest import mock_fixture
from sqlalchemy.dialects.sqlite import pysqlite
from sqlalchemy import engine
from sqlalchemy import event
from sqlalchemy import schema
from sqlalchemy.sql import selectable
from sqlalchemy import util

#: More than nova and Placement have, and each of them is some 10 kB.
_STATEMENTS = util.LRUCache(2000)


def install():
    """Have all tests of this process share it."""
    _share_statements()
    read = functools.cache(policy.parse_file_contents)
    policy.parse_file_contents = lambda data: dict(read(data))
    policy.Enforcer.register_default = _register_default
    policy.Enforcer.load_rules = _loading_once(policy.Enforcer.load_rules)
    cfg.ConfigOpts.register_opts = _keeping_values(
        cfg.ConfigOpts.register_opts)
    _checks.inspect = types.SimpleNamespace(getfullargspec=_argspec_of_call)
    mock_fixture._lazy_autospec_method = lambda *_functions: None
    logging.Logger.setLevel = _setting_once(logging.Logger.setLevel)
    _check_schemas_once(jsonschema.Draft202012Validator)
    _name_tables_once(selectable.Alias)
    _list_fields_once(base.VersionedObject)
    _list_attributes_once(resource.Resource)
    _utils.parse_isotime = functools.cache(_utils.parse_isotime)
    versionutils.convert_version_to_tuple = functools.cache(
        versionutils.convert_version_to_tuple)
    # It is only read.
    os_service_types.ServiceTypes.all_types_by_service_type = property(
        lambda self: self._service_types_data['all_types_by_service_type'])


def _share_statements():
    dialect = pysqlite.SQLiteDialect_pysqlite
    # They are part of the key, and all of them write SQL alike.
    dialect.__eq__ = lambda self, other: type(self) is type(other)
    dialect.__hash__ = lambda self: hash(type(self))

    @event.listens_for(engine.Engine, 'engine_connect')
    def share(connection):
        if isinstance(connection.dialect, dialect):
            connection.execution_options(compiled_cache=_STATEMENTS)


def _register_default(enforcer, default):
    if default.name in enforcer.registered_rules:
        raise policy.DuplicatePolicyError(default.name)
    # What it makes of one that is deprecated it keeps elsewhere.
    enforcer.registered_rules[default.name] = default


def _loading_once(load):
    @functools.wraps(load)
    def load_rules(enforcer, force_reload=False):
        # Rules that are set replace the object, and so does clear().
        rules, count = vars(enforcer).get('_loaded', (None, 0))
        if (force_reload or rules is not enforcer.rules or
                count != len(enforcer.registered_rules)):
            load(enforcer, force_reload)
            enforcer._loaded = enforcer.rules, len(enforcer.registered_rules)

    return load_rules


def _keeping_values(register):
    @functools.wraps(register)
    def register_opts(conf, opts, group=None):
        opts = list(opts)
        known = conf._opts
        if group is not None:
            name = getattr(group, 'name', group)
            known = conf._groups[name]._opts if name in conf._groups else ()
        register(conf, opts, group, clear_cache=not all(
            opt.dest in known for opt in opts))

    return register_opts


_argspec = functools.cache(inspect.getfullargspec)


def _argspec_of_call(call):
    # A bound method is another object each time.
    return _argspec(call.__func__)


def _setting_once(set_level):
    @functools.wraps(set_level)
    def set_if_another(logger, level):
        if logging._checkLevel(level) != logger.level:
            set_level(logger, level)

    return set_if_another


def _check_schemas_once(validator):
    check = validator.check_schema
    # Kept, so that no other gets the id of one.
    checked = {}

    def check_schema(schema, **options):
        if id(schema) not in checked:
            check(schema, **options)
            checked[id(schema)] = schema

    validator.check_schema = check_schema


def make_validators_once(validation):
    """Have nova keep what it checks requests with, by their schemas.

    :param validation: nova.api.validation.validators, once nova is loaded
    """
    make = validation._SchemaValidator
    # They have their schemas, so that no other gets the id of one.
    made = {}

    def validator(schema, *how, **values):
        key = id(schema), how, *values.items()
        if key not in made:
            made[key] = make(schema, *how, **values)
        return made[key]

    validation._SchemaValidator = validator


def _name_tables_once(kind):
    name_anew = kind._factory
    known = functools.cache(name_anew)

    def named(table, name=None, flat=False):
        # Those without a name get one for each place in each query.
        is_known = name and isinstance(table, schema.Table)
        return (known if is_known else name_anew)(table, name, flat)

    kind._factory = named


def _list_fields_once(kind):
    base._get_attrname = functools.cache(base._get_attrname)

    @functools.cache
    def fields(of):
        return {name: base._get_attrname(name)
                for name in (*of.fields, *of.obj_extra_fields)}

    is_set = kind.obj_attr_is_set

    def obj_attr_is_set(self, attrname):
        attribute = fields(type(self)).get(attrname)
        if attribute is None:
            return is_set(self, attrname)
        return hasattr(self, attribute)

    def obj_what_changed(self):
        changed = {name for name in self._changed_fields
                   if name in self.fields}
        values = vars(self)
        for name, attribute in fields(type(self)).items():
            value = values.get(attribute)
            if (isinstance(value, kind) and name in self.fields and
                    value.obj_what_changed()):
                changed.add(name)
        return changed

    kind.obj_attr_is_set = obj_attr_is_set
    kind.obj_what_changed = obj_what_changed


def _list_attributes_once(kind):
    attributes = kind._attributes_iterator.__func__

    @functools.cache
    def listed(of, *components):
        return tuple(attributes(of, *components))

    kind._attributes_iterator = classmethod(
        lambda of, *components: iter(listed(of, *components)))
