# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/check_names.py."""

import contextlib
import importlib
import io
import pathlib
import sys
import tempfile
from unittest import mock

from oslotest import base

_TOOLS = pathlib.Path(__file__).parents[3] / 'tools'

_FIT = '''\
"""What fits: :func:`fit`, :class:`Fit` and :meth:`Fit.cell`."""
import dataclasses
from nova import exception
from nova_pinning.model import host

class Fit:
    """A fit.

    :param cells: of the host
    :ivar kept: what is left
    """
    cells: int = 0
    def cell(self):
        """:raises exception.NovaException: if there is none"""
        self.kept = 1
        raise exception.NovaException

class Better(Fit):
    """A better one of :data:`host.MOST` cells.

    :param cells: of the host
    """

def fit(wanted, *more):
    """Fit.

    :param wanted, more: guests
    :param %s: not there
    :raises ValueError, host.HostError: if not
    :raises oslo_db.Error: not imported anywhere
    :returns: a :class:`nova_pinning.model.host.Host`, by :mod:`host`
    """
'''
_HOST = '''\
"""Hosts."""
MOST = 1

class Host:
    """A host."""

class HostError(Exception):
    """No host."""
'''


class TestCheckNames(base.BaseTestCase):

    def check(self, **modules):
        with mock.patch.object(sys, 'path', [str(_TOOLS), *sys.path]):
            tool = importlib.import_module('check_names')
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            for name, text in modules.items():
                path = root / 'nova_pinning' / (
                    name.replace('__', '/') + '.py')
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            with (mock.patch.object(tool, 'ROOT', root),
                  contextlib.redirect_stdout(io.StringIO()) as out):
                status = tool.main()
        lines = out.getvalue().splitlines()
        self.assertEqual(bool(lines), bool(status))
        return [line.removeprefix('nova_pinning/') for line in lines]

    def test_docstrings(self):
        self.assertEqual(
            ['fit.py:24: oslo_db.Error does not exist',
             'fit.py:24: fit has no gone'],
            self.check(fit=_FIT % 'gone', model__host=_HOST))

    def test_what_was_renamed(self):
        """A name that is gone is found wherever it is mentioned."""
        self.assertEqual(
            ['fit.py:24: nova_pinning.model.host.Host does not exist'],
            [line for line in self.check(
                fit=_FIT % 'wanted',
                model__host=_HOST.replace('class Host:', 'class Node:'))
                if 'oslo_db' not in line])

    def test_two_classes(self):
        again = 'class Host:\n    pass\n\nclass _Own:\n    pass\n'
        self.assertEqual(
            ['model/host.py:4: Host is a class of nova_pinning/bridge/a.py '
             'as well'],
            self.check(bridge__a=again, model__host=_HOST,
                       model__other='class _Own:\n    pass\n',
                       tests__fake=again))

    def test_nothing(self):
        self.assertEqual([], self.check(model__host=_HOST))
