# SPDX-License-Identifier: Apache-2.0
"""The cloud's APIs, as far as this program needs them itself."""

import functools
import http.client
import json
import typing
import urllib.error
import urllib.request

from minicloud import errors
from minicloud import settings

# What each service's requests begin with, and their media type's version.
PATHS = {'keystone': '/v3', 'placement': '', 'glance': '/v2', 'nova': '/v2.1'}
VERSIONS = {'nova': 'compute 2.98', 'placement': 'placement 1.39'}

Body = dict[str, typing.Any]


class Api:
    """Requests in the name of the administrator."""

    def __init__(self, state: settings.State,
                 settings: settings.Settings) -> None:
        self.state = state
        self.settings = settings

    @functools.cached_property
    def token(self) -> str:
        password = {'user': {'name': 'admin', 'password': self.state.secret,
                             'domain': {'id': 'default'}}}
        body = {'auth': {
            'identity': {'methods': ['password'], 'password': password},
            'scope': {'project': {'name': 'admin',
                                  'domain': {'id': 'default'}}}}}
        with self._open('keystone', 'POST', '/auth/tokens', body) as response:
            return typing.cast(str, response.headers['X-Subject-Token'])

    def get(self, name: str, path: str) -> Body:
        """Return what a GET of a service answers.

        :raises: NotReady
        """
        return self.send(name, 'GET', path)

    def send(self, name: str, method: str, path: str,
             body: Body | bytes | None = None) -> Body:
        """Return what a request is answered with, {} for an empty answer.

        :param name: str, one of PATHS
        :param body: a dict becomes JSON, bytes are sent as they are
        :raises: NotReady
        """
        token = {'X-Auth-Token': self.token}
        with self._open(name, method, path, body, token) as response:
            text = response.read()
        return typing.cast(Body, json.loads(text)) if text else {}

    def _open(self, name: str, method: str, path: str,
              body: Body | bytes | None = None,
              token: dict[str, str] | None = None,
              ) -> http.client.HTTPResponse:
        headers = {**(token or {}), 'Accept': 'application/json'}
        if name in VERSIONS:
            headers['OpenStack-API-Version'] = VERSIONS[name]
        if isinstance(body, dict):
            headers['Content-Type'] = 'application/json'
            body = json.dumps(body).encode()
        elif body is not None:
            headers['Content-Type'] = 'application/octet-stream'
        url = self.settings.url(name) + PATHS[name] + path
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            answer = urllib.request.urlopen(request, timeout=30)
            return typing.cast(http.client.HTTPResponse, answer)
        except urllib.error.HTTPError as e:
            said = e.read().decode(errors='replace')[:300]
            raise errors.NotReady(f'{method} {url}: HTTP status {e.code}: '
                                  f'{said}') from e
        except (OSError, http.client.HTTPException) as e:
            raise errors.NotReady(f'{url}: {e}') from e
