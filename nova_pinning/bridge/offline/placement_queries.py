# SPDX-License-Identifier: Apache-2.0
"""What nova-scheduler asks Placement for a server."""

from collections.abc import Mapping
import dataclasses
from typing import Any

import nova.conf
from nova import context as nova_context
from nova.scheduler import request_filter
from nova.scheduler import utils

from nova_pinning.admission import guest_request
from nova_pinning.bridge.offline import nova_capabilities
from nova_pinning.bridge.offline import order

CONF = nova.conf.CONF

#: The trait of every host, once none of an older release is left.
OWNER = 'OWNER_NOVA'

#: Nova's request filters that look at nothing but flavor, image and options.
FILTERS = nova_capabilities.functions(request_filter, (
    'require_image_type_support',
    'compute_status_filter',
    'transform_image_metadata',
    'accelerators_filter',
    'packed_virtqueue_filter',
    'ephemeral_encryption_filter',
    'virtio_sound_filter',
    'tpm_secret_security_filter',
))


@dataclasses.dataclass(frozen=True, slots=True)
class SchedulerQuery:
    """A query with its text.

    :param querystring: as it stands in the URL
    """

    asked: guest_request.CandidatesQuery
    querystring: str

    @property
    def resources(self) -> Mapping[str, int]:
        """Amounts by resource class, of all groups together."""
        return self.asked.resources

    @property
    def required(self) -> tuple[str, ...]:
        """All traits that are required, sorted."""
        return tuple(sorted(self.asked.required))

    @property
    def forbidden(self) -> tuple[str, ...]:
        """All traits that are forbidden, sorted."""
        return tuple(sorted(self.asked.forbidden))


def queries(
    request: order.ApiRequest,
) -> tuple[SchedulerQuery, SchedulerQuery | None]:
    """Both queries of nova-scheduler, see Preview.

    See nova.scheduler.manager.SchedulerManager.select_destinations. All hosts
    are taken to be of this nova's release.

    :raises nova.exception.NovaException: if the flavor is wrong
    """
    spec = order.request_spec(request)
    context = nova_context.RequestContext(is_admin=False)
    for add_to in FILTERS:
        add_to(context, spec)
    if nova_capabilities.REQUIRES_OWNER:
        # For a cloud without hosts of older releases.
        spec.root_required.add(OWNER)
    first = _ask(context, spec, True)
    second = None
    if (first.cpu_pinning_requested and
            not CONF.workarounds.disable_fallback_pcpu_query):
        second = _query(_ask(context, spec, False))
    return _query(first), second


def _ask(context: Any, spec: Any, pcpus: bool) -> Any:
    # The host manager is only asked about hosts that a request names.
    return utils.resources_from_request_spec(
        context, spec, None, enable_pinning_translate=pcpus)


def _query(request: Any) -> SchedulerQuery:
    return SchedulerQuery(
        guest_request.CandidatesQuery(
            groups=tuple(
                guest_request.RequestGroup(
                    suffix or '', tuple(sorted(group.resources.items())),
                    frozenset(group.required_traits),
                    frozenset(group.forbidden_traits))
                for suffix, group in request._rg_by_id.items()),
            root_required=frozenset(request._root_required),
            root_forbidden=frozenset(request._root_forbidden),
            same_subtree=tuple(map(frozenset, request._same_subtree)),
            group_policy=request.group_policy or 'none'),
        querystring=request.to_querystring())
