#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Count the lines of code that the project consists of, by room.

Lines with a token on them count: no comments, docstrings or blank lines, and
no tests.
"""

import argparse
import collections
import pathlib
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What is generated, and tests; what is installed is in hidden directories.
SKIPPED = frozenset({'build', 'tests'})
NO_CODE = frozenset({
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT,
    tokenize.DEDENT, tokenize.ENDMARKER})


def product_files(root: pathlib.Path) -> list[pathlib.Path]:
    """Return all Python files below a directory that are no tests."""
    return sorted(
        path for path in root.rglob('*.py') if not any(
            part in SKIPPED or part.startswith('.')
            for part in path.relative_to(root).parts))


def code_lines(path: pathlib.Path) -> int:
    """Count the lines of a file that are neither blank, comment nor docstring.

    :raises SyntaxError, tokenize.TokenError: it is no Python
    """
    lines: set[int] = set()
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            is_docstring = (token.type == tokenize.STRING and
                            token.line.lstrip().startswith(('"""', 'r"""')))
            if token.type not in NO_CODE and not is_docstring:
                lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def room(path: pathlib.Path) -> str:
    """Name what a file belongs to, by its path below the root."""
    if path.parts[0] == 'nova_pinning':
        return '/'.join(path.with_suffix('').parts[:2])
    return path.parts[0]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        'root', nargs='?', type=pathlib.Path, default=ROOT, metavar='CHECKOUT',
        help='where to count (default: here)')
    parser.add_argument(
        '--longer-than', type=int, metavar='LINES',
        help='list the files of more lines than that instead, blank ones and '
             'all; exit status 1 if there are any')
    arguments = parser.parse_args()
    root = arguments.root
    if not root.is_dir():
        parser.error(f'{root} is no directory')
    rows: collections.Counter[str] = collections.Counter()
    for path in product_files(root):
        name = path.relative_to(root)
        try:
            if arguments.longer_than is None:
                rows[room(name)] += code_lines(path)
            elif (length := len(path.read_bytes().splitlines())
                  ) > arguments.longer_than:
                rows[str(name)] = length
        except (OSError, SyntaxError, tokenize.TokenError) as error:
            parser.error(f'{path}: {error}')
    if arguments.longer_than is None:
        print(f'{rows.total():7,} in all')
    for what, count in rows.most_common():
        print(f'{count:7,} {what}')
    return int(arguments.longer_than is not None and bool(rows))


if __name__ == '__main__':
    sys.exit(main())
