# SPDX-License-Identifier: Apache-2.0
"""Whether random machines are read, planned, rendered and checked rightly.

The files of each are written from what it is, which is what is to be read of
them. A plan must have one use for each CPU, whole cores, and pages that the
machine has and has memory for; the rendered files must say what the plan says;
and the check must find nothing on the machine once these are in force, and all
that is changed. Exit status: 0 if nothing is wrong, 1 if something is, 2 for
a usage error.
"""

import argparse
import collections
from collections.abc import Iterator
import dataclasses
import os
import pathlib
import random
import sys
import tempfile
import time
import traceback

from nova_pinning import cpuset
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.host.check import facts
from nova_pinning.host.check import gathering
from nova_pinning.host.check import host_check_run
from nova_pinning.host import discover
from nova_pinning.host import engine
from nova_pinning.host import host_model
from nova_pinning.host import hostfile
from nova_pinning.host import hostfile_writer
from nova_pinning.host import machine_files
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner
from nova_pinning.host import plan_model
from nova_pinning.host import render
from nova_pinning.host.render import kernel
from nova_pinning.host.render import nova_conf
from nova_pinning.tests.oracle import machine_truth

_Purpose = plan_model.Purpose
_UNITS = {'K': 1, 'M': 1024, 'G': 1024 ** 2}
_KEPT = 20
#: Hundreds of small files are written for each machine.
_MEMORY = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
#: What of a check is looked at: nova.conf, what CPUs have together, pages.
_CODES = ('H10', 'H11', 'H200', 'H201', 'H202', 'H203', 'H50')


@dataclasses.dataclass
class MachineTally:
    """What came of some machines.

    :param refused: of plans, by why
    """

    count: int = 0
    planned: int = 0
    refused: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter)
    wrong: list[str] = dataclasses.field(default_factory=list)


