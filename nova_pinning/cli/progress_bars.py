# SPDX-License-Identifier: Apache-2.0
"""Bars on the error output for what takes long."""

import sys

import rich.progress

from nova_pinning.cli import base_command


class _Bars(rich.progress.Progress):

    def stop(self) -> None:
        # Rich 13, which 2025.1 has, writes an empty line where it is disabled.
        if not self.disable:
            super().stop()


def progress_bars(
        *columns: rich.progress.ProgressColumn) -> rich.progress.Progress:
    """Bars for people, gone in the end; disabled where nobody would see them.

    :param columns: rich's own if none are given
    """
    console = base_command.console(sys.stderr)
    return _Bars(
        *columns, console=console, transient=True,
        # What goes to a file must not end up on the terminal.
        redirect_stdout=sys.stdout.isatty(),
        disable=not sys.stderr.isatty() or console.is_dumb_terminal)
