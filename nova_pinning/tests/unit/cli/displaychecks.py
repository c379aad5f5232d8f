# SPDX-License-Identifier: Apache-2.0
"""What holds for the formats of every list and show command."""

import csv
import json
import shlex

import yaml


def _values(lines):
    return [None if line in ('None', '') else line for line in lines]


class Checks:
    """For a test case that can run a command as ``run(*argv)``.

    ``run`` returns the exit status, the output and the error output.
    """

    def _run(self, run, *argv):
        status, out, err = run(*argv)
        self.assertIn(status, (0, 1), err)
        self.assertEqual(self._status, status, argv)
        return out

    def check(self, run, column, is_list=True):
        """Look at all formats.

        :param column: of rows that are not all alike, for a list command
        """
        self._status, page, _err = run()
        self.assertEqual(page, self._run(run, '-f', 'table'))
        self._check_json(run)
        (self._check_rows if is_list else self._check_fields)(run, column)
        chosen = self._run(run, '-c', column)
        self.assertNotEqual(page, chosen)
        self.assertTrue(chosen.startswith('+--'), chosen)
        status, out, err = run('-c', 'nonsense')
        self.assertEqual((2, ''), (status, out))
        self.assertIn('nonsense', err)
        self.assertIn(column, err)

    def _check_json(self, run):
        """Whole it is the document."""
        self.assertIsInstance(json.loads(self._run(run, '-f', 'json')), dict)

    def _check_rows(self, run, column):
        options = ('-c', column)
        rows = json.loads(self._run(run, '-f', 'json', *options))
        self.assertTrue(rows)
        self.assertEqual({(column,)}, set(map(tuple, rows)))
        self.assertEqual(rows, yaml.safe_load(
            self._run(run, '-f', 'yaml', *options)))
        expected = [None if row[column] is None else str(row[column])
                    for row in rows]
        lines = self._run(run, '-f', 'value', *options).splitlines()
        self.assertEqual(expected, _values(lines))
        head, *cells = csv.reader(self._run(
            run, '-f', 'csv', *options).splitlines())
        self.assertEqual([column], head)
        self.assertEqual(expected, _values(''.join(row) for row in cells))
        all_columns = yaml.safe_load(self._run(run, '-f', 'yaml'))
        self.assertEqual([row[column] for row in rows],
                         [row[column] for row in all_columns])
        head, *cells = csv.reader(self._run(
            run, '-f', 'csv').splitlines(keepends=True))
        self.assertEqual(set(all_columns[0]), set(head))
        self.assertEqual(len(rows), len(cells))
        self._check_order(run, column, [row[column] for row in rows])

    def _check_order(self, run, column, values):
        self.assertLess(1, len(set(values)))
        for order, is_reverse in ('', False), (':desc', True):
            rows = json.loads(self._run(
                run, '-f', 'json', '-c', column, '--sort-column',
                column + order))
            self.assertEqual(
                sorted(values, key=lambda value: (value is None, value),
                       reverse=is_reverse), [row[column] for row in rows])

    def _check_fields(self, run, column):
        field = json.loads(self._run(run, '-f', 'json', '-c', column))
        self.assertEqual([column], list(field))
        self.assertEqual(field, yaml.safe_load(
            self._run(run, '-f', 'yaml', '-c', column)))
        text = str(field[column])
        self.assertEqual(f'{text}\n',
                         self._run(run, '-f', 'value', '-c', column))
        name, value = shlex.split(self._run(
            run, '-f', 'shell', '-c', column))[0].split('=', 1)
        self.assertEqual((column.lower(), text), (name, value))
        # All that there is can be written, and read by a shell.
        self.assertIn(field[column], yaml.safe_load(
            self._run(run, '-f', 'yaml')).values())
        for word in shlex.split(self._run(run, '-f', 'shell')):
            self.assertRegex(word, '^[A-Za-z_][A-Za-z_0-9]*=')
