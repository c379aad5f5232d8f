# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Neutron: every list is empty, nothing can be made.

usage: python neutron.py ADDRESS PORT
"""

import http.server
import json
import sys


def answer(path: str) -> tuple[int, dict[str, object]]:
    """Return the status and body of the answer to a GET.

    :param path: str, such as /v2.0/ports?device_id=...
    """
    parts = path.partition('?')[0].strip('/').split('/')
    if parts == ['']:
        return 200, {'versions': [{'id': 'v2.0', 'status': 'CURRENT',
                                   'links': []}]}
    if parts[0] != 'v2.0':
        return 404, _error(path)
    if len(parts) == 1:
        return 200, {'resources': []}
    if parts[1] == 'quotas':
        return 200, {'quota': {}}
    if len(parts) == 2:
        return 200, {parts[1].replace('-', '_'): []}
    return 404, _error(path)


def _error(path: str) -> dict[str, object]:
    return {'NeutronError': {'type': 'NotFound', 'detail': '',
                             'message': f'{path} could not be found.'}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self) -> None:
        self._send(*answer(self.path))

    def _refuse(self) -> None:
        length = int(self.headers.get('Content-Length') or 0)
        self.rfile.read(length)
        self._send(403, {'NeutronError': {
            'type': 'Forbidden', 'detail': '',
            'message': 'This stand-in for Neutron is read-only.'}})

    do_POST = do_PUT = do_DELETE = _refuse

    def _send(self, status: int, body: dict[str, object]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def main(arguments: list[str]) -> None:
    address, port = arguments
    server = http.server.ThreadingHTTPServer((address, int(port)), Handler)
    server.serve_forever()


if __name__ == '__main__':
    main(sys.argv[1:])
