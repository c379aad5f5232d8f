# SPDX-License-Identifier: Apache-2.0
"""What all pages of the documentation have to keep to."""

import pathlib
import re
import tomllib

import ddt
from oslotest import base as oslotest

_ROOT = pathlib.Path(__file__).parents[3]
_DOC = _ROOT / 'doc' / 'source'
#: Of all pages and the README, with what is quoted in them; what is included
#: from other files does not count.
MOST_WORDS = 60_000
GLOSSARY = 'user/glossary.rst'
#: What a block of text of its own begins with, which is not prose.
_BLOCK = re.compile(r'::$|^\.\. (?!note|warning|glossary|list-table|figure)')


def pages():
    """The text of each page by its name."""
    return {str(path.relative_to(_DOC)): path.read_text()
            for path in sorted(_DOC.rglob('*.rst'))}


def title(text):
    """The first line with a line of ``=`` below it."""
    return re.search(r'^(\S.*)\n=+$', text, re.MULTILINE)[1]


def prose(text):
    """The lines of a page without blocks, literals and quoted messages."""
    lines = []
    skipped = None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if skipped is not None and (not line or indent > skipped):
            continue
        skipped = indent if _BLOCK.search(line) else None
        if skipped is None or line.endswith('::'):
            lines.append(line)
    return re.sub(r'``.+?``|"[^"]{1,300}"', '', ' '.join(
        ' '.join(lines).split()))


@ddt.ddt
class TestPages(oslotest.BaseTestCase):

    def test_words(self):
        texts = [*pages().values(), (_ROOT / 'README.rst').read_text()]
        self.assertLessEqual(
            sum(len(text.split()) for text in texts), MOST_WORDS)

    def test_one_tagline(self):
        """In the README, on the first page, and where packages are listed."""
        about = tomllib.loads((_ROOT / 'pyproject.toml').read_text())
        for text in ((_ROOT / 'README.rst').read_text(),
                     pages()['index.rst']):
            tagline = ' '.join(re.search(
                r'^\*\*(.+?)\*\*$', text, re.MULTILINE | re.DOTALL)[1].split())
            self.assertEqual(about['project']['description'], tagline)

    def test_titles_differ(self):
        names = {}
        for name, text in pages().items():
            names.setdefault(title(text), []).append(name)
        self.assertEqual(
            [], [found for found in names.values() if len(found) > 1])

    def test_indexes_say_what_pages_answer(self):
        for guide in ('admin', 'user'):
            text = (_DOC / guide / 'index.rst').read_text()
            listed = re.findall(
                r'^\.\. toctree::\n   :hidden:\n\n((?:   \S+\n)+)', text,
                re.MULTILINE)
            questions = dict(re.findall(
                r'^:doc:`(\S+)`\n((?:   .+\n)+)', text, re.MULTILINE))
            self.assertEqual(
                sorted(' '.join(listed).split()), sorted(questions))
            for question in questions.values():
                self.assertEqual('?', question.strip()[-1])

    @ddt.data('host cell', 'NUMA cell', 'nova cell', 'L3 domain',
              'emulator threads', 'host file', 'site file')
    def test_words_are_linked(self, word):
        """From each page for users that has them, to the glossary."""
        link = rf':term:`([^`]+<)?{word}>?`'.replace(' ', r'\s+')
        for name, text in pages().items():
            told = re.sub(':[a-z]+:`.+?`', '', prose(text))
            if (name.startswith(('admin/', 'user/', 'reference/'))
                    and name != GLOSSARY and re.search(rf'\b{word}', told)):
                self.assertTrue(re.search(link, text), name)

    def test_cells_are_told_apart(self):
        """Whether a cell is nova's, a host's or a guest's."""
        for name, text in pages().items():
            for found in re.finditer(
                    r'(?<!NUMA)(?<!host)(?<!guest)(?<!nova) cells?\b',
                    prose(text), re.IGNORECASE):
                around = found.string[max(found.start() - 40, 0):][:60]
                self.fail(f'{name}: {around}')
