#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The commands that mend what the audit finds."""

import dataclasses
import re
import shlex

import ddt
import hypothesis
from hypothesis import strategies

from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import traits
from nova_pinning.segregation.audit import commands
from nova_pinning.segregation.audit import rule
from nova_pinning.segregation.audit import run
from nova_pinning.segregation.audit import servers
from nova_pinning.segregation import change
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.segregation import auditcloud as fake

DEDICATED, SHARED = fake.DEDICATED, fake.SHARED
L3 = (traits.l3_trait(8), traits.l3_trait(16))

_AMOUNTS = strategies.sampled_from([
    None, client.Inventory(4, 0, 1.0), client.Inventory(4, 0, 2.0)])
_METADATA = strategies.sampled_from([
    {}, {'pinning:class': 'dedicated'}, {'pinning:class': 'shared'},
    {'pinning:class': 'x'}, {fake.DEDICATED_KEY: 'required'},
    {fake.SHARED_KEY: 'required'}])


@strategies.composite
def clouds(draw):
    """Clouds in which anything may be wrong."""
    names = [f'h{number}' for number in range(draw(
        strategies.integers(1, 4)))]
    hosts = [fake.host(name, *draw(strategies.sets(strategies.sampled_from(
        [traits.DEDICATED, traits.SHARED, *L3])))) for name in names]
    some = strategies.sets(strategies.sampled_from(names))
    cloud = fake.FakeCloud(
        hosts,
        flavors=[fake.flavor(f'f{number}', draw(fake.FLAVOR_SPECS))
                 for number in range(draw(strategies.integers(0, 3)))],
        aggregates=[dataclasses.replace(
            fake.aggregate('a' * number, *draw(some)),
            metadata=draw(_METADATA))
            for number in range(1, draw(strategies.integers(1, 4)))],
        servers=[fake.server(
            str(number), draw(strategies.sampled_from(names)),
            draw(strategies.sampled_from([DEDICATED, SHARED])),
            status=draw(strategies.sampled_from(['ACTIVE', 'SHUTOFF'])))
            for number in range(draw(strategies.integers(0, 3)))])
    cloud.traits = draw(strategies.sets(strategies.sampled_from(
        list(traits.TRAIT_OF.values())))).union(*(
            one.traits for one in hosts))
    for one in hosts:
        drawn = {name: draw(_AMOUNTS)
                 for name in ('PCPU', 'VCPU', 'MEMORY_MB')}
        cloud.offers[one.provider] = {
            name: amount for name, amount in drawn.items() if amount}
    for one in cloud.all_aggregates:
        cloud.inside[one.uuid] = {f'rp-{name}' for name in draw(some)}
    return cloud


class Shell:
    """Does to a cloud in memory what the commands do to a real one."""

    def __init__(self, cloud):
        self.cloud = cloud

    def run(self, command):
        words = shlex.split(command)
        if words[0].startswith('old='):
            self.set_anew(command)
            return
        match words[1:]:
            case ['pinning', 'host', 'set', '--class', name, host]:
                self.set_class(host, hostclass.HostClass(name))
            case ['aggregate', 'add', 'host', name, host]:
                self.change_hosts(name, lambda hosts: hosts | {host})
                self.inside(name).add(f'rp-{host}')
            case ['aggregate', 'set', '--property', pair, name]:
                key, _equals, value = pair.partition('=')
                self.change_aggregate(name, lambda one: {
                    'metadata': {**one.metadata, key: value}})
            case ['flavor', 'set', '--property', pair, name]:
                key, _equals, value = pair.partition('=')
                # Its servers would find no host at all.
                assert key.removeprefix('trait:') in self.cloud.traits
                self.change_flavor(name, lambda specs: {**specs, key: value})
            case ['flavor', 'unset', '--property', key, name]:
                self.change_flavor(name, lambda specs: {
                    found: value for found, value in specs.items()
                    if found != key})
            case ['resource', 'provider', 'inventory', 'set', '--amend',
                  '--resource', what, provider]:
                name = what.removesuffix(':allocation_ratio=1.0')
                offers = dict(self.cloud.offers[provider])
                offers[name] = dataclasses.replace(
                    offers[name], allocation_ratio=1.0)
                self.cloud.offers[provider] = offers
            case ['--os-placement-api-version', '1.6', 'trait', 'create',
                  name]:
                self.cloud.traits.add(name)
            case ['server', 'migrate', *_, server]:
                self.migrate(server)
            case ['server', 'resize', 'confirm', server]:
                pass
            case _:
                raise AssertionError(command)

    def set_class(self, name, host_class):
        [host] = [one for one in self.cloud.hosts() if one.name == name]
        planned = change.plan(host, host_class)
        self.change_traits(host.provider, planned.add, planned.remove)
        for one in planned.leaves:
            self.change_hosts(one.name, lambda hosts: hosts - {name})
            self.inside(one.name).discard(host.provider)

    def change_traits(self, provider, add, remove):
        self.cloud.traits.update(add)
        self.cloud.all_hosts = [
            dataclasses.replace(one, traits=one.traits - set(remove)
                                | set(add))
            if one.provider == provider else one
            for one in self.cloud.all_hosts]

    def inside(self, name):
        return self.cloud.inside.setdefault(f'uuid-{name}', set())

    def change_aggregate(self, name, changes):
        self.cloud.all_aggregates = [
            dataclasses.replace(one, **changes(one))
            if one.name == name else one for one in self.cloud.all_aggregates]

    def change_hosts(self, name, changed):
        self.change_aggregate(name, lambda one: {
            'hosts': frozenset(changed(one.hosts))})

    def change_flavor(self, name, changed):
        self.cloud.all_flavors = [
            dataclasses.replace(one, extra_specs=changed(one.extra_specs))
            if one.name == name else one for one in self.cloud.all_flavors]

    def migrate(self, server):
        self.cloud.all_servers = [
            dataclasses.replace(one, host=next(
                (host.name for host in self.cloud.hosts()
                 if rule.class_of(host) is one.host_class), one.host))
            if one.id == server else one for one in self.cloud.all_servers]

    def set_anew(self, command):
        """Change what a provider has, where all of it has to be set."""
        provider = command.split()[-1]
        what = re.search('resource provider ([a-z]+) list', command)[1]
        add = re.findall(f' set --{what} ([^ ]+) ', command)
        remove = re.findall(' -e ([^ ]+)', command)
        if what == 'trait':
            self.change_traits(provider, add, remove)
            return
        for one in add:
            self.cloud.inside.setdefault(one, set()).add(provider)
        for one in remove:
            self.cloud.inside[one].discard(provider)


