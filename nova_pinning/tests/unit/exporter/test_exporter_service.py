# SPDX-License-Identifier: Apache-2.0

import dataclasses
import gc

from nova_pinning.exporter import exporter_service
from nova_pinning.fleet import document
from nova_pinning.tests.unit.exporter import test_fleet_tally
from nova_pinning.tests.unit.exporter import test_fleet_watch
from nova_pinning.tests.unit.exporter import test_planned_figures
from nova_pinning.tests.unit import unit_base


class ServiceTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.addCleanup(gc.unfreeze)
        self.source = test_fleet_watch.Source(test_fleet_tally.make_fleet(2))

    def service(self, make_page=None, **values):
        return exporter_service.ExporterService(
            test_planned_figures.settings_of(self, **values), self.source,
            make_page)

    def test_before_the_fleet_is_known(self):
        pages = self.service(lambda fleet: 'page').pages()
        self.assertIsNone(pages['/']())
        self.assertIsNone(pages['/fleet.json.zst']())
        self.assertIn(b'nova_pinning_exporter_', pages['/metrics']().content)

    def test_snapshot(self):
        service = self.service()
        service.watch.refresh()
        content = service.pages()['/fleet.json.zst']().content
        path = self.create_tempfiles([('fleet', '')], '.json.zst')[0]
        with open(path, 'wb') as file:
            file.write(content)
        self.assertEqual(self.source.fleet, document.read(path))

    def test_snapshot_is_not_served(self):
        pages = self.service(serve_snapshot=False).pages()
        self.assertEqual({'/', '/metrics'}, set(pages))

    def test_page(self):
        made = []

        def make_page(fleet):
            # Nova's code is asked by one thread at a time.
            self.assertTrue(service.watch.nova_lock.locked())
            made.append(fleet)
            return '<p>page</p>'

        service = self.service(make_page)
        service.watch.refresh()
        for _time in range(2):
            page = service.pages()['/']()
        self.assertEqual(b'<p>page</p>', page.content)
        # It has its own, which a second one would only narrow.
        self.assertEqual('', page.policy)
        self.assertEqual([self.source.fleet], made)
        self.assertFalse(service.watch.nova_lock.locked())

    def test_page_is_kept_for_a_while(self):
        now = 0.0
        made = exporter_service._Made(
            lambda fleet: len(fleet.hosts), 60, lambda: now)
        first = self.source.fleet
        second = dataclasses.replace(first, hosts=first.hosts[:1])
        self.assertIsNone(made.of(None))
        self.assertEqual(2, made.of(first))
        now = 59.0
        self.assertEqual(2, made.of(second))
        now = 60.0
        self.assertEqual(1, made.of(second))
