# SPDX-License-Identifier: Apache-2.0
"""Runs tests in processes that share what was loaded once.

stestr loads all tests to list them, and again in each of its processes, which
takes 8 s of CPU each time for the unit tests, as they load nova. Here one
process loads them, and those that it forks take one group after the other, so
that none idles while another has a list to work off. Groups are those of
.stestr.conf. What becomes of the tests is written to the standard output as
subunit's version 2; what they print themselves goes to standard error.
"""

import argparse
import configparser
import gc
import io
import multiprocessing
import os
import pathlib
import re
import sys
import tempfile
import unittest

import subunit
from subunit import test_results
import testtools
from testtools import testsuite

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class _Shared(io.BufferedIOBase):
    """A binary stream that several processes write to, a packet at a time."""

    def __init__(self, stream, lock):
        super().__init__()
        self._stream = stream
        self._lock = lock

    def write(self, packet):
        with self._lock:
            self._stream.write(packet)
            self._stream.flush()


def groups(tests, pattern):
    """Put tests together that one process is to run.

    :param pattern: a regular expression; those for which it matches the same
        at the start of their names are one group, and one that it does not
        match is a group of its own
    :returns: a list of unittest.TestSuite
    """
    found = {}
    for test in tests:
        match = re.match(pattern, test.id())
        found.setdefault(match[0] if match else test.id(), []).append(test)
    return [unittest.TestSuite(group) for group in found.values()]


def load(test_path, regexes, names):
    """Load tests.

    :param regexes: of which one is to be found in the name of a test, unless
        there are none
    :param names: None for all
    :raises SystemExit: one of their modules cannot be imported
    """
    loader = unittest.TestLoader()
    suite = loader.discover(test_path, top_level_dir=os.curdir)
    if loader.errors:
        sys.exit('\n'.join(loader.errors))
    return [test for test in testsuite.iterate_tests(suite)
            if names is None or test.id() in names
            if not regexes or any(re.search(regex, test.id())
                                  for regex in regexes)]


def run(suites, concurrency, stream):
    """Run groups of tests in processes of their own.

    :param stream: a binary file for what becomes of them
    """
    context = multiprocessing.get_context('fork')
    shared = _Shared(stream, context.Lock())
    taken, done = context.Value('i', 0), context.Value('i', 0)
    # What is loaded stays, so nobody needs to look through it for garbage,
    # for which its pages would be copied too.
    gc.collect()
    gc.freeze()
    processes = [_start(suites, taken, done, shared)
                 for _process in range(min(concurrency, len(suites)))]
    ends = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            for process in processes]
    if done.value != len(suites):
        # What it ran when it ended need not have been a test.
        subunit.StreamResultToBytes(shared).status(
            'nova_pinning.tests.pool', 'fail', file_name='traceback', eof=True,
            mime_type='text/plain;charset=utf8', file_bytes=(
                f'{len(suites) - done.value} groups of tests have not come to '
                f'their end; processes ended with {ends}').encode())


def _start(suites, taken, done, shared):
    process = os.fork()
    if process:
        return process
    try:
        result = test_results.AutoTimingTestResultDecorator(
            testtools.ExtendedToStreamDecorator(
                subunit.StreamResultToBytes(shared)))
        result.startTestRun()
        while (index := _next(taken)) < len(suites):
            suites[index].run(result)
            _next(done)
        result.stopTestRun()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    # Whatever threads tests have left behind.
    os._exit(0)


def _next(counter):
    with counter.get_lock():
        value = counter.value
        counter.value += 1
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('test_path')
    parser.add_argument('regexes', nargs='*', metavar='REGEX')
    parser.add_argument('--concurrency', type=int, default=0,
                        help='how many processes; 0 for one a CPU')
    parser.add_argument('--load-list', type=pathlib.Path, metavar='FILE',
                        help='a file with the names of tests')
    options = parser.parse_intermixed_args()
    configuration = configparser.ConfigParser(interpolation=None)
    configuration.read(ROOT / '.stestr.conf')
    stream = os.fdopen(os.dup(1), 'wb')
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    names = options.load_list and set(
        options.load_list.read_text().splitlines())
    with tempfile.TemporaryDirectory(
            prefix='tests-', ignore_cleanup_errors=True) as scratch:
        # The processes do not end as others do, or are killed, and leave what
        # is made once for several tests. Like /tmp it is for all users.
        os.chmod(scratch, 0o1777)
        os.environ['TMPDIR'] = tempfile.tempdir = scratch
        tests = load(options.test_path, options.regexes, names)
        run(groups(tests, configuration['DEFAULT']['group_regex']),
            options.concurrency or os.cpu_count() or 1, stream)


if __name__ == '__main__':
    main()
