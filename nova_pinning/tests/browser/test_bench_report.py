# SPDX-License-Identifier: Apache-2.0
"""The page of bench report in a browser."""

from nova_pinning.instance_bench.report import page
from nova_pinning.instance_bench.report import report_part
from nova_pinning.tests.browser import browser_case
from nova_pinning.tests.unit.instance_bench.report import report_scenes


class TestBenchReport(browser_case.TestCase):

    def test_all_kinds(self):
        """One page with each kind of experiment that there is."""
        self.useFixture(report_scenes.SelfTest())
        parts = []
        for kind, scene in report_scenes.ALL.items():
            parts.append(report_part.Part(f'{kind}.jsonl',
                                          scene(rounds=3).summary()))
        path = self.directory / 'report.html'
        path.write_text(page.render(parts, '1.0'))
        for theme in browser_case.THEMES:
            for width in browser_case.WIDTHS:
                with self.subTest(f'{theme}-{width}'):
                    opened = self.visit(path, width=width, theme=theme)
                    self.check_view(opened, width)
                    self.shoot(opened, f'bench-report-{width}-{theme}')
