# SPDX-License-Identifier: Apache-2.0
"""Nova's own filters, held against ``admission.filters`` on random clouds.

A cloud has a few aggregates in an API database of nova's in memory, and each
case one host of it with guests and one guest that is asked for. By hand::

    python -m nova_pinning.tests.oracle.filter_oracle --cases 20000
"""

import argparse
import collections
import contextlib
import dataclasses
import random
from unittest import mock

import nova.conf
from nova import context as nova_context
from nova.db.api import api as api_db_api
from nova.db.api import models as api_models
from nova import objects
from nova.scheduler.filters import affinity_filter
from nova.scheduler.filters import aggregate_image_properties_isolation
from nova.scheduler.filters import aggregate_instance_extra_specs
from nova.scheduler.filters import aggregate_multitenancy_isolation
from nova.scheduler.filters import compute_filter
from nova.scheduler.filters import num_instances_filter
from nova.scheduler.filters import type_filter
from nova.scheduler import host_manager
from nova.scheduler import request_filter
from oslo_config import fixture as config_fixture
from oslo_db.sqlalchemy import enginefacade
from oslo_utils.fixture import uuidsentinel as uuids

from nova_pinning.admission import filters
from nova_pinning.admission import guest_request
from nova_pinning.admission import host_occupancy
from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import resident_guest
from nova_pinning.admission import scheduler_rules
from nova_pinning.fleet import migration
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass

#: Cases that follow each other are of one cloud: to store it takes longest.
PER_CLOUD = 50
#: By nova's name, the filters that are asked of each case.
CLASSES = {
    kind.__name__: kind for kind in (
        aggregate_instance_extra_specs.AggregateInstanceExtraSpecsFilter,
        aggregate_image_properties_isolation.AggregateImagePropertiesIsolation,
        aggregate_multitenancy_isolation.AggregateMultiTenancyIsolation,
        type_filter.AggregateTypeAffinityFilter,
        num_instances_filter.NumInstancesFilter,
        num_instances_filter.AggregateNumInstancesFilter,
        affinity_filter.SameHostFilter, affinity_filter.DifferentHostFilter,
        compute_filter.ComputeFilter)}

_VALUES = ('1', '2', '10', 'true', 'a', 'b', 'a,b', ' a , 2', 'a b c', '')
_WANTED = (
    '1', 'a', 'b', 'true', '', '= 2', '== 2', '!= 2', '>= 2', '<= 2', '>= a',
    's== a', 's!= a', 's< b', 's<= a', 's> a', 's>= b', '<in> a',
    '<all-in> a b', '<all-in>', '<or> a <or> b', '<or> b <or>', '<or> 10',
    '==', 's==', '<in>', 'a b c')
_IMAGES = {
    'os_distro': ('ubuntu', 'windows'), 'os_type': ('linux', 'Windows'),
    'hw_machine_type': ('q35', 'pc'), 'hw_cpu_cores': ('2', '04', '0'),
    'hw_pmu': ('true', 'yes', 'false', 'x'), 'architecture': (
        'amd64', 'x86_64', 'i386'), 'hw_vm_mode': ('HVM', 'xen', 'pv'),
    'os': ('ubuntu',), 'hw_vif_model': ('virtio', 'E1000')}
_IMAGE_OPTIONS = (*_VALUES, 'ubuntu,windows', 'True', 'False', 'x86_64',
                  'hvm', 'linux', 'windows', 'virtio,e1000', 'q35', '4, 2')
_KEYS = ('a', 'b', 'pinned', 'availability_zone')


class Cloud:
    """Aggregates, by name.

    :ivar aggregates: as the scheduler rules have them
    :ivar nova: nova.objects.Aggregate
    """

    def __init__(self, chance):
        self.aggregates = {}
        self.nova = {}
        for number in range(6):
            metadata = _metadata(chance)
            zone = chance.choice((None, None, 'east', 'west', 'nova'))
            name = f'aggregate-{number}'
            self.aggregates[name] = offered_host.Aggregate(
                name, zone, metadata)
            if zone:
                metadata = {**metadata, 'availability_zone': zone}
            self.nova[name] = objects.Aggregate(
                uuid=getattr(uuids, name), name=name, metadata=metadata)

    def store(self, engine):
        """Have nova's API database tell of them, and of nothing else."""
        with engine.begin() as connection:
            for table in (api_models.AggregateMetadata, api_models.Aggregate):
                connection.execute(table.__table__.delete())
            for number, one in enumerate(self.nova.values(), 1):
                connection.execute(api_models.Aggregate.__table__.insert(), {
                    'id': number, 'uuid': one.uuid, 'name': one.name})
                for key, value in one.metadata.items():
                    connection.execute(
                        api_models.AggregateMetadata.__table__.insert(), {
                            'aggregate_id': number, 'key': key,
                            'value': value})


