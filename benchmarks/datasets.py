# SPDX-License-Identifier: Apache-2.0
"""Where the data of others are that benchmarks go by."""

import os
import pathlib


def path_of(name: str) -> pathlib.Path:
    """Where a file of a data set lies, if it is there.

    :param name: 'azure-2017/v1-test.tar.xz', below the directory that
        NOVA_PINNING_DATA names, or else that beside the checkout
    """
    given = os.environ.get('NOVA_PINNING_DATA')
    root = (pathlib.Path(given) if given else pathlib.Path(
        __file__).resolve().parents[1].parent / 'shared' / 'data')
    return root / name
