# SPDX-License-Identifier: Apache-2.0
"""What a page of the installation guide tells operators to write and run."""

import pathlib
import re

from nova_pinning.tests import road_page

INSTALL = pathlib.Path(__file__).parents[2] / 'doc' / 'source' / 'install'


class DeploymentPage:
    """A page of the installation guide.

    :param name: such as 'kolla'
    """

    def __init__(self, name):
        self._blocks = road_page.blocks(INSTALL / f'{name}.rst')
        self._commands = [
            command.command for block in self._blocks
            if block.language == 'console'
            for command in road_page.commands(block)]

    def block(self, *words):
        """Return the one file that has these words."""
        found, = [block.text for block in self._blocks
                  if block.language != 'console'
                  and all(word in block.text for word in words)]
        return found

    def command(self, words):
        """Return the first command that has these words."""
        return next(command for command in self._commands if words in command)


def shadow_mode(**options):
    """Return the nova.conf of shadow mode, which is on the first page.

    :param options: more of them, for [pinning]
    """
    return DeploymentPage('index').block('[filter_scheduler]', 'observe') + (
        ''.join(f'{name} = {value}\n' for name, value in options.items()))


def in_mode(text, mode):
    """Return a nova.conf with another [pinning] mode."""
    changed, times = re.subn('^mode = .*$', f'mode = {mode}', text,
                             flags=re.MULTILINE)
    if times != 1:
        raise AssertionError(f'{times} lines with a mode in:\n{text}')
    return changed
