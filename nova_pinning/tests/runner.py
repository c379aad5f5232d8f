# SPDX-License-Identifier: Apache-2.0
"""What the processes that stestr starts have in common."""

import functools
import gc
import os
import re

from oslo_versionedobjects import base
from requests import sessions

from nova_pinning.tests import process_caches


@functools.cache
def prepare():
    """Make this process one for tests, for the rest of it.

    Functional tests take samples from unit tests, which ask for it as well.
    """
    # To look through all of nova for garbage each time that a test makes
    # some takes a tenth of all the time.
    gc.set_threshold(50_000, 20, 20)
    # Nova asks each of the patterns of its extra specs for each key, in turn.
    # They are more than Python remembers, so it would compile all of them
    # each time, which is a sixth of what tests of flavors do.
    re._MAXCACHE = 10_000
    # oslotest would have everything written that anybody logs, down to what is
    # for debugging, where nobody sees it. OS_DEBUG=1 still brings it.
    os.environ.setdefault('OS_DEBUG', 'WARNING')
    # Proxies and passwords of this machine are nobody's business here, and
    # are looked for in the environment and at home with each request.
    sessions.Session.trust_env = property(
        lambda session: False, lambda session, value: None)
    process_caches.install()
    # Threads of nova-compute share an Instance: one may change it while
    # another goes through what has changed, and then nova gives the host up.
    # Whoever runs nova finds that seldom, tests beside others now and then.
    base.VersionedObject.obj_what_changed = _until_nobody_interferes(
        base.VersionedObject.obj_what_changed)


def _until_nobody_interferes(look):
    @functools.wraps(look)
    def look_again(changing):
        while True:
            try:
                return look(changing)
            except RuntimeError as error:
                if 'changed size during iteration' not in str(error):
                    raise

    return look_again


def freeze(test):
    """Spare a test that has all garbage collected the rest of the process."""
    gc.freeze()
    test.addCleanup(gc.unfreeze)
