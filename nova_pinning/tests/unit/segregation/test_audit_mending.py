# SPDX-License-Identifier: Apache-2.0
"""The commands that fix what the audit finds."""

import dataclasses
import re
import shlex

import ddt
import hypothesis
from hypothesis import strategies

from nova_pinning.model import hostclass
from nova_pinning.placement import client
from nova_pinning.placement import placement_traits
from nova_pinning.segregation.audit import audit_run
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation.audit import commands
from nova_pinning.segregation.audit import servers
from nova_pinning.segregation import class_change
from nova_pinning.tests.unit.segregation import audit_cloud
from nova_pinning.tests.unit import unit_base

DEDICATED, SHARED = audit_cloud.DEDICATED, audit_cloud.SHARED
L3 = (placement_traits.l3_trait(8), placement_traits.l3_trait(16))

_AMOUNTS = strategies.sampled_from([
    None, client.ProviderInventory(4, 0, 1.0),
    client.ProviderInventory(4, 0, 2.0)])
_METADATA = strategies.sampled_from([
    {}, {'pinning:class': 'dedicated'}, {'pinning:class': 'shared'},
    {'pinning:class': 'x'}, {audit_cloud.DEDICATED_KEY: 'required'},
    {audit_cloud.SHARED_KEY: 'required'}, {placement_traits.PACKING_KEY: 'x'},
    {placement_traits.PACKING_KEY: 'yes'}])


@strategies.composite
def clouds(draw):
    """Clouds in which anything may be wrong."""
    names = [f'h{number}' for number in range(draw(
        strategies.integers(1, 4)))]
    traits = strategies.sets(strategies.sampled_from(
        [placement_traits.DEDICATED, placement_traits.SHARED, *L3]))
    hosts = [audit_cloud.host(name, *draw(traits)) for name in names]
    some = strategies.sets(strategies.sampled_from(names))
    cloud = audit_cloud.FakeCloud(
        hosts,
        flavors=[audit_cloud.flavor(f'f{number}',
                                    draw(audit_cloud.FLAVOR_SPECS))
                 for number in range(draw(strategies.integers(0, 3)))],
        aggregates=[dataclasses.replace(
            audit_cloud.aggregate('a' * number, *draw(some)),
            metadata=draw(_METADATA))
            for number in range(1, draw(strategies.integers(1, 4)))],
        servers=[audit_cloud.server(
            str(number), draw(strategies.sampled_from(names)),
            draw(strategies.sampled_from([DEDICATED, SHARED])),
            status=draw(strategies.sampled_from(['ACTIVE', 'SHUTOFF'])))
            for number in range(draw(strategies.integers(0, 3)))])
    cloud.traits = draw(strategies.sets(strategies.sampled_from(
        list(placement_traits.TRAIT_OF.values())))).union(*(
            host.traits for host in hosts))
    for host in hosts:
        drawn = {name: draw(_AMOUNTS)
                 for name in ('PCPU', 'VCPU', 'MEMORY_MB')}
        cloud.offers[host.provider] = {
            name: amount for name, amount in drawn.items() if amount}
    for aggregate in cloud.all_aggregates:
        cloud.inside[aggregate.uuid] = {f'rp-{name}' for name in draw(some)}
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
            case ['aggregate', 'unset', '--property', key, name]:
                self.change_aggregate(name, lambda one: {'metadata': {
                    found: value for found, value in one.metadata.items()
                    if found != key}})
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
        [host] = [host for host in self.cloud.hosts() if host.name == name]
        planned = class_change.plan_change(host, host_class)
        self.change_traits(host.provider, planned.add, planned.remove)
        for leave in planned.leaves:
            self.change_hosts(leave.name, lambda hosts: hosts - {name})
            self.inside(leave.name).discard(host.provider)

    def change_traits(self, provider, add, remove):
        self.cloud.traits.update(add)
        self.cloud.all_hosts = [
            dataclasses.replace(
                host, traits=host.traits - set(remove) | set(add))
            if host.provider == provider else host
            for host in self.cloud.all_hosts]

    def inside(self, name):
        return self.cloud.inside.setdefault(f'uuid-{name}', set())

    def change_aggregate(self, name, changes):
        self.cloud.all_aggregates = [
            dataclasses.replace(aggregate, **changes(aggregate))
            if aggregate.name == name else aggregate
            for aggregate in self.cloud.all_aggregates]

    def change_hosts(self, name, changed):
        self.change_aggregate(name, lambda one: {
            'hosts': frozenset(changed(one.hosts))})

    def change_flavor(self, name, changed):
        self.cloud.all_flavors = [
            dataclasses.replace(flavor,
                                extra_specs=changed(flavor.extra_specs))
            if flavor.name == name else flavor
            for flavor in self.cloud.all_flavors]

    def migrate(self, server):
        self.cloud.all_servers = [
            dataclasses.replace(there, host=next(
                (host.name for host in self.cloud.hosts()
                 if audited.class_of(host) is there.host_class), there.host))
            if there.id == server else there
            for there in self.cloud.all_servers]

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


