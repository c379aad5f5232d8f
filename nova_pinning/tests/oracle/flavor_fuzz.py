# SPDX-License-Identifier: Apache-2.0
"""Hold what the check of flavors calls clean against nova and Placement.

A flavor without an error, on a host that it was checked against, must be
accepted by nova's constraints, its queries by Placement's parser, and nova's
own claim on the empty host has to succeed. Where the check says that no host
takes a flavor, one of them must refuse it. Exit status: 0 if that is so in
every case, 1 if not, 2 for a usage error.
"""

import argparse
import collections
from collections.abc import Iterator
import contextlib
import dataclasses
import functools
import json
import multiprocessing
import sys
import time
from unittest import mock

import jsonschema

from nova_pinning.bridge.offline import standalone

standalone.prepare()

from nova import exception  # noqa: E402
from nova import objects  # noqa: E402
from nova.virt import hardware  # noqa: E402

from nova_pinning.bridge.offline import nova_judgement  # noqa: E402
from nova_pinning.bridge.offline import nova_options  # noqa: E402
from nova_pinning.bridge.offline import order  # noqa: E402
from nova_pinning.bridge.offline import placement_queries  # noqa: E402
from nova_pinning.bridge.preview import devices  # noqa: E402
from nova_pinning.bridge.preview import guest  # noqa: E402
from nova_pinning.bridge.preview import machine  # noqa: E402
from nova_pinning.bridge.preview import placement_parser  # noqa: E402
from nova_pinning.bridge.preview import settings  # noqa: E402
from nova_pinning import errors  # noqa: E402
from nova_pinning.flavors import catalogue  # noqa: E402
from nova_pinning.flavors.checks import flavor_check_run  # noqa: E402
from nova_pinning.flavors import flavor_model  # noqa: E402
from nova_pinning.tests.oracle import flavor_cases  # noqa: E402

#: Rules that say that no host takes a flavor.
_NO_HOST = {'P102', 'P111', 'P201', 'P206', 'P601', 'P603'}
#: Where no image is given, the check knows of none that would not do.
_ANY_IMAGE = {'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35',
              'hw_firmware_stateless': 'true', 'hw_video_model': 'none'}
#: Many guests ask for the same, and its reading takes long.
_unread = functools.cache(placement_parser.refusal)
_CHUNK = 4 * flavor_cases.PER_HOST
_KEPT = 20


class EmptyHost:
    """A host without guests, as nova-compute starts it."""

    def __init__(self, case: flavor_cases.Case) -> None:
        self.description = flavor_cases.host(case)
        driver = machine.DescribedDriver(self.description)
        self.topology = driver.host_topology()
        self.tracker = devices.DeviceTracker(self.description, self.topology)
        told = self.description.nova
        cpus = self.description.cpus
        dedicated, shared = told.dedicated_cpus, told.shared_cpus
        if dedicated is None and shared is None:
            shared = cpus
        memory = sum(node.memory_mib for node in self.description.nodes)
        #: (most for one guest, room for all) by resource class.
        self.inventories = {
            'VCPU': (len(shared or ()),
                     len(shared or ()) * told.cpu_allocation_ratio),
            'PCPU': (len(dedicated or ()), len(dedicated or ())),
            'MEMORY_MB': (memory, (memory - told.reserved_memory_mib)
                          * told.ram_allocation_ratio)}
        self.traits = set(self.description.traits)
        self.has_threads = any(
            len(core) > 1 for node in self.description.nodes
            for core in node.cores)

    def refusal(self, request: order.ApiRequest) -> str:
        """Why Placement or the claim refuses a guest, '' if they do not."""
        refused = []
        for query in placement_queries.queries(request):
            if query is None:
                continue
            unread = _unread(query.querystring)
            if unread:
                return f'Placement refuses the query: {unread}'
            lack = self._lack(query)
            if not lack:
                refused = []
                break
            refused.append(lack)
        if refused:
            return f'Placement does not offer the host: {refused[0]}'
        return self._claim(request)

    def _lack(self, query: placement_queries.SchedulerQuery) -> str:
        for name, amount in query.resources.items():
            most, room = self.inventories.get(name, (amount, amount))
            if amount > most or amount > room:
                return f'{name} {amount}'
        # Who has what the host is not told to have may have the trait, too:
        # Placement looks at all providers that a group comes from.
        elsewhere = {
            trait for group in query.asked.groups for trait in group.required
            if any(name not in self.inventories and name != 'DISK_GB'
                   for name, _amount in group.resources)}
        for trait in query.required:
            if trait == 'HW_CPU_HYPERTHREADING':
                if not self.has_threads:
                    return trait
            # A host that is told no trait at all may have any.
            elif (trait.startswith('CUSTOM_') and self.traits
                    and trait not in self.traits | elsewhere):
                return trait
        for trait in query.forbidden:
            if trait in self.traits or (
                    self.has_threads and trait == 'HW_CPU_HYPERTHREADING'):
                return f'!{trait}'
        return ''

    def _claim(self, request: order.ApiRequest) -> str:
        """See nova.compute.claims.Claim._test and _test_pci."""
        asked = request.pci_requests.requests
        if request.topology is None:
            return '' if not asked or self.tracker.stats.support_requests(
                asked, None) else 'the claim finds no devices'
        if self.topology is None:
            return 'the host has no topology'
        told = self.description.nova
        placed = hardware.numa_fit_instance_to_host(
            self.topology, request.topology, None,
            limits=objects.NUMATopologyLimits(
                cpu_allocation_ratio=told.cpu_allocation_ratio,
                ram_allocation_ratio=told.ram_allocation_ratio),
            pci_requests=asked, pci_stats=self.tracker.stats)
        if placed is None:
            return 'the claim finds no cells'
        try:
            hardware.numa_usage_from_instance_numa(self.topology, placed)
        except exception.NovaException as error:
            return f'the claim fails: {error.format_message()}'
        return ''


