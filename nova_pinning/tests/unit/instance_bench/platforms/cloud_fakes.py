# SPDX-License-Identifier: Apache-2.0
"""A cloud as openstacksdk has it, in which nothing takes any time."""

import types

from openstack import exceptions


def image(**more):
    return types.SimpleNamespace(**{
        'id': 'i', 'name': 'bench', 'status': 'active',
        'hw_qemu_guest_agent': 'yes', **more})


def server(name, status='ACTIVE', **more):
    return types.SimpleNamespace(**{
        'id': f'id-{name}', 'name': name, 'status': status,
        'compute_host': None, 'fault': None, 'metadata': {}, **more})


class Connection:
    """Its compute and images in one, as far as they are used.

    :param fails: names of methods that raise, and IDs of servers that cannot
        be deleted
    :ivar waited: for how many seconds it was to be waited, each time
    :ivar stays: whether servers are there for ever that were deleted
    """

    def __init__(self, *servers, image=image(), sees_hosts=True, fails=()):
        self.compute = self.image = self
        self.there = {server.id: server for server in servers}
        self.waited = []
        self.asked = []
        self.deleted = []
        self.stays = False
        self.is_closed = False
        self._image = image
        self._sees_hosts = sees_hosts
        self._fails = fails

    def _try(self, name):
        if name in self._fails:
            raise exceptions.HttpException(f'{name} fails')

    def servers(self, details, name):
        return list(self.there.values())

    def get_server(self, server_id):
        self._try('get_server')
        return self.there[server_id]

    def wait_for_server(self, server, interval, wait):
        self.waited.append(wait)
        self._try('get_server')
        found = self.there[server.id]
        if found.status == 'BUILD':
            found.status = 'ACTIVE'
        if found.status == 'ERROR':
            raise exceptions.ResourceFailure('it transitioned to ERROR')
        found.compute_host = 'compute-1' if self._sees_hosts else None
        return found

    def wait_for_delete(self, server, interval, wait):
        self.waited.append(wait)
        if self.stays:
            raise exceptions.ResourceTimeout(f'{server.name} is there')
        self.there.pop(server.id, None)

    def delete_server(self, server_id):
        self._try('delete_server')
        self._try(server_id)
        self.deleted.append(server_id)

    def create_server(self, **asked):
        made = server(asked['name'], 'BUILD', metadata=asked['metadata'])
        self.there[made.id] = made
        self.asked.append(asked)
        # The answer may be lost, though the server is made.
        self._try(f'create_server-{len(self.asked)}')
        return made

    def hypervisors(self):
        if not self._sees_hosts:
            raise exceptions.ForbiddenException('no', http_status=403)
        return iter(())

    def get_endpoint_data(self):
        self._try('get_endpoint_data')
        return types.SimpleNamespace(max_microversion=(2, 98))

    def find_image(self, name, ignore_missing):
        self._try('find_image')
        return self._image

    def close(self):
        self.is_closed = True
