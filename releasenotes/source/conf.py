# SPDX-License-Identifier: Apache-2.0

import configparser
import pathlib

from docutils import nodes

_SETUP = configparser.ConfigParser()
_SETUP.read(pathlib.Path(__file__).parents[2] / 'setup.cfg')

project = 'nova-pinning release notes'
copyright = 'nova-pinning developers'
version = release = _SETUP['metadata']['version']

extensions = [
    'openstackdocstheme',
    'reno.sphinxext',
]

html_theme = 'openstackdocs'
pygments_style = 'native'
openstackdocs_auto_name = False
openstackdocs_auto_version = False


def _name_version(app, doctree):
    """Put the version where reno, which found no tag, writes 0.0.0."""
    for title in doctree.findall(nodes.title):
        if title.astext() == '0.0.0':
            title[:] = [nodes.Text(version)]


def setup(app):
    # Before Sphinx collects the titles for its tables of contents.
    app.connect('doctree-read', _name_version, priority=100)
