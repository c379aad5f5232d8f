# SPDX-License-Identifier: Apache-2.0
"""What is said of L3 caches, wherever it is said, is what a count finds."""

import dataclasses
import functools
import io
import math

import rich.console

from nova_pinning.admission import judge
from nova_pinning.admission import resident_guest
from nova_pinning.bridge.offline import flavor_request
from nova_pinning.capacity import capacity
from nova_pinning.cli import capacity_command
from nova_pinning.explain import explanation
from nova_pinning.explain import flavor_alternatives
from nova_pinning.exporter import fleet_tally
from nova_pinning.exporter import host_facts
from nova_pinning.fleet import generate
from nova_pinning.fleet import occupied
from nova_pinning.fleet import problems
from nova_pinning.fleet import snapshot
from nova_pinning.fleet import summary
from nova_pinning import model
from nova_pinning.placement import placement_traits
from nova_pinning.presentation import capacity_report
from nova_pinning.presentation import explanation_report
from nova_pinning.simulation import guests
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit.presentation.fleet_page import page_cases
from nova_pinning.tests.unit.simulation import simulation_scenes
from nova_pinning.tests.unit import unit_base

_L3_CPUS = 16


@functools.cache
def _fleet():
    """Nodes with two caches, but for one host of which nothing is known."""
    fleet = generate.generate_fleet(
        4, 'epyc-nps4', 1, shared=0.25, filled=0.8)
    first, *others = fleet.hosts
    return dataclasses.replace(fleet, hosts=(
        dataclasses.replace(first, l3_domains=(), traits=frozenset(
            [placement_traits.DEDICATED])), *others))


def _caches(host, guest, fit):
    """How many caches a guest has, and how many it needs; None if unknown."""
    if (not host.l3_domains or guest is None or not guest.is_pinned
            or isinstance(fit, model.Refusal)):
        return None
    cpus = {cpu for cell in fit.cells for _vcpu, cpu in cell.pins}
    return (sum(not cpus.isdisjoint(cache) for cache in host.l3_domains),
            sum(math.ceil(len(cell.dedicated_vcpus) / _L3_CPUS)
                for cell in guest.cells))


@functools.cache
def _residents():
    """The caches of each guest, by its UUID."""
    hosts = {host.name: host for host in _fleet().hosts}
    found = {guest.uuid: _caches(hosts[guest.host], guest.topology, guest.fit)
             for guest in _fleet().guests}
    return {uuid: caches for uuid, caches in found.items() if caches}


@functools.cache
def _requests():
    with flavor_request.batch():
        return [explain_cases.read(flavor) for flavor in _fleet().flavors]


def _sums(found):
    """Guests, caches, the fewest, and how many guests are on the fewest."""
    known = list(filter(None, found))
    return (len(known), sum(caches for caches, _fewest in known),
            sum(fewest for _caches, fewest in known),
            sum(caches == fewest for caches, fewest in known))


class TestGuests(unit_base.TestCase):
    """Those that are there."""

    def test_summary(self):
        found = summary.summarise(_fleet())
        known, caches, fewest, on_fewest = _sums(_residents().values())
        self.assertGreater(caches, fewest)
        self.assertEqual((known, caches, fewest, on_fewest), found.caches)
        told = summary.as_dict(_fleet(), found)
        self.assertEqual(
            [caches / known, fewest / known, on_fewest / known],
            [told[key] for key in (
                'l3_caches', 'fewest_l3_caches', 'in_fewest_l3')])

    def test_findings(self):
        found = [one for one in problems.find(_fleet())
                 if one.code == 'F305']
        named = [uuid for one in found for uuid in one.details['guests']]
        self.assertEqual(
            {uuid: caches for uuid, caches in _residents().items()
             if caches[0] > caches[1]},
            {uuid: _residents()[uuid] for uuid in named})
        for one in found:
            known, caches, fewest, _on_fewest = _sums(
                _residents()[uuid] for uuid in one.details['guests'])
            self.assertIn(f'{known} guests on {caches} L3 caches where '
                          f'{fewest} would do: ', one.message)

    def test_exporter(self):
        tally = fleet_tally.FleetTally(_requests())
        tally.update(_fleet())
        _known, caches, fewest, _on_fewest = _sums(_residents().values())
        self.assertEqual((caches, fewest), (
            tally.facts[host_facts.FleetFact.CACHES, 'dedicated'],
            tally.facts[host_facts.FleetFact.FEWEST_CACHES, 'dedicated']))

    def test_page(self):
        document = page_cases.document(_fleet())
        self.assertEqual(_residents(), {
            guest[6]: tuple(guest[8:]) for host in document['hosts']
            for guest in host['guests'] if guest[8:]})
        sizes = capacity.measure(_fleet(), _requests()).sizes()
        self.assertEqual(
            {size.request.name: size.caches.text for size in sizes},
            {document['flavors'][row['at']]['name']: row['caches']
             for row in document['sales']['all']['flavors']})


