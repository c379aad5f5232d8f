# SPDX-License-Identifier: Apache-2.0

import dataclasses

from nova_pinning import errors
from nova_pinning.exporter import exporter_service
from nova_pinning.fleet import document
from nova_pinning.tests import runner
from nova_pinning.tests.unit.exporter import test_fleet_tally
from nova_pinning.tests.unit.exporter import test_fleet_watch
from nova_pinning.tests.unit.exporter import test_planned_figures
from nova_pinning.tests.unit import unit_base


class ServiceTestCase(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        runner.freeze(self)
        test_planned_figures.at_usual_priority(self)
        self.source = test_fleet_watch.Source(test_fleet_tally.make_fleet(2))

    def service(self, **values):
        return exporter_service.ExporterService(
            test_planned_figures.settings_of(self, **values), self.source)

    def test_before_the_fleet_is_known(self):
        pages = self.service().pages()
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
        """As the command makes it, and kept while it is young.

        Where there is none it is told, and tried again the next time.
        """
        fleet = self.source.fleet
        service = self.service()
        self.source.fleet = dataclasses.replace(fleet, hosts=(), guests=())
        service.watch.refresh()
        error = self.assertRaises(errors.InputError, service.pages()['/'])
        self.assertIn('has no hosts', str(error))
        self.source.fleet = fleet
        service.watch.refresh()
        page = service.pages()['/']()
        self.assertIn(self.source.fleet.hosts[0].name.encode(), page.content)
        # It has its own, which a second one would only narrow.
        self.assertEqual('', page.policy)
        self.assertIn(b'Content-Security-Policy', page.content)
        self.source.fleet = dataclasses.replace(self.source.fleet, guests=())
        service.watch.refresh()
        self.assertEqual(page, service.pages()['/']())

    def test_page_of_figures_only(self):
        page = self.service(serve_snapshot=False).pages()['/']()
        self.assertIn(b'"metrics"', page.content)

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
