# SPDX-License-Identifier: Apache-2.0
"""Why a request found no host, in one line."""

from __future__ import annotations

import collections
from collections.abc import Mapping

from nova_pinning import model


class RefusalTally:
    """Counts the refusals of one request by reason.

    Keeps one example of each, so that the line stays short for any number of
    hosts.
    """

    def __init__(self) -> None:
        self._counts: collections.Counter[model.Reason] = (
            collections.Counter())
        self._examples: dict[model.Reason, tuple[str, model.Refusal]] = {}
        self._refusals: dict[str, model.Refusal] = {}

    def add(self, host_name: str, refusal: model.Refusal) -> None:
        self._counts[refusal.reason] += 1
        self._examples.setdefault(refusal.reason, (host_name, refusal))
        self._refusals[host_name] = refusal

    def refusal(self, host_name: str) -> model.Refusal | None:
        """What was added last of a host."""
        return self._refusals.get(host_name)

    def discard(self, host_name: str) -> None:
        """Take back what was added last of a host, which passes after all."""
        refusal = self._refusals.pop(host_name, None)
        if refusal is None:
            return
        reason = refusal.reason
        self._counts[reason] -= 1
        self._counts += collections.Counter()
        if self._examples[reason][0] == host_name:
            del self._examples[reason]
            for other in self._refusals.items():
                if other[1].reason is reason:
                    self._examples[reason] = other
                    break

    @property
    def hosts(self) -> int:
        """How many hosts there are in it."""
        return sum(self._counts.values())

    @property
    def counts(self) -> Mapping[model.Reason, int]:
        """Hosts by reason."""
        return self._counts

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __str__(self) -> str:
        parts = []
        for reason, count in self._counts.most_common():
            host_name, refusal = self._examples[reason]
            hosts = 'host' if count == 1 else 'hosts'
            example = f'{host_name}: {refusal.figures}'.removesuffix(': ')
            parts.append(
                f'{count} {hosts}: {model.summarise(reason)} ({example})')
        return '; '.join(parts)
