# SPDX-License-Identifier: Apache-2.0
"""What texts and numbers in several of our files have to be."""

from typing import Annotated

from nova_pinning.document import codec
from nova_pinning import spelling

_MOST = 2 ** 53 - 1
_ONE_LINE = r'^[^\u0000-\u001f\u007f-\u009f\u2028\u2029\ud800-\udfff]*$'
_SEVERAL_LINES = r'^[^\u0000-\u0008\u000b-\u001f\u007f-\u009f\ud800-\udfff]*$'

Word = Annotated[str, codec.Limit(
    title='a name in one line of at most 255 characters',
    minLength=1, maxLength=255, pattern=_ONE_LINE)]
Line = Annotated[str, codec.Limit(
    title='text in one line of at most 255 characters', maxLength=255,
    pattern=_ONE_LINE)]
Prose = Annotated[str, codec.Limit(
    title='text of at most 65535 characters, without control characters',
    maxLength=65535, pattern=_SEVERAL_LINES)]
#: Texts of others for people: what would harm a terminal is not written.
ShownLine = Annotated[Line, codec.Form(Line, spelling.printable, str)]
ShownProse = Annotated[Prose, codec.Form(
    Prose, lambda text: spelling.printable(text, '\n'), str)]
HostName = Annotated[str, codec.Limit(
    title="a host's name of 1 to 255 characters without blanks",
    pattern='^[!-~]{1,255}$')]
Time = Annotated[str, codec.Limit(
    title='a time in UTC such as 2026-01-31T12:00:00Z', pattern='^[0-9]{4}-'
    '[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?'
    '(Z|[+]00:00)$')]
Amount = Annotated[int, codec.Limit(
    title='a whole number, 0 or more', minimum=0, maximum=_MOST)]
Difference = Annotated[int, codec.Limit(
    title='a whole number', minimum=-_MOST, maximum=_MOST)]
Count = Annotated[int, codec.Limit(
    title='a whole number, 1 or more', minimum=1, maximum=_MOST)]
Vcpus = Annotated[int, codec.Limit(
    title='a number of vCPUs from 1 to 65536', minimum=1, maximum=65536)]
Node = Annotated[int, codec.Limit(
    title='the number of a NUMA node', minimum=0, maximum=65535)]
Cpu = Annotated[int, codec.Limit(
    title='the number of a CPU from 0 to 65535', minimum=0, maximum=65535)]
PageSizeKib = Annotated[int, codec.Limit(
    title='a page size in KiB', minimum=1, maximum=_MOST)]
Ratio = Annotated[float, codec.Limit(
    title='a number above 0 and at most 1000000', exclusiveMinimum=0,
    maximum=10 ** 6)]
Duration = Annotated[float, codec.Limit(
    title='a number, 0 or more', minimum=0)]
Positive = Annotated[float, codec.Limit(
    title='a number above 0', exclusiveMinimum=0)]