@dataclasses.dataclass(slots=True)
class FuzzTally:
    """What a number of cases showed."""

    cases: int = 0
    counts: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter)
    differences: dict[int, str] = dataclasses.field(default_factory=dict)

    def add(self, other: 'FuzzTally') -> None:
        self.cases += other.cases
        self.counts.update(other.counts)
        self.differences |= other.differences


def flavor(case: flavor_cases.Case) -> flavor_model.Flavor:
    """The flavor of a case, by way of a catalogue.

    :raises errors.InputError: if the language refuses it
    """
    sold = catalogue.parse(json.dumps({
        'version': 2, 'name': 'fuzz', 'numa_cell': case['numa_cell'],
        'families': {'f': case['family']}}), 'fuzz')
    return sold.flavors[0]


def judge(case: flavor_cases.Case, empty: EmptyHost) -> tuple[str, str]:
    """How a case is counted, and what differs, '' if nothing does."""
    try:
        wanted = flavor(case)
    except errors.InputError:
        return 'refused by the language', ''
    found = flavor_check_run.check(
        [wanted], nova_judgement.judging, [empty.description], case['image'],
        {'nvme'})
    codes = {one.code for one in found if one.severity == 'error'}
    image = _ANY_IMAGE if case['image'] is None else case['image']
    try:
        refused = empty.refusal(order.from_flavor(wanted, image))
    except errors.InputError as error:
        refused = f'nova refuses it: {error}'
    if not codes:
        if refused:
            return 'clean', f'nothing is found, but {refused}'
        return ('clean' if not found else 'clean but for warnings'), ''
    if codes <= _NO_HOST and not refused:
        return 'refused', (
            f'{", ".join(sorted(codes))}, but nova takes it: '
            + '; '.join(one.message for one in found if one.code in codes))
    return 'refused by the check', ''


@contextlib.contextmanager
def started(case: flavor_cases.Case) -> Iterator[EmptyHost]:
    """The host of a case, with its options in force."""
    guest.prepare()
    # Nova and Placement have their schemas checked whenever they use one,
    # which would take half of the time.
    with nova_options.applied(settings.options(
            flavor_cases.host(case), {'nvme'})), mock.patch.object(
                jsonschema.Draft202012Validator, 'check_schema'):
        yield EmptyHost(case)


def run_chunk(task: tuple[int, range]) -> FuzzTally:
    """Judge some cases."""
    seed, numbers = task
    tally = FuzzTally()
    for first in range(numbers.start, numbers.stop, flavor_cases.PER_HOST):
        with started(flavor_cases.generate(seed, first)) as empty:
            for number in range(first, min(first + flavor_cases.PER_HOST,
                                           numbers.stop)):
                what, difference = judge(
                    flavor_cases.generate(seed, number), empty)
                tally.cases += 1
                tally.counts[what] += 1
                if difference:
                    tally.counts['differences'] += 1
                    if len(tally.differences) < _KEPT:
                        tally.differences[number] = difference
    return tally


def run(cases: int, seed: int, jobs: int) -> FuzzTally:
    """Judge as many cases, in so many processes."""
    tasks = [(seed, range(first, min(first + _CHUNK, cases)))
             for first in range(0, cases, _CHUNK)]
    total = FuzzTally()
    with multiprocessing.get_context('fork').Pool(jobs) as pool:
        for tally in pool.imap_unordered(run_chunk, tasks):
            total.add(tally)
    return total


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    :returns: the exit status
    """
    parser = argparse.ArgumentParser(
        prog='python -m nova_pinning.tests.oracle.flavor_fuzz',
        description='Hold the check of flavors against nova and Placement.')
    parser.add_argument('--cases', type=int, default=2000)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--jobs', type=int, default=2)
    parser.add_argument('--case', type=int, metavar='K',
                        help='judge case K only, and print it')
    parsed = parser.parse_args(argv)
    if parsed.case is not None:
        case = flavor_cases.generate(parsed.seed, parsed.case)
        print(json.dumps(case, indent=2))
        with started(case) as empty:
            what, difference = judge(case, empty)
        print(what, difference, sep='\n')
        return int(bool(difference))
    begun = time.monotonic()
    total = run(parsed.cases, parsed.seed, parsed.jobs)
    for number, difference in sorted(total.differences.items())[:_KEPT]:
        print(f'case {number}: {difference}')
    for what, count in sorted(total.counts.items()):
        print(f'{count:8,} {what}')
    different = total.counts['differences']
    print(f'{total.cases:,} cases of seed {parsed.seed} in '
          f'{time.monotonic() - begun:.0f} s: {different:,} differences')
    return int(bool(different))


if __name__ == '__main__':
    sys.exit(main())
