# SPDX-License-Identifier: Apache-2.0
"""YAML whose text no reader takes for anything else."""

import re
from typing import Any

import yaml

# PyYAML puts quotes where YAML 1.1 needs them. What YAML 1.2 takes for a
# number, such as 1e3 and 0o17, needs them as well.
_PLAIN = re.compile(r'[A-Za-z]([A-Za-z0-9_:./-]*[A-Za-z0-9])?'
                    r'|[1-9][0-9]*[A-Za-z]{2,}', re.ASCII)


class TextDumper(getattr(  # type: ignore[misc]
        yaml, 'CSafeDumper', yaml.SafeDumper)):
    """A dumper of PyYAML; values that stand twice are written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> Any:
        """Text, in quotes if it could be something else."""
        style = (None if _PLAIN.fullmatch(data)
                 else "'" if data.isprintable() else '"')
        return self.represent_scalar('tag:yaml.org,2002:str', data, style)


TextDumper.add_representer(str, TextDumper.represent_str)


def dump(value: Any) -> str:
    """A value in blocks, each text on a line of its own."""
    written: str = yaml.dump(
        value, Dumper=TextDumper, sort_keys=False, width=1 << 20,
        default_flow_style=False, allow_unicode=True)
    return written
