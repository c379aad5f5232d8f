# SPDX-License-Identifier: Apache-2.0
"""Bars on the error output."""

import sys
from unittest import mock

from oslotest import base as oslotest
import rich.console

from nova_pinning.cli import progress_bars


class TestProgressBars(oslotest.BaseTestCase):

    def written(self, is_terminal, is_dumb=False):
        with mock.patch.object(sys, 'stderr') as stream, mock.patch.object(
                rich.console.Console, 'is_dumb_terminal', is_dumb):
            stream.isatty.return_value = is_terminal
            stream.encoding = 'utf-8'
            with progress_bars.progress_bars() as bars:
                bars.update(bars.add_task('watching', total=5), completed=2.5)
        return ''.join(call.args[0] for call in stream.write.call_args_list)

    def test_terminal(self):
        """It has a bar, which is gone in the end."""
        written = self.written(True)
        self.assertIn('watching', written)
        self.assertIn('50%', written)

    def test_nobody_would_see_it(self):
        self.assertEqual('', self.written(False))
        self.assertEqual('', self.written(True, is_dumb=True))
