# SPDX-License-Identifier: Apache-2.0
"""Files that nobody can read: to root, whom tests may run as, a mode is none.
"""

import functools
import os

import fixtures


def files(is_meant, error=PermissionError(13, 'Permission denied')):
    """A fixture in which opening some files fails.

    :param is_meant: called with each path that is opened
    """
    def refusing(real, file, *arguments, **options):
        if not isinstance(file, int) and is_meant(os.fspath(file)):
            raise error
        return real(file, *arguments, **options)

    class Refused(fixtures.Fixture):
        def _setUp(self):
            for name, real in (('builtins.open', open), ('os.open', os.open)):
                self.useFixture(fixtures.MockPatch(
                    name, functools.partial(refusing, real)))

    return Refused()
