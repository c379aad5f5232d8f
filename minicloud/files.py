# SPDX-License-Identifier: Apache-2.0
"""Files that are replaced as a whole, or not at all."""

import os
import pathlib
import secrets
import string
import tempfile

ETC = pathlib.Path(__file__).with_name('etc')


def write(path: pathlib.Path, text: str, mode: int = 0o600) -> None:
    """Replace a file.

    :raises: OSError
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(descriptor, 'w') as file:
            file.write(text)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def secret(path: pathlib.Path) -> str:
    """Return the password that a file holds, made at random the first time."""
    if not path.exists():
        write(path, secrets.token_hex(16))
    return path.read_text()


def filled(name: str, **values: object) -> str:
    """Return the text of a file that is in etc, with values put in."""
    return string.Template((ETC / name).read_text()).substitute(values)


def ini(sections: dict[str, dict[str, object]]) -> str:
    """Return the text of an oslo.config file.

    :param sections: options by section; a list becomes a line for each
        value, an option that is None is left out
    """
    lines = []
    for section, options in sections.items():
        lines.append(f'[{section}]')
        for name, value in options.items():
            values = value if isinstance(value, list) else [value]
            lines += [f'{name} = {item}'
                      for item in values if item is not None]
        lines.append('')
    return '\n'.join(lines)