class _MachineCase:
    """One machine, and what is asked of it."""

    def __init__(self, seed: int, number: int, root: pathlib.Path) -> None:
        self._chance = random.Random(f'{seed} {number}')
        self.truth = machine_truth.draw(self._chance)
        self._root = root
        self.refusal = ''

    def problems(self) -> Iterator[str]:
        """What is wrong, a sentence each."""
        machine_truth.MachineWriter(self._root).write(self.truth)
        tree = machine_files.Tree(self._root)
        found = discover.discover_host(tree)
        yield from self._misread(found)
        again = hostfile.read(source.parse(
            hostfile_writer.dump(found), 'host.yaml'))
        if again != found:
            yield 'the host file does not say what was read'
        if len(engine.engine_cells(found)) != len(found.nodes):
            yield 'the engine has other cells'
        request = self._request()
        try:
            planned = planner.plan(found, request)
        except errors.InputError as error:
            self.refusal = ' '.join(
                word for word in error.message.split()
                if not any(map(str.isdigit, word)))
            yield from self._wrongly_refused(error, request)
            return
        yield from self._misplanned(planned, request)
        files = render.files(planned)
        yield from self._misrendered(planned, files)
        yield from self._mischecked(planned, files)

    def _misread(self, found: host_model.HostDescription) -> Iterator[str]:
        host = self.truth.host
        if not self.truth.has_auxv and host.cpu_model.arch == 'ppc64le':
            if not found.description:
                yield 'it is not said that the page size is assumed'
        elif found.description:
            yield f'it is said: {found.description}'
        for name in ('name', 'offline_cpus', 'cpu_model'):
            if getattr(found, name) != getattr(host, name):
                yield f'{name} is {getattr(found, name)}'
        if found.system.page_size_kib != host.system.page_size_kib:
            yield f'smallest pages are of {found.system.page_size_kib} KiB'
        if self.truth.style == 'none':
            node, = host.nodes
            host = dataclasses.replace(host, nodes=(
                dataclasses.replace(node, id=0, distances=()),))
        for node, read in zip(host.nodes, found.nodes, strict=True):
            if node != read:
                yield f'node is {read}, should be {node}'

    def _request(self) -> plan_request.PlanOptions:
        chance, host = self._chance, self.truth.host
        purpose = chance.choice(list(_Purpose))
        count = len(host.cpus)
        sizes = {node for node in host.nodes[0].huge_pages}
        return plan_request.PlanOptions(
            purpose=purpose,
            host_cpus=chance.choice((
                None, None, chance.randint(1, max(1, count // 3)))),
            shared_cpus=None if purpose is _Purpose.SHARED else chance.choice(
                (None, None, chance.randint(1, max(1, count // 3)))),
            sizes=() if purpose is _Purpose.SHARED else chance.choice(
                ((), (plan_model.GuestSize(chance.randint(1, 4), 1, 0),))),
            page_size_kib=chance.choice((None, None, None, 0, 8192,
                                         *sorted(sizes))))

    def _wrongly_refused(
        self, error: errors.InputError, request: plan_request.PlanOptions,
    ) -> Iterator[str]:
        """Only what is asked for too much may be refused."""
        known = {size for node in self.truth.host.nodes
                 for size in node.huge_pages}
        if '--page-size:' in str(error) and (
                not request.page_size_kib or request.page_size_kib in known):
            yield f'a page size that it has is refused: {error}'

    def _misplanned(
        self, planned: host_model.HostDescription,
        request: plan_request.PlanOptions,
    ) -> Iterator[str]:
        plan, nova = planned.plan, planned.nova
        assert plan is not None
        uses = [plan.host_cpus, plan.poll_cpus,
                nova.shared_cpus or cpuset.CpuSet(),
                nova.dedicated_cpus or cpuset.CpuSet()]
        online = self.truth.host.cpus
        if sum(map(len, uses)) != len(online) or cpuset.union(uses) != online:
            yield f'uses are {uses}'
        for core in (core for cores in self.truth.cores.values()
                     for core in cores):
            threads = cpuset.CpuSet(core) & online
            if sum(bool(use & threads) for use in uses) > 1:
                yield f'core {threads} is divided'
        if request.host_cpus and len(plan.host_cpus) < request.host_cpus:
            yield f'the host has {plan.host_cpus}'
        for node, real in zip(planned.nodes, self.truth.host.nodes):
            taken_kib = sum(size * count
                            for size, count in node.huge_pages.items())
            if taken_kib > real.memory_mib * 1024:
                yield f'node {node.id} has not so many pages'
            for size, count in node.huge_pages.items():
                if count and size not in real.huge_pages:
                    yield f'pages of {size} KiB, of which it has none'
                if count and size != plan.page_size_kib:
                    yield f'pages of {size} KiB, which nobody has planned'
        if request.page_size_kib is not None and (
                plan.page_size_kib != request.page_size_kib):
            yield f'pages of {plan.page_size_kib} KiB'
        for size, sale in zip(plan.sizes, plan.offer.sales):
            if size.cells == 1 and sale.alone > sum(
                    len(node.cpus & uses[3]) // size.vcpus
                    for node in planned.nodes if node.memory_mib):
                yield f'{sale.alone} guests of {size.vcpus} vCPUs'

    def _misrendered(self, planned, files) -> Iterator[str]:
        """Where the files do not say what the plan does."""
        words = [line for line in files[kernel.TEXT_PATH].text.splitlines()
                 if line and not line.startswith('#')][0].split()
        flags = dict(word.split('=', 1) for word in words)
        asked = {node.id: sum(node.huge_pages.values())
                 for node in planned.nodes if node.memory_mib}
        pages = flags.get('hugepages', '')
        if ':' in pages:
            told = {int(node): int(count) for node, _colon, count in (
                part.partition(':') for part in pages.split(','))}
            if told != {node: count for node, count in asked.items()
                        if count}:
                yield f'hugepages={pages} for {asked}'
        elif int(pages or 0) != sum(asked.values()):
            yield f'hugepages={pages} for {asked}'
        if pages and planned.plan.page_size_kib != (
                int(flags['hugepagesz'][:-1])
                * _UNITS[flags['hugepagesz'][-1]]):
            yield f'hugepagesz={flags["hugepagesz"]}'
        if cpuset.CpuSet.parse(flags['irqaffinity']) != (
                planned.plan.host_cpus):
            yield f'irqaffinity={flags["irqaffinity"]}'

    def _mischecked(self, planned, files) -> Iterator[str]:
        """Where the check sees what is not so, or does not see what is."""
        from nova_pinning.bridge.offline import nova_conf_reader
        path = self._root / 'nova.conf'
        path.write_text(files[nova_conf.PATH].text)
        conf = nova_conf_reader.load(
            nova_conf_reader.named([('--config-file', str(path))]),
            planned.pci_devices, self._root)
        writer = machine_truth.MachineWriter(self._root)
        for node, real in zip(planned.nodes, self.truth.host.nodes):
            writer.pages(self.truth, dataclasses.replace(
                real, huge_pages=node.huge_pages or dict.fromkeys(
                    real.huge_pages, 0)))
        for message in self._found(planned, conf):
            yield f'the check finds {message}'
        if planned.plan.page_size_kib and any(
                node.huge_pages.get(planned.plan.page_size_kib)
                for node in planned.nodes):
            for real in self.truth.host.nodes:
                writer.pages(self.truth, dataclasses.replace(
                    real, huge_pages=dict.fromkeys(real.huge_pages, 0)))
            if not any('H501' in one for one in self._found(planned, conf)):
                yield 'the check does not find that pages are missing'

    def _found(self, planned, conf) -> list[str]:
        seen = gathering.gather(
            machine_files.Tree(self._root), planned, None, conf)
        return [f'{finding.code}: {finding.message}'
                for finding in host_check_run.findings(
                    facts.CheckedHost(planned, seen))
                if finding.code.startswith(_CODES)]


def run(seed: int, numbers: range) -> MachineTally:
    """Go through some machines."""
    from nova_pinning.bridge.offline import standalone
    standalone.prepare()
    tally = MachineTally()
    for number in numbers:
        with tempfile.TemporaryDirectory(dir=_MEMORY) as root:
            case = _MachineCase(seed, number, pathlib.Path(root))
            try:
                wrong = list(case.problems())
            except Exception:
                wrong = [traceback.format_exc()]
        tally.count += 1
        tally.wrong += [f'case {number}: {problem}' for problem in wrong]
        if case.refusal:
            tally.refused[case.refusal] += 1
        else:
            tally.planned += 1
    return tally


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    :returns: the exit status
    """
    parser = argparse.ArgumentParser(
        prog='python -m nova_pinning.tests.oracle.machine_fuzz',
        description='Read, plan, render and check random machines.')
    parser.add_argument('--cases', type=int, default=10000, metavar='N',
                        help='how many (%(default)s)')
    parser.add_argument('--seed', type=int, default=1, metavar='S',
                        help='which series of cases (%(default)s)')
    parser.add_argument('--case', type=int, metavar='K',
                        help='case K only')
    parsed = parser.parse_args(argv)
    if parsed.cases < 1:
        parser.error('--cases must be at least 1')
    numbers = range(parsed.cases)
    if parsed.case is not None:
        numbers = range(parsed.case, parsed.case + 1)
    begun = time.process_time()
    tally = run(parsed.seed, numbers)
    for problem in tally.wrong[:_KEPT]:
        print(problem)
    for reason, count in tally.refused.most_common():
        print(f'{count:8,} refused: {reason}')
    print(f'{tally.count:,} machines of seed {parsed.seed} in '
          f'{time.process_time() - begun:.0f} s of CPU: '
          f'{tally.planned:,} planned, {tally.refused.total():,} refused, '
          f'{len(tally.wrong):,} wrong')
    return int(bool(tally.wrong))


if __name__ == '__main__':
    sys.exit(main())
