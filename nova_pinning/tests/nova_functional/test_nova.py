# SPDX-License-Identifier: Apache-2.0
"""Those of nova's functional tests that have to do with our filters.

NOVA_PINNING_FILTERS says whose filter decides: nova (nova's own, which is the
default), ours, or classes, which is ours with HostClassFilter before it.
"""

import importlib.util
import os

from nova_pinning.tests import in_place

#: Below nova.tests.functional. Not every release of nova has all of them.
MODULES = (
    'libvirt.test_live_migration',
    'libvirt.test_numa_live_migration',
    'libvirt.test_numa_servers',
    'libvirt.test_pci_sriov_servers',
    'libvirt.test_power_manage',
    'libvirt.test_rt_servers',
    'libvirt.test_vpmem',
    'regressions.test_bug_1995153',
    'regressions.test_bug_2139351',
    'regressions.test_bug_2140537',
    'regressions.test_bug_2152697',
    'regressions.test_bug_2153425',
)
PACKAGE = 'nova.tests.functional.'


def load_tests(loader, tests, _pattern):
    choice = os.environ.get('NOVA_PINNING_FILTERS', in_place.NOVA)
    in_place.install(choice)
    for module in MODULES:
        if importlib.util.find_spec(PACKAGE + module):
            tests.addTests(loader.loadTestsFromName(PACKAGE + module))
    in_place.enable(tests, choice)
    return tests
