# SPDX-License-Identifier: Apache-2.0
"""What the processes tell each other; readable without importing nova."""

import enum
from typing import NamedTuple

from benchmarks.hotspots import setups


class Arrival(NamedTuple):
    """A request.

    :param guest: place in setups.GUESTS
    """

    uuid: str
    guest: int


class Row(NamedTuple):
    """What nova's database has of a host, as nova-compute last wrote it.

    :param uuid: of the compute node and of its resource provider
    """

    uuid: str
    name: str
    numa_topology: str
    memory_mib: int
    memory_used_mib: int
    vcpus_used: int
    guests: int
    failed_builds: int


class State(NamedTuple):
    """What a run has led to.

    :param sold: share of the CPUs that guests have
    :param stranded: share of the CPUs that are free, but on which no guest of
        the largest size in one cell can be put
    :param wrong: what is wrong in the books, in words
    """

    sold: float
    stranded: float
    wrong: tuple[str, ...]


class End(enum.StrEnum):
    """How a request ends."""

    BUILT = 'built'
    #: No valid host.
    REFUSED = 'refused'
    #: The host and its alternates did not take the guest.
    EXHAUSTED = 'exhausted'


class Outcome(NamedTuple):
    """What became of a request.

    :param placement_retries: claims that Placement refused
    :param claim_retries: claims that nova-compute refused
    :param seconds: from the request to its end
    """

    end: End
    placement_retries: int
    claim_retries: int
    seconds: float


class Report(NamedTuple):
    """What one nova-scheduler has done.

    :param errors: what was logged as an error
    """

    outcomes: tuple[Outcome, ...]
    errors: tuple[str, ...]


class Result(NamedTuple):
    """What came of a run.

    :param outcomes: of all requests, in no order
    :param errors: what was logged as an error
    """

    run: setups.Run
    outcomes: tuple[Outcome, ...]
    errors: tuple[str, ...]
    state: State
