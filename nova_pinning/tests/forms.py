# SPDX-License-Identifier: Apache-2.0
"""Whether tests take their short forms, as testing.rst says."""

import os

SHORT = bool(os.environ.get('CI'))
