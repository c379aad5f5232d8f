# SPDX-License-Identifier: Apache-2.0
"""The nova of hosts of which nothing tells it, as --release says it."""

import argparse
import sys

from nova_pinning.upgrade import known_hits
from nova_pinning.upgrade import register


def defects(parsed_args: argparse.Namespace) -> known_hits.KnownDefects:
    """The known defects of a cloud whose hosts run what --release says.

    A release that all this is not tested with is told on the error output, as
    upgrade check tells it.

    :raises errors.InputError: for a release that there is not
    """
    shipped = register.shipped()
    usual = (shipped.version(parsed_args.release, '--release')
             if parsed_args.release else None)
    if usual is not None and not usual.is_tested:
        print(f'warning: --release: {usual.doubt}', file=sys.stderr)
    return known_hits.KnownDefects(usual, shipped)
