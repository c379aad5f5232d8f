# SPDX-License-Identifier: Apache-2.0
"""The page: its document, its style and its script in one HTML file.

Nothing is asked of any other place, and the content security policy sees to
that. What comes from the cloud stands in the document alone, which the
browser takes for data; the script shows it as text.
"""

import base64
import hashlib
from importlib import resources
import json
import string
from typing import Any

#: In this order they are one script.
SCRIPTS = ('model.js', 'drawing.js', 'grid.js', 'overview.js', 'detail.js',
           'fit.js', 'plan.js', 'main.js')
_STYLE = 'page.css'
_TEMPLATE = 'page.html'
# What could end the element that the document is in.
_ESCAPES = {ord(letter): f'\\u{ord(letter):04x}'
            for letter in '<>&\u2028\u2029'}


def render(document: dict[str, Any]) -> str:
    """The page of a document that ``page_data`` made, as HTML."""
    style = _resource(_STYLE)
    script = '\n'.join(
        ["'use strict';", '(() => {', *map(_resource, SCRIPTS), '})();'])
    return string.Template(_resource(_TEMPLATE)).substitute(
        policy=policy(style, script), style=style, script=script,
        document=json.dumps(
            document, ensure_ascii=False, separators=(',', ':'),
        ).translate(_ESCAPES))


def policy(style: str, script: str) -> str:
    """The content security policy: this style and this script, no more."""
    return '; '.join((
        "default-src 'none'", f"script-src '{_digest(script)}'",
        f"style-src '{_digest(style)}'", "base-uri 'none'",
        "form-action 'none'", "require-trusted-types-for 'script'"))


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f'sha256-{base64.b64encode(digest).decode()}'


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text('utf-8')
