# SPDX-License-Identifier: Apache-2.0
"""Pages in Debian's chromium."""

import os
import pathlib
import shutil
import tempfile

from axe_playwright_python import sync_playwright as axe
from playwright import sync_api

from nova_pinning.tests.unit import unit_base

THEMES = ('light', 'dark')
WIDTHS = (360, 1280, 2560)
_GRAVE = ('serious', 'critical')
#: Screenshots are left in this directory, if it is named.
_SHOTS = os.environ.get('NOVA_PINNING_SCREENSHOTS')


class TestCase(unit_base.TestCase):
    """Has a browser, and a directory for pages.

    :cvar directory: pathlib.Path
    """

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.player = sync_api.sync_playwright().start()
        cls.addClassCleanup(cls.player.stop)
        # Of root, chromium wants it; the page is our own.
        cls.browser = cls.player.chromium.launch(
            executable_path=shutil.which('chromium'), args=['--no-sandbox'])
        cls.addClassCleanup(cls.browser.close)
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.directory = pathlib.Path(directory.name)

    def visit(self, path, place='', width=1280, theme='light'):
        """A page in the browser, which fails the test if it complains.

        :param place: what comes after the # of its address
        """
        context = self.browser.new_context(
            viewport={'width': width, 'height': 900}, color_scheme=theme)
        self.addCleanup(context.close)
        opened = context.new_page()
        complaints, requests = [], []
        opened.on('console', lambda message: complaints.append(message.text))
        opened.on('pageerror', lambda error: complaints.append(str(error)))
        opened.on('request', lambda request: requests.append(request.url))
        self.addCleanup(lambda: self.assertEqual([], complaints))
        self.addCleanup(lambda: self.assertEqual(
            [], [url for url in requests if not url.startswith('file:')]))
        opened.goto(f'{path.as_uri()}#{place}')
        return opened

    def check_view(self, opened, width):
        """Nothing is wider than the window, and axe has nothing grave."""
        self.assertEqual(width, opened.evaluate(
            'document.documentElement.scrollWidth'))
        self.assertEqual([], self.grave(opened))

    def grave(self, opened):
        """What axe has to say about it that is grave."""
        return [
            (violation['id'], violation['nodes'][0]['html'][:200],
             violation['nodes'][0].get('failureSummary'))
            for violation in axe.Axe().run(opened).response['violations']
            if violation['impact'] in _GRAVE]

    def shoot(self, opened, name):
        if _SHOTS:
            opened.screenshot(path=f'{_SHOTS}/{name}.png')
