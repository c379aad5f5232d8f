# SPDX-License-Identifier: Apache-2.0
"""What running an experiment needs of the world around it."""

from collections.abc import Callable
from collections.abc import Mapping
import contextlib
import dataclasses

from nova_pinning import cpuset

#: Sees that what runs beside a command still does; raises WorkloadError.
Check = Callable[[], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """What a run needs of the world.

    :param monotonic: a clock in seconds, as ``time.monotonic``
    :param now: seconds since the epoch
    :param load: of the host, one minute's
    :param peer: runs a command of the shell on CPUs of the host
    :param bind: has the controller, which looks at instances, run on CPUs of
        the host and on no others; on any if there are none, or if that
        cannot be done
    :param steal: what CPUs of the host have counted of stolen time
    :param idle: for how many seconds each CPU has been idle, or, if told to,
        handled interrupts, by its number
    """

    monotonic: Callable[[], float]
    now: Callable[[], float]
    sleep: Callable[[float], None]
    load: Callable[[], float]
    peer: Callable[[str, cpuset.CpuSet],
                   contextlib.AbstractContextManager[Check]]
    bind: Callable[[cpuset.CpuSet], contextlib.AbstractContextManager[str]]
    steal: Callable[[cpuset.CpuSet], Mapping[str, float]]
    idle: Callable[[bool], Mapping[int, float]]
