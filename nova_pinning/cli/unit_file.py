# SPDX-License-Identifier: Apache-2.0
"""Units of systemd for our services, as the installation that runs has them.

pip installs to /usr/local, to a virtual environment or below a home directory,
and a unit that names another place does not start.
"""

from collections.abc import Iterable
from importlib import resources
import os
import re
import sys

import nova_pinning

_NEEDS_QUOTES = re.compile(r'[^\w@%+=:,./$-]')
# What ProtectHome= and PrivateTmp= hide.
_HOMES = ('/home', '/root', '/run/user')
_TEMPORARY = ('/tmp', '/var/tmp')


def text(command: str, configured: Iterable[str],
         files: Iterable[str] = (), written: Iterable[str] = ()) -> str:
    """The unit of a command that is a service.

    :param configured: paths of configuration files that it is given
    :param files: paths of others that are read
    :param written: paths of files that it replaces, other than below
        /run/nova-pinning
    """
    program = _program()
    configured = [os.path.abspath(path) for path in configured]
    writable = sorted({os.path.dirname(path) for path in written})
    places = [
        program[0], os.path.realpath(sys.executable), sys.prefix,
        *nova_pinning.__path__, *files, *writable, *configured]
    is_in_home = _are_below(places, _HOMES)
    words = [*program[1:], command, *(
        word for path in configured for word in ('--config-file', path))]
    template = resources.files(__package__).joinpath(
        'units', f'nova-pinning-{command}.service').read_text('utf-8')
    return template.format(
        command=' '.join((_quoted(program[0]), *(
            _quoted(word).replace('$', '$$') for word in words))),
        protect_home='read-only' if is_in_home else 'yes',
        # Or not even root could look into the homes of others.
        read_search=' CAP_DAC_READ_SEARCH' if is_in_home else '',
        private_tmp='no' if _are_below(places, _TEMPORARY) else 'yes',
        writable=''.join(f'ReadWritePaths=-{_quoted(path)}\n'
                         for path in writable))


def _program() -> list[str]:
    """What has started this process."""
    script = os.path.abspath(sys.argv[0])
    if script.endswith('/nova-pinning') and os.access(script, os.X_OK):
        return [script]
    return [sys.executable, '-m', 'nova_pinning.cli.shell']


def _are_below(paths: Iterable[str], roots: Iterable[str]) -> bool:
    return any(f'{path}/'.startswith(f'{root}/')
               for path in paths for root in roots)


def _quoted(word: str) -> str:
    """A word as systemd reads it; see systemd.syntax(7)."""
    word = word.replace('\\', r'\\').replace('%', '%%').replace('"', r'\"')
    return f'"{word}"' if _NEEDS_QUOTES.search(word) else word
