# SPDX-License-Identifier: Apache-2.0
"""Files that nobody can read: to root, whom tests may run as, a mode is none.
"""

import builtins
import os

import fixtures


def files(is_meant, error=PermissionError(13, 'Permission denied')):
    """A fixture in which opening some files fails.

    :param is_meant: called with each path that is opened
    """
    real = builtins.open

    def opened(file, *arguments, **options):
        if not isinstance(file, int) and is_meant(os.fspath(file)):
            raise error
        return real(file, *arguments, **options)

    return fixtures.MockPatch('builtins.open', opened)
