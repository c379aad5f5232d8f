# SPDX-License-Identifier: Apache-2.0
"""Two requests to a real Placement for the last CPU of a host.

It is a program of its own, since Placement has one database in a process:
``python -m nova_pinning.tests.placement_race URL``. The first
request checks that there is room; before it writes the generation of the
provider, the second one is served as a whole. That is how they may well come
together when servers are booted at once; here it happens each time.

What it prints, as JSON: the HTTP statuses of both, and how much of the one CPU
Placement says is used in the end.
"""

import argparse
import json
import threading
import uuid

from oslo_config import cfg
from placement import conf
from placement.db.sqlalchemy import migration
from placement import db_api
from placement import deploy
from placement.objects import resource_provider
import webob

PROVIDER = str(uuid.UUID(int=1))
CPUS = 1


class Application:
    """A Placement, in this process."""

    def __init__(self, url: str, retries: int | None) -> None:
        config = cfg.ConfigOpts()
        conf.register_opts(config)
        config.set_override('connection', url, 'placement_database')
        config([], default_config_files=[])
        config.set_override('auth_strategy', 'noauth2', 'api')
        if retries is not None:
            config.set_override(
                'allocation_conflict_retry_count', retries, 'placement')
        db_api.configure(config)
        migration.upgrade('head')
        self._application = deploy.loadapp(config)

    def send(self, method: str, path: str, body: object = None) -> (
            webob.Response):
        request = webob.Request.blank(path, method=method, headers={
            'X-Auth-Token': 'admin', 'OpenStack-API-Version': 'placement 1.39',
            'Content-Type': 'application/json'})
        if body is not None:
            request.json_body = body
        return request.get_response(self._application)

    def claim(self, consumer: str) -> webob.Response:
        """Ask for a CPU, as nova-scheduler does."""
        return self.send('PUT', f'/allocations/{consumer}', {
            'allocations': {PROVIDER: {'resources': {'PCPU': CPUS}}},
            'project_id': 'project', 'user_id': 'user',
            'consumer_generation': None, 'consumer_type': 'INSTANCE'})


def race(placement: Application) -> dict[str, object]:
    """Have the second request come between the steps of the first."""
    placement.send('POST', '/resource_providers',
                   {'name': 'host', 'uuid': PROVIDER})
    placement.send('PUT', f'/resource_providers/{PROVIDER}/inventories', {
        'resource_provider_generation': 0,
        'inventories': {'PCPU': {'total': CPUS}}})
    # Rows on either side of each consumer's, as on a cloud that is in use:
    # between the same two rows, InnoDB lets only one transaction write.
    for number in (0, 2, 4):
        other = str(uuid.UUID(int=10 + number))
        placement.send('POST', '/resource_providers',
                       {'name': other, 'uuid': other})
        placement.send('PUT', f'/resource_providers/{other}/inventories', {
            'resource_provider_generation': 0,
            'inventories': {'DISK_GB': {'total': 1}}})
        placement.send('PUT', f'/allocations/{uuid.UUID(int=100 + number)}', {
            'allocations': {other: {'resources': {'DISK_GB': 1}}},
            'project_id': 'project', 'user_id': 'user',
            'consumer_generation': None, 'consumer_type': 'INSTANCE'})
    first, second = (str(uuid.UUID(int=100 + number)) for number in (1, 3))
    increment = resource_provider.ResourceProvider.increment_generation
    answers: list[webob.Response] = []

    def wait_for_second(provider):
        resource_provider.ResourceProvider.increment_generation = increment
        thread = threading.Thread(
            target=lambda: answers.append(placement.claim(second)))
        thread.start()
        thread.join()
        increment(provider)

    resource_provider.ResourceProvider.increment_generation = wait_for_second
    answers.insert(0, placement.claim(first))
    usages = placement.send('GET', f'/resource_providers/{PROVIDER}/usages')
    return {'statuses': [answer.status_int for answer in answers],
            'errors': [answer.json['errors'][0]['code']
                       for answer in answers if answer.status_int != 204],
            'total': CPUS, 'used': usages.json['usages']['PCPU']}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('url', help='of an empty database')
    parser.add_argument('--retries', type=int, metavar='N',
                        help='[placement] allocation_conflict_retry_count')
    options = parser.parse_args()
    print(json.dumps(race(Application(options.url, options.retries))))


if __name__ == '__main__':
    main()
