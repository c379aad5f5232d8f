# SPDX-License-Identifier: Apache-2.0
"""The engine in the place of nova's own function."""

from typing import Any

from nova_pinning.bridge import numa
from nova_pinning import model


def numa_fit_instance_to_host(
    host_topology: Any, instance_topology: Any, *args: Any, **kwargs: Any,
) -> Any:
    """Stand in for nova.virt.hardware.numa_fit_instance_to_host.

    Unlike nova's, it changes none of its arguments, which are those of
    :func:`nova_pinning.bridge.numa.fit_or_refusal`.

    :returns: nova.objects.InstanceNUMATopology, or None if it does not fit
    """
    outcome = numa.fit_or_refusal(
        host_topology, instance_topology, *args, **kwargs)
    if isinstance(outcome, model.Refusal):
        return None
    return numa.instance_topology_from_fit(instance_topology, outcome)
