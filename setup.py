# SPDX-License-Identifier: Apache-2.0
import configparser
import os

import setuptools

# Without this, pbr makes up a version from tags and history, or has none.
setup_cfg = configparser.ConfigParser()
setup_cfg.read('setup.cfg')
os.environ.setdefault('PBR_VERSION', setup_cfg['metadata']['version'])

setuptools.setup(pbr=True)
