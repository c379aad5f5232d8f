# SPDX-License-Identifier: Apache-2.0
"""Nova's compute API and Placement over real HTTP, with faults.

Both on one loopback port.
"""

import enum
from http import server
import threading

import fixtures
from placement import deploy
import webob


_PLACEMENT = '/placement'
#: Only says that it is there: nobody is asked for a name or a password.
_IDENTITY = '/identity/v3'


class Fault(enum.Enum):
    """What may befall a request."""

    CONFLICT = 409
    TOO_MANY = 429
    ERROR = 500
    #: The connection ends before nova has seen the request,
    DROPPED = 'dropped'
    #: or after, so that the client never gets the answer.
    LOST = 'lost'


class ApiServer(fixtures.Fixture):
    """A cloud's compute API at ``url``, for an administrator.

    Its Placement is at ``placement_url``. Requests to both are counted from 0
    since :meth:`restart`, and listed in ``requests`` as (method, path);
    ``statuses`` are those of the answers that were sent.

    :param nova: an operated_cloud.Cloud
    """

    def __init__(self, nova):
        super().__init__()
        self._app = nova.stage.api_fixture.app()
        self._placement = deploy.deploy(
            nova.stage.placement.fixture.conf_fixture.conf)
        self._project = nova.stage.api_fixture.project_id
        self._lock = threading.Lock()
        self.restart()

    def restart(self, fault=None, at=(), before=None):
        """Forget what was counted.

        :param fault: what is to happen
        :param at: to which requests, by their numbers
        :param before: called with the number of each request
        """
        self.requests = []
        self.statuses = []
        self._fault = fault
        self._at = at
        self._before = before

    def _setUp(self):
        self._server = server.ThreadingHTTPServer(
            ('127.0.0.1', 0), self._handler())
        self._server.daemon_threads = True
        thread = threading.Thread(target=self._server.serve_forever,
                                  kwargs={'poll_interval': 0.05})
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self._server.server_close)
        self.addCleanup(self._server.shutdown)
        self._root = f'http://127.0.0.1:{self._server.server_port}'
        self.url = f'{self._root}/v2.1'
        self.placement_url = f'{self._root}{_PLACEMENT}'
        self.identity_url = f'{self._root}{_IDENTITY}'

    def _handler(self):
        api = self

        class Handler(server.BaseHTTPRequestHandler):
            # So that connections are kept, as real clouds do.
            protocol_version = 'HTTP/1.1'
            # An answer in one piece, at once.
            wbufsize = -1
            disable_nagle_algorithm = True

            def handle_any(self):
                size = int(self.headers.get('Content-Length') or 0)
                body = self.rfile.read(size)
                with api._lock:
                    response = api._answer(self, body)
                if response is None:
                    self.close_connection = True
                    return
                api.statuses.append(response.status_code)
                self.send_response_only(response.status_code)
                headers = dict(response.headers)
                headers['Content-Length'] = str(len(response.body))
                for key, value in headers.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(response.body)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

            def log_message(self, *args):
                pass

        return Handler

    def _answer(self, handler, body):
        number = len(self.requests)
        self.requests.append((handler.command, handler.path))
        if self._before:
            self._before(number)
        fault = self._fault if number in self._at else None
        if fault is Fault.DROPPED:
            return None
        if fault and isinstance(fault.value, int):
            headers = {'Retry-After': '7'} if fault is Fault.TOO_MANY else {}
            return webob.Response(
                status=fault.value, headers=headers, content_type='text/plain',
                charset='utf-8', text='a fault of the test')
        request = webob.Request.blank(
            handler.path, method=handler.command, body=body,
            headers=dict(handler.headers), base_url=self._root)
        if request.path_info.split('/')[1] == _PLACEMENT[1:]:
            request.path_info_pop()
            request.headers['X-Auth-Token'] = 'admin'
            response = request.get_response(self._placement)
        elif request.path_info.startswith(_IDENTITY):
            response = webob.Response(json={'version': {
                'id': 'v3.14', 'status': 'stable',
                'links': [{'rel': 'self', 'href': self.identity_url}]}})
        else:
            request.headers.update({
                'X-Auth-User': 'admin',
                'X-Auth-Project-Id': self._project,
                'X-Roles': 'reader,member,admin'})
            response = request.get_response(self._app)
        return None if fault is Fault.LOST else response
