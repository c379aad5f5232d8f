# SPDX-License-Identifier: Apache-2.0
"""The agent's decisions on machines of which there are dumps of /sys.

python -m nova_pinning.tests.oracle.agent_hosts DIRECTORY ..., each the root of
a dump. Each machine gets a plan for guests of both classes, then guests at
random; no thread and no interrupt may be sent anywhere but to CPUs that the
plan has for it, and who floats must have room.
"""

import argparse
import random
import sys

from nova_pinning.agent import agent_model
from nova_pinning.agent import decision
from nova_pinning.agent import home_domains
from nova_pinning.agent import host_reading
from nova_pinning.agent import kernel_files
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import discover
from nova_pinning.host.plan import plan_request
from nova_pinning.host.plan import planner

_ROUNDS = 20


class Violation(AssertionError):
    """Something that must never be."""


def replay(root: str, seed: int) -> str:
    """Decide for one machine; returns what it was in a line.

    :raises Violation: if something is wrong
    :raises errors.InputError: if there is no plan for it
    """
    dice = random.Random(seed)
    files = kernel_files.WritableTree(root)
    found = discover.discover_host(files, 'dump')
    planned = planner.plan(found, plan_request.PlanOptions(
        shared_cpus=max(1, len(found.cpus) // 4)))
    host = host_reading.read(files, planned)
    homes, decided = home_domains.HomeDomains(), 0
    for number in range(_ROUNDS):
        guests = [_guest(host, dice, index) for index in range(10)]
        desired = decision.decide(
            host, guests, decision.Scheme(), homes, {
                guest.uuid: decision.Activity(
                    dice.random() * len(guest.vcpus)) for guest in guests},
            {}, 3600.0 * number)
        decided += len(desired.settings)
        for setting, cpus in desired.settings.items():
            if not cpus or not cpus.issubset(
                    host.host_cpus | host.shared_cpus):
                raise Violation(f'{setting} is to be on {cpus}')
        for guest in guests:
            home = homes.homes.get(guest.uuid)
            if home and len(guest.vcpus) > len(cpuset.union(
                    host.l3_domains[one] for one in home) & guest.cpus):
                raise Violation(f'{guest.name} has no room in {home}')
    return (f'{len(found.cpus)} CPUs, {len(host.nodes)} nodes, '
            f'{len(host.l3_domains)} L3 domains, {len(host.nics)} cards: '
            f'{decided:,} settings')


def _guest(host: agent_model.AgentHost, dice: random.Random,
           index: int) -> agent_model.AgentGuest:
    pid = 1000 * (index + 1)
    dedicated = sorted(host.dedicated_cpus)
    count = min(dice.choice((1, 2, 4, 8)), len(dedicated))
    if index % 2 and dedicated:
        vcpus = {number: cpuset.CpuSet([cpu]) for number, cpu
                 in enumerate(dice.sample(dedicated, count))}
    else:
        vcpus = dict.fromkeys(range(max(1, count)), host.shared_cpus)
    return agent_model.AgentGuest(
        f'uuid-{index}', f'guest-{index}', pid, vcpus,
        cpuset.union(vcpus.values()),
        vcpu_tasks=frozenset(range(pid + 1, pid + 1 + count)),
        vhost=frozenset([pid + 100]), emulator_tasks=frozenset([pid]),
        interfaces=dice.randrange(3))


def main(arguments: list[str] | None = None) -> int:
    """1 if something is wrong anywhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('roots', nargs='+', metavar='DIRECTORY')
    status = 0
    for root in parser.parse_args(arguments).roots:
        try:
            print(f'{root}: {replay(root, 1)}')
        except errors.InputError as error:
            print(f'{root}: no plan: {error}')
        except Violation as error:
            status = 1
            print(f'{root}: WRONG: {error}')
    return status


if __name__ == '__main__':
    sys.exit(main())