class TestMending(unit_base.TestCase):
    """Commands fix what they are given for, and nothing comes in turn."""

    def mendable(self, cloud):
        audit = audit_run.run_audit(cloud, audited.AuditSettings(jobs=1))
        return [finding for finding in audit.findings if finding.remediation]

    @unit_base.settings(150)
    @hypothesis.given(clouds())
    def test_all_that_has_commands(self, cloud):
        shell = Shell(cloud)
        told = []
        for _round in range(6):
            found = self.mendable(cloud)
            told.append([(one.code, one.name, one.remediation)
                         for one in found])
            # Servers go by the marks of the hosts, so they come last.
            found.sort(key=lambda one: one.code < 'S2')
            for one in found:
                for command in one.remediation:
                    shell.run(command)

        classes = {audited.class_of(host) for host in cloud.hosts()} - {None}
        left = self.mendable(cloud)
        if len(classes) == 1:
            # Servers of the other class have nowhere to go.
            left = [one for one in left if one.code > 'S2']
        self.assertEqual([], left, told)


@ddt.ddt
class TestCommands(unit_base.TestCase):

    @unit_base.settings(100)
    @hypothesis.given(strategies.text(min_size=1))
    @hypothesis.example('-')
    @hypothesis.example("-d 'x $y")
    def test_quoting(self, name):
        host = audit_cloud.host(name)
        made = audit_cloud.aggregate(name)
        flavor = audit_cloud.flavor(name)
        for command, expected in (
                (commands.set_class(host, SHARED), [name]),
                (commands.add_host(made, host), [name, name]),
                (commands.set_property(made, 'k', name), [
                    f'k={name}', name]),
                (commands.set_property(flavor, name, 'v'), [
                    f'{name}=v', name]),
                (commands.set_property(flavor, name, None), [name, name])):
            words = shlex.split(command)
            if name.startswith('-'):
                # Else it would be taken for an option.
                words.remove('--')
            self.assertEqual(expected, words[-len(expected):])

    def test_a_server_on_a_host_of_unclear_class(self):
        server = audit_cloud.server('x', 'h', SHARED)
        [found] = servers.findings(server, DEDICATED, is_unclear=True)
        self.assertEqual(('S101', ()), (found.code, found.remediation))
        self.assertIn('what marks the host does not agree', found.message)

    def test_servers(self):
        server = audit_cloud.server('x', 'h', SHARED, status='PAUSED')
        self.assertEqual(
            ('openstack server migrate --live-migration --wait id-x',),
            commands.move_away(server))
        server = audit_cloud.server('x', 'h', SHARED, status='SHUTOFF')
        self.assertEqual(
            ('openstack server migrate --wait id-x',
             'openstack server resize confirm id-x'),
            commands.move_away(server))
        server = audit_cloud.server('x', 'h', SHARED, status='SHELVED')
        self.assertEqual(
            ('openstack server shelve --offload id-x',),
            commands.move_away(server))

    @ddt.data('VERIFY_RESIZE', 'RESIZE', 'BUILD', 'ERROR', 'SUSPENDED',
              'RESCUE', 'UNKNOWN')
    def test_servers_that_nova_does_not_move(self, status):
        server = audit_cloud.server('x', 'h', SHARED, status=status)
        self.assertEqual((), commands.move_away(server))
        [found] = servers.findings(server, DEDICATED)
        self.assertTrue(found.message.endswith(
            f'does not move it while it is {status}'), found.message)
