# SPDX-License-Identifier: Apache-2.0

project = 'nova-pinning release notes'
copyright = 'nova-pinning developers'

extensions = [
    'openstackdocstheme',
    'reno.sphinxext',
]

html_theme = 'openstackdocs'
pygments_style = 'native'
openstackdocs_auto_name = False
openstackdocs_auto_version = False
