# SPDX-License-Identifier: Apache-2.0

import configparser
import pathlib

_SETUP = configparser.ConfigParser()
_SETUP.read(pathlib.Path(__file__).parents[2] / 'setup.cfg')

project = 'nova-pinning'
copyright = 'nova-pinning developers'
version = release = _SETUP['metadata']['version']

extensions = [
    'cliff.sphinxext',
    'openstackdocstheme',
    'oslo_config.sphinxext',
    'sphinx.ext.autodoc',
]

html_theme = 'openstackdocs'
html_static_path = ['_static']
html_css_files = ['pages.css']
pygments_style = 'native'
# What is printed or logged is not Python.
highlight_language = 'text'
openstackdocs_auto_name = False
openstackdocs_auto_version = False

autodoc_default_options = {
    'members': True,
    'show-inheritance': True,
}
autodoc_member_order = 'bysource'
autodoc_typehints = 'signature'
