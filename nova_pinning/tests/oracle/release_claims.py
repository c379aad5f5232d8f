# SPDX-License-Identifier: Apache-2.0
"""Compare the claims of several releases of nova, each by its own code.

Random hosts and guests go to a process of each release
(:mod:`~nova_pinning.tests.oracle.release_child`), which says what its
nova-compute claims and what its NUMATopologyFilter finds. Counted are the
cases in which releases differ, and those in which the engine, told how the
release orders the cells, predicts another claim.

``NOVA_PINNING_RELEASE_PYTHONS`` names the interpreters::

    NOVA_PINNING_RELEASE_PYTHONS="2025.1=/opt/a/bin/python,2026.1=..."

The nova that runs this is one of the releases in any case.
"""

from __future__ import annotations

import argparse
import collections
from importlib import metadata
import itertools
import json
import os
import subprocess
import sys
import typing as ty

from nova import conf
from nova import objects

from nova_pinning.bridge import claim
from nova_pinning.bridge import pci
from nova_pinning.bridge import topology
from nova_pinning import fit
from nova_pinning import model
from nova_pinning.model import cell_order
from nova_pinning.model import nova_release
from nova_pinning.tests.oracle import claims
from nova_pinning.tests.oracle import fleet_oracle
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import release_child

CONF = conf.CONF
VARIABLE = 'NOVA_PINNING_RELEASE_PYTHONS'
_Json = dict[str, ty.Any]


def release_pythons() -> dict[str, str]:
    """The interpreters of other releases, by name; what is set.

    :raises ValueError: if the variable does not say what it should
    """
    pythons = {}
    for part in filter(None, os.environ.get(VARIABLE, '').split(',')):
        name, equals, path = part.strip().partition('=')
        if not equals or not os.access(path, os.X_OK):
            raise ValueError(
                f'{VARIABLE} has {part.strip()!r}, which is not '
                'RELEASE=PYTHON with a Python that can be run')
        pythons[nova_release.of_name(name).name] = path
    return pythons


class Release:
    """A process that answers for a release.

    :ivar service_version: that its nova-compute reports
    """

    def __init__(self, name: str, python: str) -> None:
        self.name = name
        # Nothing of this project may be found there by accident, nor what
        # this Python has installed; and names of networks come in one order.
        environment = {key: value for key, value in os.environ.items()
                       if key not in ('PYTHONPATH', 'PYTHONHOME')}
        environment['PYTHONHASHSEED'] = '0'
        self._process = subprocess.Popen(
            [python, '-W', 'ignore', release_child.__file__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=environment)
        self.service_version: int = self.answer()['service_version']

    def ask(self, case: _Json) -> None:
        """Have it look at a case."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(case) + '\n')
        self._process.stdin.flush()

    def answer(self) -> ty.Any:
        """What it says to the case that it was asked about.

        :raises RuntimeError: if the process has ended
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f'nova {self.name} has ended with status '
                               f'{self._process.wait()}')
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def installed_release() -> nova_release.NovaRelease:
    """The release of the nova that runs this."""
    release = nova_release.of_nova_version(metadata.version('nova'))
    return release or nova_release.NEWEST


def as_json(case: oracle_case.Case) -> _Json:
    """A case as the processes take it."""
    requests, stats = claims.pci(case)
    guest, limits = case.guest(), case.limits()
    return {
        'host': case.host_json,
        'guest': guest.obj_to_primitive(),
        'limits': limits and limits.obj_to_primitive(),
        'requests': [request.obj_to_primitive() for request in requests or ()],
        'pools': stats.pools if stats else [],
        'pack': case.data['pack'],
    }


def predicted(case: oracle_case.Case,
              order: model.CellOrder) -> fit.Decision | model.Refusal:
    """What the engine says of the case on a host that orders cells so."""
    limits = case.limits()
    host_topology = objects.NUMATopology.obj_from_db_obj(case.host_json)
    network = (limits.network_metadata
               if limits and 'network_metadata' in limits else None)
    guest = topology.guest_from_nova(case.guest(), network)
    requests, stats = claims.pci(case)
    check = None
    if stats is not None:
        check = pci.NovaPciCheck(stats, requests, None)
    ratios = ()
    if limits:
        ratios = limits.cpu_allocation_ratio, limits.ram_allocation_ratio
    host = topology.host_from_nova(host_topology, *ratios)
    nova_guest = claim.NovaGuest(guest, limits)
    return fit.decide(
        host._replace(claim_order=order), guest, pack=case.data['pack'],
        pci=check, bounds=fit.ClaimBounds(
            is_retried=False,
            ask_nova=lambda attempt, choice, bounds: claim.predict_claim(
                nova_guest, host_topology, attempt, choice, bounds)))


def is_as_predicted(claimed: ty.Any, case: oracle_case.Case,
                    order: model.CellOrder) -> bool:
    """Whether a claim came out as we said of a host that orders cells so.

    As the claims fuzz has it, in all cases; and as the engine has it in those
    that it does not refuse, since nova claims some that come out wrong.

    :param claimed: as release_child answers
    """
    with case.configured():
        mirrored = claims.claimed(
            case, case.host(), range(len(case.data['guest']['cells'])),
            order is model.CellOrder.FEWEST_DEVICES)
        outcome = predicted(case, order)
    if claimed != release_child.plain(mirrored):
        return False
    return isinstance(outcome, model.Refusal) or claimed == [
        [cell.host_cell, list(map(list, cell.pins)), list(cell.emulator_cpus),
         cell.page_size_kib] for cell in outcome.fit.cells]