def _metadata(chance):
    found = {}
    for _ in range(chance.choice((0, 1, 2, 3))):
        kind = chance.randrange(6)
        if kind == 0:
            found[chance.choice(_KEYS[:3])] = chance.choice(_VALUES)
        elif kind == 1:
            found[chance.choice(tuple(_IMAGES))] = chance.choice(
                _IMAGE_OPTIONS)
        elif kind == 2:
            found[chance.choice(('filter_tenant_id', 'filter_tenant_id2'))] = (
                chance.choice(('p', 'q', 'p, q', 'r')))
        elif kind == 3:
            found['instance_type'] = chance.choice(
                ('small', 'small, large', 'other', ''))
        elif kind == 4:
            found['max_instances_per_host'] = chance.choice(
                ('0', '1', ' 2 ', 'x', '3,4', '50'))
        else:
            found[chance.choice(('trait:CUSTOM_A', 'trait:CUSTOM_B'))] = (
                chance.choice(('required', 'required', 'forbidden')))
    return found


class Case:
    """A guest that is asked for, and a host that it might be on."""

    def __init__(self, cloud, chance):
        self.names = tuple(chance.sample(
            sorted(cloud.aggregates), chance.choice((0, 1, 1, 2, 3))))
        self.specs = {}
        for _ in range(chance.choice((0, 1, 1, 2))):
            scope = chance.choice((
                '', 'aggregate_instance_extra_specs:', 'hw:',
                'aggregate_instance_extra_specs:a:'))
            self.specs[scope + chance.choice(_KEYS)] = chance.choice(_WANTED)
        self.image = {
            key: chance.choice(_IMAGES[key]) for key in chance.sample(
                sorted(_IMAGES), chance.choice((0, 1, 2, 3)))}
        traits = chance.sample(('CUSTOM_A', 'CUSTOM_B'), chance.randrange(3))
        for trait in traits:
            if chance.random() < 0.5:
                self.specs[f'trait:{trait}'] = 'required'
            else:
                self.image[f'trait:{trait}'] = 'required'
        there = [f'guest-{number}' for number in range(chance.randrange(4))]
        self.hints = {
            hint: chance.sample([getattr(uuids, f'guest-{number}')
                                 for number in range(5)],
                                chance.choice((1, 2)))
            for hint in ('same_host', 'different_host')
            if chance.random() < 0.3}
        self.flavor = chance.choice(('small', 'large', 'huge'))
        self.project = chance.choice(('p', 'q', 's'))
        self.zone = chance.choice((None, None, 'east', 'nova', 'south'))
        self.enabled = chance.random() < 0.9
        self.group = chance.choice((None, 'affinity', 'anti-affinity'))
        self.group_hosts = [chance.choice(('host', 'other'))
                            for _ in range(chance.randrange(4))]
        self.max_per_host = chance.choice((1, 2))
        self.rules = scheduler_rules.SchedulerRules(
            enabled_filters=(), aggregates=cloud.aggregates,
            isolates=True, limits_tenants=True,
            requires_tenant_aggregate=chance.random() < 0.3,
            max_instances_per_host=chance.choice((1, 2, 50)),
            image_namespace=chance.choice(('', '', 'os', 'hw', 'hw_cpu')),
            image_separator=chance.choice(('_', '.')))
        self.request = guest_request.GuestRequest(
            name=self.flavor, vcpus=1, memory_mib=1,
            guest_class=hostclass.HostClass.SHARED, topology=None,
            queries=(guest_request.query({'VCPU': 1}, traits),),
            extra_specs=guest_request.pairs(self.specs),
            image=guest_request.pairs(self.image))
        self.wishes = guest_request.GuestWishes(
            project=self.project, availability_zone=self.zone,
            server_group='group' if self.group else '',
            hints=guest_request.pairs({
                key: ','.join(value) for key, value in self.hints.items()}))
        self.host = offered_host.OfferedHost(
            name='host', cells=(), aggregates=self.names,
            host_class=hostclass.HostClass.SHARED, is_enabled=self.enabled)
        self.occupancy = host_occupancy.of_host(self.host, [
            resident_guest.ResidentGuest(
                uuid=getattr(uuids, name), host='host', vcpus=1, memory_mib=1,
                guest_class=hostclass.HostClass.SHARED) for name in there])

    def state(self, cloud):
        """The host, as nova-scheduler has it."""
        state = host_manager.HostState('host', 'host', uuids.cell)
        state.aggregates = [cloud.nova[name] for name in self.names]
        state.instances = dict.fromkeys(
            guest.uuid for guest in self.occupancy.guests)
        state.num_instances = len(state.instances)
        state.service = {'disabled': not self.enabled}
        return state

    def spec(self):
        """The guest, as nova-conductor asks for it."""
        return objects.RequestSpec(
            flavor=objects.Flavor(
                name=self.flavor, vcpus=1, memory_mb=1, root_gb=0,
                ephemeral_gb=0, swap=0, extra_specs=dict(self.specs)),
            image=objects.ImageMeta.from_dict(
                {'properties': dict(self.image)}),
            project_id=self.project, instance_uuid=uuids.new, is_bfv=False,
            numa_topology=None, pci_requests=None, requested_resources=[],
            availability_zone=self.zone, requested_destination=None,
            request_level_params=objects.RequestLevelParams(),
            instance_group=None, scheduler_hints=dict(self.hints),
            num_instances=1)

    def options(self):
        rules = self.rules
        return {
            ('filter_scheduler', 'max_instances_per_host'):
                rules.max_instances_per_host,
            ('filter_scheduler',
             'aggregate_image_properties_isolation_namespace'):
                rules.image_namespace or None,
            ('filter_scheduler',
             'aggregate_image_properties_isolation_separator'):
                rules.image_separator,
            ('scheduler', 'enable_isolated_aggregate_filtering'):
                rules.isolates,
            ('scheduler', 'limit_tenants_to_placement_aggregate'):
                rules.limits_tenants,
            ('scheduler', 'placement_aggregate_required_for_tenants'):
                rules.requires_tenant_aggregate}


