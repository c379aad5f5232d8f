# SPDX-License-Identifier: Apache-2.0
"""The page "Make half of a running cloud dedicated".

What works on files is run; of what takes a cloud, that there are such
commands with such options. The tests of the minicloud run the rest.
"""

import re
import shlex

import ddt
from oslotest import base

from nova_pinning.flavors import catalogue
from nova_pinning.fleet import document
from nova_pinning.segregation import site_file
from nova_pinning.tests import command_lines
from nova_pinning.tests import road_page
from nova_pinning.tests.unit.cli import cli_case

DOC = road_page.PAGE.parent
MOST_WORDS = 1500
#: Of the page, that its commands read and write.
FILES = ('cmp-1.yaml', 'fleet.json.zst', 'flavors.yaml', 'page.html',
         'plan.yaml', 'rendered')
STEPS = range(1, 11)


def files():
    """The text of each file of the page by its name, with its step."""
    return {block.name: block.text for block in road_page.blocks()
            if block.language != 'console'}


def steps():
    """The commands of each block of commands by its name."""
    return {block.name: road_page.commands(block)
            for block in road_page.blocks() if block.language == 'console'}


@ddt.ddt
class TestShape(base.BaseTestCase):
    """What a walk is held to, on a cloud that has other figures."""

    SHOWN = ('12 hosts with 1,734 guests', '...',
             'cmp-1  dedicated  0-2,40-42  4.5 TiB  -', '...',
             'Observing instance 6d0...: about 14 min; ...')
    SAID = ('warning: odd\n2 hosts with 3 guests\nHosts\n'
            'cmp-1 dedicated 1 64 MiB -\n\nObserving instance 0ab-c: about '
            '3 s; no more\n')

    def test_figures_do_not_count(self):
        self.assertEqual('', road_page.missing(self.SHOWN, self.SAID))

    @ddt.data(('guests', 'servers'), ('cmp-1', 'cmp-2'), ('MiB', 'CPUs'),
              ('2 hosts', 'hosts'), ('-\n', '1\n'), ('Observing', 'Seeing'),
              ('cmp-1 dedicated', 'dedicated cmp-1'), ('3 s;', 's;'))
    @ddt.unpack
    def test_words_do(self, old, new):
        self.assertIn(old, self.SAID)
        self.assertNotEqual('', road_page.missing(
            self.SHOWN, self.SAID.replace(old, new)))


@ddt.ddt
class TestPage(cli_case.TestCase):

    def test_it_is_short_and_first(self):
        self.assertLessEqual(len(road_page.PAGE.read_text().split()),
                             MOST_WORDS)
        entries = (DOC / 'index.rst').read_text().partition('toctree::')[2]
        self.assertEqual(road_page.PAGE.stem, entries.split()[2])

    def test_each_block_is_of_a_step(self):
        names = [block.name for block in road_page.blocks()]
        self.assertEqual(
            road_page.PAGE.read_text().count('code-block::'), len(names))
        self.assertEqual(len(names), len(set(names)))
        numbers = [int(re.fullmatch(r'step-(\d+)-[\w.-]+', name)[1])
                   for name in names]
        self.assertEqual(sorted(numbers), numbers)
        self.assertEqual(set(STEPS), set(numbers))

    def test_commands_are_known(self):
        """With the options that they are given."""
        parsers = dict(command_lines.parsers())
        asked = 0
        for commands in steps().values():
            for one in commands:
                for words in command_lines.commands(one.command):
                    name = command_lines.name_of(words, parsers)
                    self.assertIsNotNone(name, one.command)
                    parsers[name].parse_args(words[len(name.split()):])
                    asked += 1
        self.assertGreater(asked, 15)

    def test_files(self):
        texts = files()
        site = site_file.load(self.write(
            'site.yaml', texts['step-5-site.yaml']))
        self.assertEqual(['enterprise'], [
            group.name for group in site.groups])
        sold = catalogue.load(self.write(
            'flavors.yaml', texts['step-7-flavors.yaml']))
        self.assertIn('enterprise.large',
                      [flavor.name for flavor in sold.flavors])

    @ddt.data('step-6-nova.conf', 'step-8-nova.conf')
    def test_settings_are_those_of_the_installation_guide(self, name):
        guide = (DOC / 'install' / 'index.rst').read_text()
        block = ''.join(
            f'   {line}\n' if line else '\n'
            for line in files()[name].splitlines())
        self.assertIn(block, guide)

    def _shows(self, command):
        """Run a command of the page; it shows what the page has of it."""
        words = [str(self.dir / word) if word in FILES else word
                 for word in shlex.split(command.command)]
        done = self.run_command(*words[1:])
        self.assertEqual(0, done.status, done.err)
        rest = done.err + done.out
        for line in command.output:
            # What stands before the dots is shown as it is.
            shown = line.partition('...')[0]
            self.assertIn(shown, rest, command.command)
            rest = rest[rest.index(shown) + len(shown):]

    def _is_of_files(self, command):
        return command.command.startswith((
            'nova-pinning fleet', 'nova-pinning flavor',
            'nova-pinning host plan', 'nova-pinning host render'))

    def test_what_files_tell(self):
        """A fleet, a plan and flavors, with what the page says of them."""
        self.write('flavors.yaml', files()['step-7-flavors.yaml'])
        self.write('cmp-1.yaml', (
            DOC / 'admin' / 'compute-1.yaml').read_text().replace(
                'name: compute-1', 'name: cmp-1'))
        fleet = str(self.dir / 'fleet.json.zst')
        done = self.run_command(
            'fleet', 'generate', '--hosts', '12', '--shared', '100%',
            '--filled', '55%', '--output', fleet)
        self.assertEqual(0, done.status, done.err)
        document.write(fleet, cli_case.imported(document.read(fleet)))
        shown = [command for commands in steps().values()
                 for command in commands if self._is_of_files(command)]
        self.assertEqual(5, len(shown))
        for command in shown:
            self._shows(command)