class TestNextGuests(unit_base.TestCase):
    """Those that would come."""

    def setUp(self):
        super().setUp()
        admission = judge.AdmissionJudge(occupied.rules_of(_fleet()))
        self.expected = {
            (host.host.name, request.name): _caches(
                host.host, request.topology,
                admission.verdicts(request, host).fit)
            for host in occupied.of_fleet(_fleet()).values()
            for request in _requests()
            if not admission.verdicts(request, host).refusals}

    def test_capacity(self):
        measured = capacity.measure(_fleet(), _requests())
        self.assertEqual(
            {key: caches for key, caches in self.expected.items() if caches},
            {(host.host.name, request.name): found
             for host in measured.hosts for request, found
             in zip(measured.requests, host.caches) if found})
        for size, told in zip(measured.sizes(), capacity_report.as_dict(
                measured)['flavors']):
            known, caches, fewest, on_fewest = _sums(
                caches for (_host, flavor), caches in self.expected.items()
                if flavor == size.request.name)
            self.assertEqual(
                (known, caches, fewest, on_fewest), size.caches)
            self.assertEqual(caches / known if known else None,
                             told['l3_caches'])

    def test_like_hosts(self):
        """As much is free on both, and not under the same caches."""
        wanted = guests.plain(4, 16)
        host = simulation_scenes.host(
            'one', cells=1, cores=8, threads=1, l3_cores=4)
        hosts, residents = [], []
        for name, cpus in ('one', (0, 1, 2, 3)), ('two', (0, 1, 4, 5)):
            hosts.append(dataclasses.replace(host, name=name))
            residents.append(resident_guest.ResidentGuest(
                uuid=name, host=name, vcpus=4, memory_mib=16,
                guest_class=wanted.guest_class, topology=wanted.topology,
                fit=model.Fit((model.CellFit(
                    0, tuple(enumerate(cpus))),))))
        one, two = capacity.measure(snapshot.Fleet(
            hosts=tuple(hosts), guests=tuple(residents)), [wanted]).hosts
        self.assertEqual(one.counts, two.counts)
        self.assertEqual(((1, 1), (2, 1)), (*one.caches, *two.caches))

    def test_table(self):
        console = rich.console.Console(file=io.StringIO(), width=80)
        measured = capacity.measure(_fleet(), _requests())
        capacity_command.show(measured, console)
        shown = console.file.getvalue()
        self.assertIn('(fewest)', shown)
        for size in measured.sizes():
            self.assertIn(size.caches.text, shown)
        self.assertLessEqual(max(map(len, shown.splitlines())), 80)

    def test_explain(self):
        for request, flavor in zip(_requests(), _fleet().flavors):
            with flavor_request.batch():
                explained = explanation.explain_guest(
                    _fleet(), explanation.judge_of(_fleet()),
                    flavor_alternatives.OrderedFlavor(flavor, {}),
                    explain_cases.read)
            told = explanation_report.as_dict(explained)
            for host in told['hosts']:
                self.assertEqual(
                    self.expected.get((host['name'], request.name))
                    or (None, None),
                    (host['l3_caches'], host['fewest_l3_caches']))
            console = rich.console.Console(file=io.StringIO(), width=80)
            explanation_report.show(explained, console, lists_hosts=True)
            for host in explained.verdicts:
                if host.caches and host.caches.caches > host.caches.fewest:
                    self.assertIn(
                        f'on {host.caches.caches} L3 caches where '
                        f'{host.caches.fewest} would do',
                        ' '.join(console.file.getvalue().split()))