def _passes(kind, state, spec):
    """Whether nova puts the guest there; with an error it is put nowhere."""
    try:
        return bool(kind().host_passes(state, spec))
    except (ValueError, IndexError):
        return False


def _is_offered(case, cloud, spec):
    """Whether nova has Placement offer the host, by its aggregates."""
    context = nova_context.RequestContext(is_admin=True)
    zones = {one.metadata.get('availability_zone')
             for one in cloud.nova.values()} | {'nova', None}
    if case.zone not in zones:
        return False  # As nova-api says.
    for ask in (request_filter.isolate_aggregates,
                request_filter.require_tenant_aggregate,
                request_filter.map_az_to_placement_aggregate):
        try:
            ask(context, spec)
        except nova.exception.RequestFilterFailed:
            return False
    destination = spec.requested_destination
    if destination is None:
        return True
    own = {cloud.nova[name].uuid for name in case.names}
    return not own & set(destination.forbidden_aggregates or ()) and all(
        own & set(some.split(',')) for some in destination.aggregates or ())


def _group_passes(case, state, spec):
    spec.instance_group = objects.InstanceGroup(
        uuid=uuids.group, policy=case.group, policies=[case.group],
        rules={'max_server_per_host': str(case.max_per_host)}
        if case.group == 'anti-affinity' else {},
        hosts=sorted(set(case.group_hosts)), members=[
            getattr(uuids, f'member-{number}')
            for number in range(len(case.group_hosts))])
    # Those of the host are guests of it like others.
    state.instances = dict.fromkeys(
        member for member, host in zip(
            spec.instance_group.members, case.group_hosts) if host == 'host')
    return all(_passes(kind, state, spec) for kind in (
        affinity_filter.ServerGroupAffinityFilter,
        affinity_filter.ServerGroupAntiAffinityFilter))


