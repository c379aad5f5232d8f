# SPDX-License-Identifier: Apache-2.0
"""A host as its /sys and /proc describe it.

Nothing is run, and nothing is read but files: what tools print for people
changes, and the files of another machine are as good as those of this one.
"""

from nova_pinning.host.discover.run import discover_host

__all__ = ['discover_host']
