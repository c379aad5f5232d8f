# SPDX-License-Identifier: Apache-2.0
"""Files that are replaced as a whole, or not at all."""

import configparser
import os
import pathlib
import secrets
import string
import tempfile

#: Options of an oslo.config file by section.
Sections = dict[str, dict[str, object]]

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


def options(name: str, **values: object) -> Sections:
    """Return the options of an oslo.config file that is in etc.

    :param values: put in
    """
    parser = configparser.RawConfigParser(default_section='')
    parser.read_string(filled(name, **values))
    return {section: dict(parser[section]) for section in parser.sections()}


def merged(*files: Sections) -> Sections:
    """Return what several files come to: the last that has an option wins."""
    made: Sections = {}
    for sections in files:
        for section, options in sections.items():
            made.setdefault(section, {}).update(options)
    return made


def ini(*files: Sections) -> str:
    """Return the text of an oslo.config file.

    :param files: options by section, of which the last that has one wins; a
        list becomes a line for each value, an option that is None is left out
    """
    lines = []
    for section, options in merged(*files).items():
        lines.append(f'[{section}]')
        for name, value in options.items():
            values = value if isinstance(value, list) else [value]
            lines += [f'{name} = {item}'
                      for item in values if item is not None]
        lines.append('')
    return '\n'.join(lines)