class Comparison:
    """Releases, and how often they differ.

    :ivar devices: cases by what they have of PCI devices
    :ivar claims: by pair of names, cases in which the claims differ
    :ivar fits: the same of what NUMATopologyFilter finds
    :ivar written: the same of the JSON into which they put what they read
    :ivar kinds: by pair, what is different about the claims
    :ivar unforeseen: by name, the numbers of cases in which the claim is
        another than the engine predicts
    """

    def __init__(self, pythons: ty.Mapping[str, str]) -> None:
        self._releases = [
            Release(name, python) for name, python in sorted(
                {**pythons, installed_release().name: sys.executable}.items())]
        self.cases = 0
        self.claimed = 0
        self.devices: collections.Counter[str] = collections.Counter()
        self.kinds: collections.Counter[tuple[str, str, str]] = (
            collections.Counter())
        self.claims: collections.Counter[tuple[str, str]] = (
            collections.Counter())
        self.fits: collections.Counter[tuple[str, str]] = (
            collections.Counter())
        self.unforeseen: dict[str, list[int]] = {
            release.name: [] for release in self._releases}
        self.written: collections.Counter[tuple[str, str]] = (
            collections.Counter())

    @property
    def names(self) -> list[str]:
        """The releases, from the oldest to the newest."""
        return [release.name for release in self._releases]

    def add(self, number: int, case: oracle_case.Case) -> None:
        """Look at one more case."""
        sent = as_json(case)
        for release in self._releases:
            release.ask(sent)
        answers = {release.name: release.answer()
                   for release in self._releases}
        self.cases += 1
        self.devices[_devices(case)] += 1
        self.claimed += any(
            isinstance(answer['claim'], list) for answer in answers.values())
        for release in self._releases:
            if not is_as_predicted(
                    answers[release.name]['claim'], case,
                    cell_order.of_service_version(release.service_version)):
                self.unforeseen[release.name].append(number)
        for one, other in itertools.combinations(answers, 2):
            self.fits[one, other] += (
                answers[one]['scheduler'] != answers[other]['scheduler'])
            self.written[one, other] += any(
                answers[one][key] != answers[other][key]
                for key in ('host', 'guest'))
            kind = _difference(answers[one]['claim'], answers[other]['claim'])
            if kind:
                self.claims[one, other] += 1
                self.kinds[one, other, f'{kind}; {_devices(case)}'] += 1

    def close(self) -> None:
        """End the processes."""
        for release in self._releases:
            release.close()

    def report(self) -> _Json:
        """What was seen, for JSON."""
        return {
            'cases': self.cases, 'claimed': self.claimed,
            'cases_by_devices': self.devices,
            'releases': self.names,
            'pairs': [
                {'releases': [one, other],
                 'claims_differ': self.claims[one, other],
                 'scheduler_fits_differ': self.fits[one, other],
                 'topologies_written_otherwise': self.written[one, other],
                 'how': {kind[2]: count for kind, count
                         in sorted(self.kinds.items())
                         if kind[:2] == (one, other)}}
                for one, other in itertools.combinations(self.names, 2)],
            'unforeseen': self.unforeseen,
        }


def _difference(one: ty.Any, other: ty.Any) -> str:
    """In what way two claims differ, '' if they do not."""
    if one == other:
        return ''
    if not isinstance(one, list):
        return 'only the newer one succeeds'
    if not isinstance(other, list):
        return 'only the older one succeeds'
    if [cell[0] for cell in one] != [cell[0] for cell in other]:
        return 'other host cells'
    return 'other CPUs or pages of the same host cells'


def _devices(case: oracle_case.Case) -> str:
    """What the case has of PCI devices."""
    pci_data = case.data['pci']
    if not pci_data:
        return 'no devices'
    return ('devices asked for' if pci_data['requests']
            else 'devices, of which none is asked for')


def cases(seed: int, count: int) -> ty.Iterator[
        tuple[int, oracle_case.Case]]:
    """The first host of each case of the series, with its number."""
    for number in range(count):
        yield number, fleet_oracle.hosts(fleet_oracle.fleet(seed, number))[0]


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    :returns: the exit status
    """
    parser = argparse.ArgumentParser(
        description="Compare the claims of releases of nova over random hosts "
                    f'and guests. {VARIABLE} names the Pythons that have '
                    'them: 2025.1=PATH,2026.1=PATH')
    parser.add_argument('--cases', type=int, default=2000,
                        help='how many cases to run (%(default)s)')
    parser.add_argument('--seed', type=int, default=1,
                        help='which series of cases (%(default)s)')
    args = parser.parse_args(argv)
    try:
        pythons = release_pythons()
    except ValueError as error:
        print(f'error: {error}', file=sys.stderr)
        return 2
    oracle_case.setup()
    comparison = Comparison(pythons)
    try:
        for number, case in cases(args.seed, args.cases):
            if not case.data['odd']:
                comparison.add(number, case)
    finally:
        comparison.close()
    print(json.dumps(comparison.report(), indent=2))
    return int(any(comparison.unforeseen.values()))


if __name__ == '__main__':
    sys.exit(main())
