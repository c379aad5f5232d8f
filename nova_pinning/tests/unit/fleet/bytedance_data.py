# SPDX-License-Identifier: Apache-2.0


"""ByteDance's data set, where it is at hand.

It is beside the checkout, or in the directory that NOVA_PINNING_DATA names.
"""

import os
import pathlib

_ROOT = pathlib.Path(__file__).parents[4]


def path(test):
    """The data set's file; skips the test if it is not there."""
    data = os.environ.get('NOVA_PINNING_DATA') or _ROOT.parent / 'shared/data'
    path = pathlib.Path(data) / 'bytedance' / 'clusters.json'
    if not path.is_file():
        test.skipTest(f'there is no {path}; NOVA_PINNING_DATA says where '
                      'the data set is')
    return path
