# SPDX-License-Identifier: Apache-2.0
"""The examples of help texts, run on files of the names that they have."""

import dataclasses
import glob
import io
import itertools
import json
import os
import pathlib
import shlex
import shutil

import fixtures

from nova_pinning.admission import offered_host
from nova_pinning.fleet import document
from nova_pinning.fleet import generate
from nova_pinning.tests import command_lines
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.instance_bench.report import report_scenes

#: What examples do that no unit test may, by how their commands begin.
_ELSEWHERE = {
    'openstack pinning': 'asks a cloud',
    'nova-pinning agent': 'changes the machine',
    'nova-pinning exporter': 'serves until it is ended',
    'nova-pinning bench run': 'takes CPUs of the machine for minutes',
    'nova-pinning explain fleet.json.zst --server': "reads nova's database",
    'nova-pinning fleet import nova': "reads nova's database",
    'nova-pinning host check': 'judges the machine',
    'nova-pinning host discover': 'looks at the machine',
    'nova-pinning host plan host.yaml --for 4:40,8:30,16:20,32:10 --caches':
        'takes half a minute',
    'nova-pinning simulate fleet.json.zst --empty': 'takes half a minute',
    'nova-pinning simulate fleet.json.zst --arrivals': 'takes half a minute',
    'nova-pinning simulate fleet.json.zst --lifetimes': 'takes half a minute',
}
_NAMES = {'dedicated-00001': 'cmp-17', 'dedicated-00002': 'cmp-18',
          'dedicated-2': 'small', 'dedicated-4': 'large',
          'dedicated-16': 'enterprise.4xlarge'}
_DEVICE = """
pci_devices:
  - {address: '0000:01:00.0', vendor_id: 144d, product_id: a80a, numa_node: 0}
"""


def _examples():
    """The command lines that can be run, each once."""
    texts = [parser.epilog.partition('::')[2]
             for _name, parser in command_lines.parsers()]
    for line in dict.fromkeys(itertools.chain.from_iterable(
            map(command_lines.joined, texts))):
        called = [shlex.join(words) for words in command_lines.commands(line)]
        if called and not any(
                words.startswith(start)
                for words in called for start in _ELSEWHERE):
            yield line.strip()


class TestExamples(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        self.given = self.dir / 'given'
        for name in ('etc/nova/provider_config', 'hosts'):
            (self.given / name).mkdir(parents=True)
        os.chdir(self.given)
        self._fleets()
        for name in ('flavors.yaml', 'old.yaml'):
            shutil.copy(cli_case.CATALOGUE, name)
        pathlib.Path('north.json').write_text(json.dumps([
            {'Name': 'f', 'RAM': 1, 'VCPUs': 1, 'Disk': 0, 'Properties': {}}]))
        pathlib.Path('host.yaml').write_text(
            pathlib.Path(cli_case.HOST).read_text() + _DEVICE)
        for line in ('host plan host.yaml -o plan.yaml',
                     'host plan host.yaml -o hosts/cmp-17.yaml',
                     'rebalance plan fleet.json.zst --for 16 -o plan.json'):
            self._run(f'nova-pinning {line}')
        pathlib.Path('known.json').write_text(self._run(
            'nova-pinning flavor check flavors.yaml -f json').out)
        mutex = report_scenes.mutex(rounds=3).results()
        for name in ('results', 'after', 'platform-overhead',
                     'boot-1', 'boot-2', 'boot-3'):
            report_scenes.write(mutex, f'{name}.jsonl')
        report_scenes.write(report_scenes.copies().results(),
                            'self-test.jsonl')
        pathlib.Path('arrivals.csv').write_text(
            'time,id,flavor,lifetime\n0,1,enterprise.4xlarge,3600\n')
        pathlib.Path('nova.conf').write_text(
            '[pci]\nalias = {"name": "nvme", "vendor_id": "144d", '
            '"product_id": "a80a"}\n')
        pathlib.Path('etc/nova/nova.conf').write_text('[filter_scheduler]\n')

    def _fleets(self):
        """Of some hosts, guests and flavors of the names in the examples."""
        fleet = generate.generate_fleet(4, 'two-socket-80', 1)
        document.write('fleet.json', dataclasses.replace(
            fleet, aggregates=(offered_host.Aggregate(
                name='r1', metadata={'rack': '1'}), *fleet.aggregates),
            hosts=tuple(dataclasses.replace(
                host, aggregates=('r1', *host.aggregates),
                nova_release='2025.1')
                for host in fleet.hosts)))
        text = pathlib.Path('fleet.json').read_text()
        for old, new in _NAMES.items():
            text = text.replace(f'"{old}"', f'"{new}"')
        pathlib.Path('fleet.json').write_text(text)
        fleet = document.read('fleet.json')
        for name, day in (('fleet', 3), ('today', 3), ('tuesday', 2),
                          ('monday', 1)):
            document.write(f'{name}.json.zst', dataclasses.replace(
                fleet, taken_at=f'2026-04-0{day}T00:00:00Z'))

    def _run(self, line):
        """Run the commands of a line; what the last of them comes to."""
        done = None
        for words in command_lines.commands(line):
            # As a shell would, with all files below one directory.
            words = list(itertools.chain.from_iterable(
                glob.glob(word) or [word] for word in [
                    f'.{word}' if word[0] == '/' else word
                    for word in words]))
            if words[1:3] == ['fleet', 'generate']:
                # How many there are makes no difference but of time.
                words[words.index('--hosts') + 1] = '4'
            given = io.TextIOWrapper(io.BytesIO(
                done.out.encode() if done else b''))
            with fixtures.MonkeyPatch('sys.stdin', given):
                done = self.run_command(*words[1:])
            if done.status not in (0, 1):
                break
        return done

    def test_run(self):
        """None of them is bad usage, or input that the page does not have."""
        wrong = {}
        for number, line in enumerate(_examples()):
            os.chdir(shutil.copytree(self.given, self.dir / str(number)))
            done = self._run(line)
            if done.status not in (0, 1):
                wrong[line] = done.err
        self.assertEqual({}, wrong)
