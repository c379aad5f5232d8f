# SPDX-License-Identifier: Apache-2.0
"""A cloud's flavors, in memory, that goes wrong when told to."""

import dataclasses
import enum

from nova_pinning import errors


class Fault(enum.Enum):
    """What may befall a request that changes something."""

    #: It never arrives.
    BEFORE = 'before'
    #: It is done, and the answer is lost.
    AFTER = 'after'


class FakeCloud:
    """What sync.Cloud asks for, doing what nova does.

    :ivar stored: the flavors by id
    :ivar used: the ids of those that servers use
    :ivar requests: names of the methods that were called, reading included
    :ivar hook: called with the number of each request
    """

    name = 'fake'

    def __init__(self, flavors=(), used=()):
        self.stored = {flavor.id: flavor for flavor in flavors}
        self.used = set(used)
        self.requests = []
        self.faults = {}
        self.hook = None

    def state(self):
        """What users see of it."""
        return {flavor.name: dataclasses.replace(
                    flavor, extra_specs=dict(flavor.extra_specs))
                for flavor in self.stored.values()}

    def _request(self, name):
        number = len(self.requests)
        self.requests.append(name)
        if self.hook:
            self.hook(number)
        return self.faults.pop(number, None)

    def _change(self, name, flavor_id, change):
        """Change a flavor.

        :param change: from the flavor to its changed fields, or None where
            nova refuses
        """
        fault = self._request(name)
        if fault is Fault.BEFORE:
            raise errors.UnsettledError('dropped')
        flavor = self.stored.get(flavor_id)
        changes = change(flavor) if flavor else None
        if changes is None:
            raise errors.UnsettledError('404 or 409')
        self.stored[flavor_id] = dataclasses.replace(flavor, **changes)
        if fault:
            raise errors.UnsettledError('lost')

    def flavors(self, with_projects):
        self._request('flavors')
        return tuple(
            flavor if with_projects(flavor)
            else dataclasses.replace(flavor, projects=())
            for flavor in self.stored.values())

    def has_servers(self, flavor_id):
        self._request('has_servers')
        return flavor_id in self.used

    def create(self, flavor):
        fault = self._request('create')
        if fault is Fault.BEFORE:
            raise errors.UnsettledError('dropped')
        if flavor.id in self.stored or any(
                kept.name == flavor.name for kept in self.stored.values()):
            raise errors.UnsettledError('409')
        self.stored[flavor.id] = dataclasses.replace(
            flavor, extra_specs={}, projects=())
        if fault:
            raise errors.UnsettledError('lost')

    def delete(self, flavor_id):
        fault = self._request('delete')
        if fault is Fault.BEFORE:
            raise errors.UnsettledError('dropped')
        if self.stored.pop(flavor_id, None) is None:
            raise errors.UnsettledError('404')
        if fault:
            raise errors.UnsettledError('lost')

    def set_extra_specs(self, flavor_id, extra_specs):
        self._change('set_extra_specs', flavor_id, lambda flavor: {
            'extra_specs': {**flavor.extra_specs, **extra_specs}})

    def unset_extra_spec(self, flavor_id, key):
        def change(flavor):
            if key not in flavor.extra_specs:
                return None
            return {'extra_specs': {
                name: value for name, value in flavor.extra_specs.items()
                if name != key}}

        self._change('unset_extra_spec', flavor_id, change)

    def set_description(self, flavor_id, description):
        self._change('set_description', flavor_id,
                     lambda flavor: {'description': description})

    def add_project(self, flavor_id, project):
        self._change('add_project', flavor_id, lambda flavor: (
            None if project in flavor.projects else
            {'projects': tuple(sorted({*flavor.projects, project}))}))

    def remove_project(self, flavor_id, project):
        self._change('remove_project', flavor_id, lambda flavor: (
            {'projects': tuple(sorted({*flavor.projects} - {project}))}
            if project in flavor.projects else None))
