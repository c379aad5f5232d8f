# SPDX-License-Identifier: Apache-2.0
"""A cloud's flavors, in memory, that goes wrong when told to."""

import dataclasses
import enum

from nova_pinning import errors
from nova_pinning.model import nova_release


class Fault(enum.Enum):
    """What may befall a request that changes something."""

    #: It never arrives.
    BEFORE = 'before'
    #: It is done, and the answer is lost.
    AFTER = 'after'
    #: It arrives twice, and the second answer is the one that comes back.
    TWICE = 'twice'
    #: It is answered with a status, and nothing is done.
    BAD_REQUEST = 400
    FORBIDDEN = 403
    NOT_FOUND = 404
    CONFLICT = 409
    TOO_LARGE = 413
    ERROR = 500
    #: Whoever sent it dies, before it arrives or after it was done.
    KILLED_BEFORE = 'killed before'
    KILLED_AFTER = 'killed after'

    @property
    def is_settled(self):
        """Whether another try gets over it."""
        return self not in (Fault.BAD_REQUEST, Fault.FORBIDDEN, *KILLS)


KILLS = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)
_ERRORS = {Fault.BAD_REQUEST: errors.RefusedError,
           Fault.FORBIDDEN: errors.CloudError}


class Killed(BaseException):
    """The process is no more."""


class FakeCloud:
    """A flavor_cloud.FlavorCloud, doing what nova does.

    :ivar stored: the flavors by id
    :ivar used: the ids of those that servers use
    :ivar copies: the extra specs that these servers have, by id, where they
        are other than those of the flavor
    :ivar resized: the ids of those that servers may go back to
    :ivar unknown: extra specs that it refuses
    :ivar requests: names of the methods that were called, reading included
    :ivar writes: what was changed: the method, and the flavor's name
    :ivar hook: called with the number of each request
    :ivar faults: by the number of the request
    """

    name = 'fake'

    def __init__(self, flavors=(), used=(), resized=()):
        self.stored = {flavor.id: flavor for flavor in flavors}
        self.used = set(used)
        self.copies = {}
        self.resized = set(resized)
        self.unknown = set()
        self.requests = []
        self.writes = []
        self.faults = {}
        self.hook = None
        self.is_dead = False

    def state(self):
        """What users see of it."""
        return {flavor.name: dataclasses.replace(
                    flavor, extra_specs=dict(flavor.extra_specs))
                for flavor in self.stored.values()}

    def visible(self):
        """The flavors that any project can use, by name."""
        return {name: flavor for name, flavor in self.state().items()
                if flavor.is_public or flavor.projects}

    def _request(self, name):
        number = len(self.requests)
        self.requests.append(name)
        if self.hook:
            self.hook(number)
        if self.is_dead:
            raise Killed
        return self.faults.pop(number, None)

    def _write(self, name, flavor_name, change):
        """Change something.

        :param change: does it, or raises where nova refuses
        """
        fault = self._request(name)
        self.is_dead = fault in KILLS
        if fault is Fault.KILLED_BEFORE:
            raise Killed
        if fault is Fault.BEFORE or isinstance(
                fault and fault.value, int):
            raise _ERRORS.get(fault, errors.UnsettledError)(str(fault))
        change()
        self.writes.append((name, flavor_name))
        if fault is Fault.TWICE:
            change()
        if fault is Fault.KILLED_AFTER:
            raise Killed
        if fault is Fault.AFTER:
            raise errors.UnsettledError('lost')

    def _change(self, name, flavor_id, change):
        """Change a flavor.

        :param change: from the flavor to its changed fields, or None where
            nova refuses
        """
        def do():
            flavor = self.stored.get(flavor_id)
            changes = change(flavor) if flavor else None
            if changes is None:
                raise errors.UnsettledError('404 or 409')
            self.stored[flavor_id] = dataclasses.replace(flavor, **changes)

        self._write(name, self._name(flavor_id), do)

    def _name(self, flavor_id):
        flavor = self.stored.get(flavor_id)
        return flavor.name if flavor else ''

    def microversion(self):
        return nova_release.NEWEST.microversion

    def flavors(self, with_projects):
        self._request('flavors')
        return tuple(
            flavor if with_projects(flavor)
            else dataclasses.replace(flavor, projects=())
            for flavor in self.stored.values())

    def flavor(self, flavor_id):
        self._request('flavor')
        return self.stored.get(flavor_id)

    def servers(self, flavor_id):
        self._request('servers')
        return ('guest (1)',) if flavor_id in self.used else ()

    def own_extra_specs(self, flavor_id):
        self._request('own_extra_specs')
        if flavor_id not in self.used:
            return ()
        return (('guest (1)', self.copies.get(
            flavor_id, self.stored[flavor_id].extra_specs)),)

    def resizing(self, flavor):
        self._request('resizing')
        return ('moving (2)',) if flavor.id in self.resized else ()

    def create(self, flavor):
        def do():
            if flavor.id in self.stored or any(
                    kept.name == flavor.name for kept in self.stored.values()):
                raise errors.UnsettledError('409')
            self.stored[flavor.id] = dataclasses.replace(
                flavor, extra_specs={}, projects=())

        self._write('create', flavor.name, do)

    def delete(self, flavor_id):
        def do():
            if self.stored.pop(flavor_id, None) is None:
                raise errors.UnsettledError('404')

        self._write('delete', self._name(flavor_id), do)

    def set_extra_specs(self, flavor_id, extra_specs):
        def change(flavor):
            if self.unknown & set(extra_specs):
                raise errors.RefusedError('no such extra spec')
            return {'extra_specs': {**flavor.extra_specs, **extra_specs}}

        self._change('set_extra_specs', flavor_id, change)

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
            None if flavor.is_public or project in flavor.projects else
            {'projects': tuple(sorted({*flavor.projects, project}))}))

    def remove_project(self, flavor_id, project):
        self._change('remove_project', flavor_id, lambda flavor: (
            {'projects': tuple(sorted({*flavor.projects} - {project}))}
            if project in flavor.projects else None))