@contextlib.contextmanager
def prepared():
    """A database for clouds, and nova's options for cases.

    :returns: (engine, fixture of options)
    """
    objects.register_all()
    facade = enginefacade.transaction_context()
    facade.configure(connection='sqlite://')
    engine = facade.writer.get_engine()
    api_models.BASE.metadata.create_all(engine)
    undo = api_db_api.context_manager.patch_factory(facade)
    try:
        with config_fixture.Config(nova.conf.CONF) as options, \
                mock.patch('nova.servicegroup.API.service_is_up',
                           return_value=True), \
                mock.patch('nova.servicegroup.API.__init__',
                           return_value=None):
            yield engine, options
    finally:
        undo()
        engine.dispose()


def disagreements(seed, numbers):
    """What nova and ``admission.filters`` do not say alike.

    :param numbers: of the cases, a range
    :returns: a sentence each, and how often each filter said no
    """
    wrong = []
    refused = collections.Counter()
    cloud = None
    with prepared() as (engine, options):
        for number in numbers:
            if cloud is None or not number % PER_CLOUD:
                cloud = Cloud(random.Random(f'{seed} {number // PER_CLOUD}'))
                cloud.store(engine)
            case = Case(cloud, random.Random(f'{seed} {number} case'))
            for (group, name), value in case.options().items():
                options.config(group=group, **{name: value})
            for name, passes, verdict in _verdicts(case, cloud):
                refused[name] += not passes
                if verdict.doubts and not verdict.refusals:
                    if not any('looks at first' in doubt.text
                               for doubt in verdict.doubts):
                        wrong.append(f'{number} {name}: {verdict.doubts}')
                elif passes == bool(verdict.refusals):
                    wrong.append(f'{number} {name}: nova says {passes}, and '
                                 f'we say {verdict.refusals}')
    return wrong, refused


def _verdicts(case, cloud):
    """(name, whether nova passes it, our verdict) by each filter."""
    state, spec = case.state(cloud), case.spec()
    for name, kind in CLASSES.items():
        rules = dataclasses.replace(
            case.rules, enabled_filters=(name,), isolates=False,
            limits_tenants=False)
        wishes = dataclasses.replace(
            case.wishes, availability_zone=None)
        found = filters.gate(case.request, wishes, case.host, rules).and_of(
            filters.by_guests(case.request, wishes, case.occupancy, rules))
        if name != 'ComputeFilter':
            found = found._replace(refusals=tuple(
                refusal for refusal in found.refusals
                if refusal.name != 'ComputeFilter'))
        yield name, _passes(kind, state, spec), found
    found = filters.gate(case.request, case.wishes, case.host, case.rules)
    yield 'aggregates', _is_offered(case, cloud, spec), found._replace(
        refusals=tuple(refusal for refusal in found.refusals
                       if refusal.name != 'ComputeFilter'))
    if case.group and case.group_hosts:
        # The guest is of the group, so there is always a member somewhere.
        members = [resident_guest.ResidentGuest(
            uuid=f'member{number}', host=host, vcpus=1, memory_mib=1,
            guest_class=hostclass.HostClass.DEDICATED, server_group='group')
            for number, host in enumerate(case.group_hosts)]
        groups = migration.MigrationRules(snapshot.Fleet(
            hosts=(case.host,), server_groups=(offered_host.ServerGroup(
                id='group', policy=offered_host.GroupPolicy(case.group),
                max_per_host=case.max_per_host),)))
        refusal = groups.group_refusal(members[0], [
            member for member in members if member.host == 'host'])
        yield case.group, _group_passes(case, state, spec), (
            filters.FilterVerdict((outcome.AdmissionRefusal(
                outcome.RefusalLayer.FILTER, case.group, '', refusal),)
                if refusal else ()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--cases', type=int, default=20000)
    arguments = parser.parse_args()
    wrong, refused = disagreements(arguments.seed, range(arguments.cases))
    for sentence in wrong[:20]:
        print(sentence)
    print(f'{arguments.cases} cases, {len(wrong)} wrong; refused by',
          dict(sorted(refused.items())))
    return bool(wrong)


if __name__ == '__main__':
    raise SystemExit(main())
