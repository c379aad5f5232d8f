# SPDX-License-Identifier: Apache-2.0
"""What guests take of providers that several hosts share.

What a host says is held of such a provider has in it what the guests of the
others have, so that each guest that comes or goes changes it for all of them.

While a guest is migrated, live or cold, its migration has in Placement what it
has on its host, and the guest itself what it gets on the other: of a provider
that both share that is twice the amount, until the migration is over.
"""

from collections.abc import Iterable
from collections.abc import Iterator

from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.admission import resident_guest


class SharedProviders:
    """The providers that share with hosts of a fleet."""

    def __init__(self, hosts: Iterable[offered_host.OfferedHost]) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._places: dict[str, list[tuple[str, int]]] = {}
        for host in self._hosts.values():
            for index, child in enumerate(host.children, 1):
                if child.is_shared and child.uuid:
                    self._places.setdefault(child.uuid, []).append(
                        (host.name, index))

    def taken(
        self, guest: resident_guest.ResidentGuest,
    ) -> Iterator[tuple[str, str, int, outcome.Amounts]]:
        """What a guest takes of them, for each host that has it.

        :returns: a provider's UUID, the name of a host that it shares with,
            its index there, and the amounts
        """
        for index, amounts in guest.allocations if self._places else ():
            uuid = self._hosts[guest.host].children[index - 1].uuid
            for name, place in self._places.get(uuid, ()):
                yield uuid, name, place, amounts
