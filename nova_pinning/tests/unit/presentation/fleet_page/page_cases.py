# SPDX-License-Identifier: Apache-2.0
"""Fleets of which pages are made, and what is in a page."""

import dataclasses
import html.parser
import json

from nova_pinning.bridge.offline import flavor_request
from nova_pinning.capacity import capacity
from nova_pinning.fleet import generate
from nova_pinning.fleet import problems
from nova_pinning.presentation.fleet_page import page
from nova_pinning.presentation.fleet_page import page_data
from nova_pinning.tests.unit.explain import explain_cases

#: What a guest could be called by somebody who means ill.
HOSTILE = (
    '</script><script>document.title="owned"</script>',
    '<img src=x onerror=alert(1)>', '"\'><svg/onload=alert(1)>',
    '<!--<script>', 'javascript:alert(1)', '\u202etxt.exe\u2066',
    '\x00\x1b[31m\u2028\u2029', 'Zürich 東京 🚀')


def fleet(hosts=12, shape='two-socket-80', **values):
    """A fleet that is nearly full."""
    return generate.generate_fleet(hosts, shape, **{
        'seed': 5, 'filled': 0.9, 'shared': 0.25, 'churn': 1.0} | values)


def hostile(fleet):
    """The same with everything called something bad."""
    names = iter(HOSTILE * len(fleet.hosts))
    hosts = {host.name: f'{next(names)} {host.name}' for host in fleet.hosts}
    return dataclasses.replace(
        fleet, source=HOSTILE[0], taken_at=HOSTILE[1],
        flavors=tuple(
            dataclasses.replace(flavor, name=f'{flavor.name} {name}')
            for flavor, name in zip(fleet.flavors, HOSTILE)),
        hosts=tuple(dataclasses.replace(
            host, name=hosts[host.name], aggregates=(HOSTILE[0],),
            is_enabled=bool(number), disabled_reason=HOSTILE[0])
            for number, host in enumerate(fleet.hosts)),
        aggregates=(dataclasses.replace(
            fleet.aggregates[0], name=HOSTILE[0],
            availability_zone=HOSTILE[2]),),
        guests=tuple(dataclasses.replace(
            guest, host=hosts[guest.host], name=HOSTILE[number % len(HOSTILE)],
            flavor=HOSTILE[number % 3])
            for number, guest in enumerate(fleet.guests)))


def page_of(fleet, **values):
    """What a page of a fleet is made of, with all its own flavors."""
    requests = [explain_cases.read(flavor, aliases=fleet.pci_aliases)
                for flavor in fleet.flavors]
    return page_data.FleetPage(**{
        'measured': capacity.measure(fleet, requests),
        'read': explain_cases.read,
        'findings': problems.find(fleet)} | values)


def document(fleet, **values):
    """The document of a fleet's page, as its script reads it."""
    with flavor_request.batch():
        return json.loads(json.dumps(
            page_data.document(page_of(fleet, **values), '1.0')))


def rendered(fleet, **values):
    """A fleet's page."""
    with flavor_request.batch():
        return page.render(
            page_data.document(page_of(fleet, **values), '1.0'))


class PageReader(html.parser.HTMLParser):
    """Reads elements with what is in them, as a browser would."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.texts = {}
        self._is_in = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._is_in = True

    def handle_endtag(self, tag):
        self._is_in = False

    def handle_data(self, data):
        if self._is_in:
            number = len(self.elements) - 1
            self.texts[number] = self.texts.get(number, '') + data

    def of(self, tag):
        """Attributes and texts of all elements of one name."""
        return [(attributes, self.texts.get(number, ''))
                for number, (name, attributes) in enumerate(self.elements)
                if name == tag]
