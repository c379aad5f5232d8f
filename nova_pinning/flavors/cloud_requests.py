# SPDX-License-Identifier: Apache-2.0
"""Requests to a cloud's APIs: what is sent again, and what errors mean.

Errors are sorted by what helps: errors.UnsettledError where what was asked for
has to be looked at again, errors.RefusedError where the cloud will not do it,
and errors.CloudError where nothing will work.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
from typing import Any
import urllib.parse

from keystoneauth1 import exceptions as ksa_exceptions
from openstack import exceptions as sdk_exceptions

from nova_pinning import errors
from nova_pinning.placement import provider_reader

#: Answers of nova's rate limit.
_TOO_MANY = (413, 429)
#: How often a listing is begun again because its pages changed under it.
_LISTINGS = 5


def got(compute: Any, path: str, **options: Any) -> Any:
    """The body of the answer to a GET.

    :param compute: openstacksdk's proxy of the compute API
    :param options: of the request, besides
    :raises errors.UnsettledError: if what it names is not there
    :raises errors.CloudError: if it is not told for another reason
    """
    with translated():
        response = compute.get(path, **options)
    try:
        with translated():
            sdk_exceptions.raise_from_response(response)
            return response.json()
    except errors.UnsettledError as error:
        if response.status_code == 404:
            raise
        # A conflict, which says nothing of what was asked for.
        raise errors.CloudError(str(error)) from error


def listed(
    read: Callable[[str, Mapping[str, str]], Any], path: str, what: str,
    query: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    """What the compute API lists, page by page, each once.

    What goes away meanwhile may be among it.

    :param read: answers a GET of a path with a query with the body
    :param what: what a page calls them: 'servers'
    :raises errors.CloudError: if they cannot be had
    """
    known: set[str] = set()
    for _listing in range(_LISTINGS):
        try:
            for shown in _pages(read, path, what, query):
                if shown['id'] not in known:
                    known.add(shown['id'])
                    yield shown
            return
        except errors.RefusedError:
            # The last one of a page was deleted before the next was asked for
            # (400).
            if not known:
                raise
    raise errors.CloudError(f'the list of {what} changes faster than it can '
                            'be read')


def _pages(
    read: Callable[[str, Mapping[str, str]], Any], path: str, what: str,
    query: Mapping[str, str],
) -> Iterator[dict[str, Any]]:
    marker: dict[str, str] = {}
    while True:
        body = read(path, {**query, **marker})
        yield from body[what]
        if not body[what] or not body.get(f'{what}_links'):
            return
        last = body[what][-1]['id']
        if last == marker.get('marker'):
            raise errors.CloudError(f'the list of {what} has no end')
        marker = {'marker': last}


def send_once(compute: Any, method: str, path: str, body: Any = None,
              **options: Any) -> None:
    """Send a request that changes something.

    It is sent again only where nova's rate limit has turned it away: how one
    ended whose answer is an error, or never came, has to be looked at.

    :raises errors.UnsettledError: if nobody knows whether nova does it
    :raises errors.RefusedError: if nova will not do it
    """
    try:
        response = compute.request(
            path, method, json=body, connect_retries=0,
            status_code_retries=provider_reader.RETRIES,
            retriable_status_codes=_TOO_MANY, **options)
    except (sdk_exceptions.SDKException, ksa_exceptions.HttpServerError,
            ksa_exceptions.ConnectionError) as error:
        # Keystone's answers too, when a new token is needed.
        raise errors.UnsettledError(str(error)) from error
    except ksa_exceptions.ClientException as error:
        raise errors.CloudError(str(error)) from error
    status = response.status_code
    try:
        with translated():
            sdk_exceptions.raise_from_response(response)
    except errors.UnsettledError:
        raise
    except errors.CloudError as error:
        if status in _TOO_MANY or status >= 500:
            raise errors.UnsettledError(str(error)) from error
        raise


def quoted(part: str) -> str:
    """What stands between slashes of a path."""
    return urllib.parse.quote(part, safe='')


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise errors of openstacksdk and keystoneauth1 as our own."""
    try:
        yield
    except (sdk_exceptions.NotFoundException,
            sdk_exceptions.ConflictException) as error:
        raise errors.UnsettledError(_said(error)) from error
    except sdk_exceptions.BadRequestException as error:
        raise errors.RefusedError(_said(error)) from error
    except sdk_exceptions.HttpException as error:
        raise errors.CloudError(_said(error)) from error
    except (sdk_exceptions.SDKException,
            ksa_exceptions.ClientException) as error:
        raise errors.CloudError(str(error)) from error
    except ValueError as error:
        raise errors.CloudError('an answer is not JSON') from error


def _said(error: sdk_exceptions.HttpException) -> str:
    """What the cloud says, and to which request."""
    if error.response is None:
        return str(error)
    request = error.response.request
    path = urllib.parse.urlsplit(request.url).path
    details = ' '.join(str(error.details or error.response.reason).split())
    said = (f'{request.method} {path}: {error.response.status_code} '
            f'{details.rstrip(".")}')
    if error.response.status_code == 403:
        said += '; an administrator may'
    return said
