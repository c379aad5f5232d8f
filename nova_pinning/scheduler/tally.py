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

"""Why a request found no host, in one line."""

import collections

from nova_pinning import model


class Tally:
    """Counts the refusals of one request by reason.

    Keeps one example of each, so that the line stays short for any number of
    hosts.
    """

    def __init__(self) -> None:
        self._counts: collections.Counter[model.Reason] = (
            collections.Counter())
        self._examples: dict[model.Reason, tuple[str, model.Refusal]] = {}

    def add(self, host_name: str, refusal: model.Refusal) -> None:
        self._counts[refusal.reason] += 1
        self._examples.setdefault(refusal.reason, (host_name, refusal))

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
