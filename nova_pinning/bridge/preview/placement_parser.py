# SPDX-License-Identifier: Apache-2.0
"""What Placement says to a query before it looks for anything.

Placement's own parser reads it, as the handler of GET /allocation_candidates
has it done (placement.handlers.allocation_candidate).
"""

import microversion_parse
from placement import lib
from placement import microversion
from placement.schemas import allocation_candidate as schema
from placement import util
import webob

#: What nova-scheduler asks with (nova.scheduler.client.report).
_VERSION = microversion_parse.Version(1, 36)
_VERSION.max_version = _VERSION


def refusal(querystring: str) -> str:
    """Why Placement answers a query with status 400, '' if it does not.

    Whether it knows the traits and resource classes is not looked at.

    :param querystring: as it stands in the URL
    """
    request = webob.Request.blank(f'/allocation_candidates?{querystring}')
    request.environ[microversion.MICROVERSION_ENVIRON] = _VERSION
    try:
        util.validate_query_params(request, schema.GET_SCHEMA_1_36)
        params = lib.RequestWideParams.from_request(request)
        groups = lib.RequestGroup.dict_from_request(request, params)
    except webob.exc.HTTPBadRequest as error:
        return ' '.join(str(error.detail).split()).rstrip('.')
    numbered = [group for group in groups.values()
                if group.use_same_provider]
    if len(numbered) > 1 and not params.group_policy:
        return 'several request groups need a group_policy'
    return ''
