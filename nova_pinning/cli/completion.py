# SPDX-License-Identifier: Apache-2.0
"""nova-pinning complete: what bash proposes after TAB.

cliff's own script takes what stands on the line for a part of the name of a
variable, which a file's name cannot be.
"""

import argparse
from collections.abc import Iterator
import shlex

from nova_pinning.cli import base_command

_SCRIPT = '''\
_nova_pinning()
{{
  local cur=${{COMP_WORDS[COMP_CWORD]}} at= word
  local -A known=(
{known}
  )
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [[ $word == -* ]] && continue
    [[ ${{known[${{at:+$at }}$word]-}} ]] || break
    at=${{at:+$at }}$word
  done
  [[ $cur == = ]] && cur=
  word=${{known[${{at:- }}]-}}
  if [[ $cur == -* || $word != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$word" -- "$cur")
  else
    compopt -o filenames 2> /dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
}}
complete -F _nova_pinning nova-pinning
'''


class Complete(base_command.FileCommand):
    """Print what completes commands, options and files in bash.

    Example::

      nova-pinning complete > /etc/bash_completion.d/nova-pinning
    """

    # Nobody runs it twice, so the list of commands is without it.
    deprecated = True

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        known: dict[str, list[str]] = {}
        for name, entry in sorted(self.app.command_manager):
            words = name.split()
            for place, word in enumerate(words):
                # A subscript cannot be empty.
                group = known.setdefault(' '.join(words[:place]) or ' ', [])
                if word not in group:
                    group.append(word)
            known[name] = list(_options(
                entry.load()(self.app, None).get_parser(name)))
        self.app.stdout.write(_SCRIPT.format(known='\n'.join(
            f'    [{shlex.quote(name)}]={shlex.quote(" ".join(words))}'
            for name, words in known.items())))
        return base_command.OK


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
