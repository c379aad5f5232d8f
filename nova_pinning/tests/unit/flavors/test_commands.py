# SPDX-License-Identifier: Apache-2.0

import subprocess
from unittest import mock

import hypothesis
from hypothesis import strategies
from openstackclient.compute.v2 import flavor as osc_flavor

from nova_pinning.flavors import commands
from nova_pinning.flavors import flavor_model
from nova_pinning.tests.unit import unit_base

# What a shell hands on unharmed, and nova could store.
_TEXT = strategies.text(
    strategies.characters(blacklist_categories=('Cs', 'Cc')), min_size=1,
    max_size=20).filter(
        # Which argparse cannot be told as a value.
        lambda text: text != '--') | strategies.sampled_from(['--help', '-x'])
_KEYS = strategies.from_regex(r'[a-z]+:[a-z_.]{1,12}', fullmatch=True)


@strategies.composite
def flavors(draw):
    is_public = draw(strategies.booleans())
    return flavor_model.Flavor(
        name=draw(_TEXT), id=draw(strategies.sampled_from(['', '17', 'a-b'])),
        vcpus=draw(strategies.integers(1, 512)),
        memory_mib=draw(strategies.integers(1, 2 ** 30)),
        disk_gib=draw(strategies.integers(0, 100)),
        ephemeral_gib=draw(strategies.integers(0, 100)),
        swap_mib=draw(strategies.integers(0, 100)),
        rxtx_factor=draw(strategies.sampled_from([1.0, 1.5, 4.0])),
        is_public=is_public,
        projects=() if is_public else tuple(sorted(draw(
            strategies.sets(strategies.sampled_from('abc'))))),
        description=draw(strategies.just('') | _TEXT),
        extra_specs=draw(strategies.dictionaries(_KEYS, _TEXT, max_size=4)))


def _parse(line, command, words):
    """What OpenStackClient makes of a line, by sh and its own parser."""
    printed = subprocess.run(
        ['sh', '-c',
         'openstack() { printf "%s\\0" openstack "$@"; }\n' + line],
        capture_output=True, check=True).stdout
    split = printed.decode().split('\0')[:-1]
    assert split[:len(words)] == words, split
    app = mock.Mock()
    app.command_manager.namespace = 'none.such'
    return command(app, None).get_parser('openstack').parse_args(
        split[len(words):])


class TestCreateCommands(unit_base.TestCase):

    @hypothesis.given(flavors())
    @unit_base.settings(max_examples=60)
    def test_openstack_reads_what_was_meant(self, flavor):
        create, *grants = commands.create_commands(flavor)
        asked = _parse(create, osc_flavor.CreateFlavor,
                       ['openstack', 'flavor', 'create'])
        projects = [asked.project] if asked.project else []
        for grant in grants:
            more = _parse(grant, osc_flavor.SetFlavor,
                          ['openstack', 'flavor', 'set'])
            self.assertEqual(flavor.name, more.flavor)
            projects.append(more.project)
        self.assertEqual(flavor, flavor_model.Flavor(
            name=asked.name, id=asked.id or '',
            vcpus=asked.vcpus, memory_mib=asked.ram, disk_gib=asked.disk,
            ephemeral_gib=asked.ephemeral or 0, swap_mib=asked.swap or 0,
            rxtx_factor=asked.rxtx_factor or 1.0,
            is_public=asked.public is not False,
            projects=tuple(projects), description=asked.description or '',
            extra_specs=asked.properties or {}))
