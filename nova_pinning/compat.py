# SPDX-License-Identifier: Apache-2.0
"""What Python has only since 3.10 and 3.11, for what nova-scheduler loads.

That runs on 3.9 and 3.10 too, as nova does. From 3.11 on these are the
standard library's own.
"""

import dataclasses
import enum
import sys
from typing import Any

if sys.version_info >= (3, 11):
    from enum import StrEnum as StrEnum
else:
    class StrEnum(str, enum.Enum):
        __str__ = str.__str__

if sys.version_info >= (3, 10):
    from dataclasses import dataclass as dataclass
else:
    def dataclass(*, slots: bool = False, kw_only: bool = False,
                  **options: Any) -> Any:
        """A dataclass with a dictionary, whose fields go by place as well.

        Those without a default come first, then.
        """
        def made(kind: Any) -> Any:
            kind.__annotations__ = dict(sorted(
                kind.__annotations__.items(),
                key=lambda field: field[0] in vars(kind)))
            return dataclasses.dataclass(**options)(kind)
        return made
