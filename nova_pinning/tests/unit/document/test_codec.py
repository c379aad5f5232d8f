# SPDX-License-Identifier: Apache-2.0

from collections.abc import Mapping
import copy
import dataclasses
import enum
import json
import re
import subprocess
import sys
from typing import Annotated
from typing import Literal
from typing import NamedTuple

import ddt
import hypothesis
from hypothesis import strategies as st
from oslotest import base

from nova_pinning import cpuset
from nova_pinning.document import codec
from nova_pinning.document import decoder
from nova_pinning.document import encoder
from nova_pinning.document import json_text
from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning.document import typed_document
from nova_pinning import errors
from nova_pinning.tests.unit import unit_base


class Colour(enum.StrEnum):
    RED = 'red'
    BLUE = 'blue'


class Point(NamedTuple):
    x: int
    y: int = 0


def _pair(text):
    first, comma, second = text.partition(',')
    if not comma:
        raise ValueError(f'{text!r} has no comma')
    return first, second


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A leaf.

    :param size: in
        millimetres
    """

    size: Annotated[int, codec.Limit(title='a size', minimum=1)]
    cpus: cpuset.CpuSet = cpuset.CpuSet()
    pair: Annotated[tuple[str, str], codec.Form(
        str, ','.join, _pair)] = ('a', 'b')
    label: Annotated[str, codec.Limit(pattern='^[a-z]*$')] | None = None
    seen: bool = dataclasses.field(default=False, compare=False)


@dataclasses.dataclass(frozen=True)
class Bare:
    leaves: int


@dataclasses.dataclass(frozen=True)
class Soil:
    """Knows nothing of files."""

    depth: int
    water: int
    minerals: frozenset[str] = frozenset()
    name: str = dataclasses.field(default='', compare=False)


_Soil = Annotated[Soil, codec.Fields(
    {'water': 0}, depth=Annotated[int, codec.Limit(minimum=1)],
    minerals=Annotated[frozenset[str], codec.Shared('minerals')], name=str)]


@dataclasses.dataclass(frozen=True)
class Tree:
    name: str
    colour: Colour = Colour.RED
    kind: Literal['oak', 'elm'] = 'oak'
    height: float = 1.0
    is_old: bool = False
    years: int | None = None
    at: Point = Point(1)
    leaves: tuple[Leaf, ...] = ()
    span: tuple[int, str] = (0, '')
    tags: frozenset[str] = frozenset()
    by_name: Mapping[str, Leaf | Bare] = dataclasses.field(
        default_factory=dict)
    odd: int | float | str | None = None
    soil: Annotated[_Soil, codec.Shared('soils')] | None = None
    nests: Annotated[Mapping[
        Annotated[str, codec.Limit(minLength=1)], int],
        codec.Shared('nest_kinds')] = dataclasses.field(default_factory=dict)
    size: Annotated[str, codec.Limit(enum=['small', 'large'])] = 'small'


_LEAVES = st.builds(
    Leaf, size=st.integers(1, 9),
    cpus=st.lists(st.integers(0, 99)).map(cpuset.CpuSet),
    pair=st.sampled_from([('a', 'b'), ('x', '')]),
    label=st.none() | st.text('az', max_size=2))
_SOILS = st.builds(
    Soil, st.integers(1, 3), st.just(0), st.frozensets(
        st.sampled_from('ab')), st.sampled_from('xy'))
_TREES = st.builds(
    Tree, leaves=st.lists(_LEAVES, max_size=2).map(tuple),
    height=st.floats(allow_nan=False, allow_infinity=False),
    odd=st.none() | st.integers() | st.text() | st.floats(-1, 1),
    soil=st.none() | _SOILS, nests=st.dictionaries(
        st.sampled_from('abc'), st.integers(), max_size=2),
    size=st.sampled_from(['small', 'large']),
    by_name=st.dictionaries(st.text(max_size=2), _LEAVES | st.builds(Bare),
                            max_size=2))
_ODD = st.sampled_from([None, True, 0, -1, 2.5, '', 'red\n', [], {}, [1, 2],
                        {'size': 2}, '3-1', 'a,b'])


def _places(value, path=()):
    """Where something could be changed."""
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value[key], (*path, key))


def _document(value):
    return source.YamlDocument(value, 'x', lambda _path, _key: (0, 0))


@ddt.ddt
class TestCodec(base.BaseTestCase):

    @unit_base.settings(150)
    @hypothesis.given(_TREES, st.booleans())
    def test_what_is_written_is_read(self, tree, sparse):
        text = json.dumps(encoder.encode(tree, sparse=sparse))
        found = typed_document.read(Tree, json_text.parse(text, 'x'))
        self.assertEqual(tree, found)
        self.assertIs(float, type(found.height))
        if tree.soil is not None:
            self.assertEqual(tree.soil.name, found.soil.name)
        schema.validate(json_text.parse(text, 'x'),
                        typed_document.schema(Tree))

    @unit_base.settings(150)
    @hypothesis.given(_TREES, st.data())
    def test_as_strict_as_the_schema(self, tree, data):
        value = json.loads(json.dumps(encoder.encode(tree)))
        path = data.draw(st.sampled_from(list(_places(value))[1:]))
        changed = copy.deepcopy(value)
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = data.draw(_ODD)
        try:
            schema.validate(_document(changed), typed_document.schema(Tree))
            is_right = True
        except errors.InputErrors:
            is_right = False
        try:
            decoder.decode(Tree, changed)
        except codec.MisfitError as error:
            # What a schema cannot tell.
            if is_right:
                self.assertRegex(str(error), 'comma|backwards|there is no')
        else:
            self.assertTrue(is_right)

    def test_sparse(self):
        tree = Tree('x', leaves=(Leaf(2),), height=1)
        self.assertEqual({'name': 'x', 'leaves': [{'size': 2}]},
                         encoder.encode(tree, sparse=True))
        self.assertEqual({'size': 2, 'cpus': '', 'pair': 'a,b',
                          'label': None}, encoder.encode(Leaf(2, seen=True)))

    def test_shared(self):
        @dataclasses.dataclass(frozen=True)
        class Forest:
            trees: tuple[Tree, ...]

        soils = [Soil(1, 0, frozenset('a')), Soil(1, 0, frozenset('a')),
                 Soil(2, 0, frozenset('a'))]
        forest = Forest(tuple(
            Tree('x', soil=soil, nests={'a': 1}) for soil in soils))
        value = encoder.encode(forest, sparse=True)
        self.assertEqual(
            {'trees': [{'name': 'x', 'soil': place, 'nests': 0}
                       for place in (0, 0, 1)],
             'soils': [{'depth': 1, 'minerals': 0},
                       {'depth': 2, 'minerals': 0}],
             'minerals': [['a']], 'nest_kinds': [{'a': 1}]}, value)
        found = decoder.decode(Forest, value)
        self.assertEqual(forest, found)
        self.assertIs(found.trees[0].soil, found.trees[1].soil)

    @ddt.data(
        ({'leaves': (Leaf(1), Leaf(0))}, '0 is not a size', 'leaves', 1,
         'size'),
        ({'soil': Soil(0, 0)}, '0 is not within', 'soil', 'depth'),
        ({'soil': Soil(1, 7)}, '7 is not what', 'soil', 'water'),
        ({'size': 'huge'}, "'huge' is not", 'size'),
        ({'by_name': {'a': Leaf(0)}}, '0 is not a size', 'by_name', 'a',
         'size'),
        ({'nests': {'': 1}}, "'' is not within", 'nests'))
    def test_not_to_be_written(self, case):
        changes, message, *path = case
        error = self.assertRaises(
            codec.MisfitError, encoder.encode, Tree('x', **changes))
        self.assertIn(message, str(error))
        self.assertEqual(path, list(error.path))

    @ddt.data(
        ({}, 'name is missing', ''),
        ({'nome': 'x', 'name': ''}, 'nome is not known here; did you mean '
                                    'name?', 'nome'),
        ({'name': 1}, '1 is not text', 'name'),
        ({'leaves': [{'size': 0}]}, '0 is not a size', 'leaves[0].size'),
        ({'leaves': [{'size': 1, 'pair': 'a'}]}, "'a' has no comma",
         'leaves[0].pair'),
        ({'by_name': {'a': {'size': 1, 'cpus': '3-1'}}}, 'runs backwards',
         'by_name.a.cpus'),
        ({'soil': 1, 'soils': [{'depth': 1}], 'minerals': [[]]},
         'there is no soils[1]; soils has 1, counted from 0', 'soil'),
        ({'soils': [{'depth': 0}]}, '0 is not 1 or more', 'soils[0].depth'),
        ({'soils': [{'depth': 1, 'minerals': 0}]},
         'there is no minerals[0]', 'soils[0].minerals'),
        ({'soils': {}}, 'a mapping is not a list', 'soils'),
        ({'size': 'smal'}, 'did you mean small?', 'size'),
        ({'': 1}, "'' is not known here", ''),
        ({'colour': 'rad'}, 'did you mean red?', 'colour'),
        ({'tags': ['a', 'a']}, 'nothing stands twice', 'tags'),
        ({'span': [1]}, 'span', 'span'),
        ({'version': 2}, '2 is not a version', 'version'))
    @ddt.unpack
    def test_errors(self, change, message, key):
        value = {'version': 1, **({'name': 'x'} if change else {}), **change}
        text = json.dumps(value, indent=1)
        error = self.assertRaises(
            errors.InputError if re.search(
                'comma|backwards|there is no', message)
            else errors.InputErrors,
            typed_document.read, Tree, json_text.parse(text, 'file'),
            version=1)
        self.assertIn(message, str(error))
        self.assertEqual(key, error.where.key)
        self.assertLess(0, error.where.line)

    def test_descriptions(self):
        found = typed_document.schema(Tree)['properties']['leaves']['items']
        self.assertEqual(
            {'type': 'integer', 'title': 'a size', 'minimum': 1,
             'description': 'in millimetres'}, found['properties']['size'])
        self.assertEqual(['size'], found['required'])

    def test_import_is_cheap(self):
        done = subprocess.run(
            [sys.executable, '-c', 'import sys; '
             'from nova_pinning.document import decoder, encoder; '
             'print({"yaml", "jsonschema"} & {*sys.modules})'],
            capture_output=True, text=True)
        self.assertEqual('set()', done.stdout.strip())
