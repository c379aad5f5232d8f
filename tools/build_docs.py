# SPDX-License-Identifier: Apache-2.0
"""Build pages with Sphinx, and tell meanwhile how far it is.

usage: python tools/build_docs.py DIRECTORY

DIRECTORY/source becomes DIRECTORY/build/html. A warning is an error. On a
terminal Sphinx tells itself how far it is; elsewhere, where it would write a
line for each page, there is one now and then.
"""

import contextlib
import io
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from minicloud import progress  # noqa: E402


class LastLine(io.TextIOBase):
    """A stream of which only the last line is kept, in ``text``."""

    text = ''

    def write(self, text):
        self.text = (text.strip().splitlines() or [self.text])[-1]
        return len(text)


def build(directory):
    """Run Sphinx.

    :returns: its exit status
    """
    # Loading it takes a second and more.
    from sphinx.cmd import build as sphinx
    return sphinx.main([
        '-W', '--keep-going', '-b', 'html', '-d',
        f'{directory}/build/doctrees', f'{directory}/source',
        f'{directory}/build/html'])


def main(directory):
    output = sys.stdout
    if output.isatty():
        print(f'Building the pages of {directory} ...', flush=True)
        return build(directory)
    told = LastLine()
    with (progress.Progress('', output) as shown,
          shown.doing(f'the pages of {directory}', lambda: told.text),
          contextlib.redirect_stdout(told)):
        status = build(directory)
    print(told.text)
    return status


if __name__ == '__main__':
    try:
        sys.exit(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
