# SPDX-License-Identifier: Apache-2.0
"""Hosts that are kept for guests of lost hosts, and who those are.

Nothing in a RequestSpec tells an evacuation from other moves. But nova-api
evacuates guests only from hosts whose nova-compute is down, and refuses to
move them otherwise from there (nova.compute.api.API.evacuate, and
check_instance_host of the others). Nova-conductor excludes the host that is
left, so that is known.

Nova-scheduler loads this only where there is a reserve.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from nova import context as nova_context
from nova import exception
from nova import objects
from nova import servicegroup

from nova_pinning.model import reserve
from nova_pinning.scheduler import requests

#: How long a host stays lost: for the guests that are evacuated after one.
_KNOWN_SECONDS = 5.0

#: When it was asked of each host that is lost.
_lost: dict[str, float] = {}
_lock = threading.Lock()


def is_last(host_state: Any, request: requests.PinningRequest) -> bool | None:
    """Whether a host is the last choice for a guest.

    :param host_state: nova.scheduler.host_manager.HostState
    :returns: False if it is none at all, None if it is like any other
    :raises Exception: if nova's databases cannot be read
    """
    use = reserve.use_of(host_state.aggregates)
    if request.left_host and not is_lost(request.left_host):
        # For the other hosts it is not asked again; for other requests it is,
        # since the host may be lost then.
        request.left_host = ''
    if use is None or request.left_host:
        return None
    # Guests without NUMA topology have no fit, which a last choice takes.
    return (use is reserve.ReserveUse.LAST
            and request.spec_topology is not None)


def is_lost(host: str) -> bool:
    """Whether the nova-compute of a host is down, or was forced to be.

    :param host: its name
    :raises Exception: if nova's databases cannot be read
    """
    now = time.monotonic()
    with _lock:
        if now - _lost.get(host, -_KNOWN_SECONDS) >= _KNOWN_SECONDS:
            _lost.clear()
            if not _is_down(host):
                return False
            _lost[host] = now
        return True


def forget() -> None:
    """Ask anew."""
    with _lock:
        _lost.clear()


def _is_down(host: str) -> bool:
    context = nova_context.get_admin_context()
    try:
        mapping = objects.HostMapping.get_by_host(context, host)
        with nova_context.target_cell(
                context, mapping.cell_mapping) as in_cell:
            service = objects.Service.get_by_compute_host(in_cell, host)
    except (exception.HostMappingNotFound, exception.ComputeHostNotFound):
        return False
    return service is None or not servicegroup.API().service_is_up(service)