class TestMending(base.TestCase):
    """Commands mend what they are given for, and nothing comes in turn."""

    def mendable(self, cloud):
        audit = run.audit(cloud, run.Settings(jobs=1))
        return [one for one in audit.findings if one.mends]

    @base.settings(150)
    @hypothesis.given(clouds())
    def test_all_that_has_commands(self, cloud):
        shell = Shell(cloud)
        told = []
        for _round in range(6):
            found = self.mendable(cloud)
            told.append([(one.code, one.name, one.mends) for one in found])
            # Servers go by the marks of the hosts, so they come last.
            found.sort(key=lambda one: one.code < 'S2')
            for one in found:
                for command in one.mends:
                    shell.run(command)

        classes = {rule.class_of(host) for host in cloud.hosts()} - {None}
        left = self.mendable(cloud)
        if len(classes) == 1:
            # Servers of the other class have nowhere to go.
            left = [one for one in left if one.code > 'S2']
        self.assertEqual([], left, told)


@ddt.ddt
class TestCommands(base.TestCase):

    @base.settings(100)
    @hypothesis.given(strategies.text(min_size=1))
    @hypothesis.example('-')
    @hypothesis.example("-d 'x $y")
    def test_quoting(self, name):
        host = fake.host(name)
        made = fake.aggregate(name)
        flavor = fake.flavor(name)
        for command, expected in (
                (commands.set_class(host, SHARED), [name]),
                (commands.add_host(made, host), [name, name]),
                (commands.set_metadata(made, 'k', name), [
                    f'k={name}', name]),
                (commands.set_extra_spec(flavor, name, 'v'), [
                    f'{name}=v', name]),
                (commands.unset_extra_spec(flavor, name), [name, name])):
            words = shlex.split(command)
            if name.startswith('-'):
                # Else it would be taken for an option.
                words.remove('--')
            self.assertEqual(expected, words[-len(expected):])

    def test_a_server_on_a_host_of_unclear_class(self):
        server = fake.server('x', 'h', SHARED)
        [found] = servers.findings(server, DEDICATED, is_unclear=True)
        self.assertEqual(('S101', ()), (found.code, found.mends))
        self.assertIn('what marks the host does not agree', found.message)

    def test_servers(self):
        server = fake.server('x', 'h', SHARED, status='PAUSED')
        self.assertEqual(
            ('openstack server migrate --live-migration --wait id-x',),
            commands.move_away(server))
        server = fake.server('x', 'h', SHARED, status='SHUTOFF')
        self.assertEqual(
            ('openstack server migrate --wait id-x',
             'openstack server resize confirm id-x'),
            commands.move_away(server))
        server = fake.server('x', 'h', SHARED, status='SHELVED')
        self.assertEqual(
            ('openstack server shelve --offload id-x',),
            commands.move_away(server))

    @ddt.data('VERIFY_RESIZE', 'RESIZE', 'BUILD', 'ERROR', 'SUSPENDED',
              'RESCUE', 'UNKNOWN')
    def test_servers_that_nova_does_not_move(self, status):
        server = fake.server('x', 'h', SHARED, status=status)
        self.assertEqual((), commands.move_away(server))
        [found] = servers.findings(server, DEDICATED)
        self.assertTrue(found.message.endswith(
            f'does not move it while it is {status}'), found.message)
