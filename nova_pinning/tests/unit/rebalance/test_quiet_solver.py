# SPDX-License-Identifier: Apache-2.0
"""What a solver prints past its options stays out of the output."""

import subprocess
import sys

from oslotest import base as oslotest

# As HiGHS does: with printf of C, in the middle of a solution, here by two
# threads at once.
_PROGRAM = r"""
import ctypes
from concurrent import futures
import threading
from unittest import mock
from scipy import optimize
from nova_pinning.rebalance import integer_program

libc = ctypes.CDLL(None)
solve = {'milp': optimize.milp, 'linprog': optimize.linprog}
both = threading.Barrier(2)

def talks(name):
    def talk(*args, **values):
        both.wait()
        libc.printf(b'HighsMipSolverData::something\n')
        both.wait()
        return solve[name](*args, **values)
    return talk

def solved(is_relaxed):
    program = integer_program.IntegerProgram()
    number = program.variable(5)
    program.row([(number, 2)], high=5)
    if is_relaxed:
        return program.relaxed_bound({number: 1})
    return program.solve({number: 1}).bound

print('before', flush=True)
libc.printf(b'C before\n')
libc.fflush(None)
with (mock.patch.object(optimize, 'milp', talks('milp')),
      mock.patch.object(optimize, 'linprog', talks('linprog')),
      futures.ThreadPoolExecutor(2) as pool):
    print(sorted(pool.map(solved, (False, True))), flush=True)
libc.printf(b'C after\n')
libc.fflush(None)
print('after')
"""


class TestQuietOutput(oslotest.BaseTestCase):

    def test_nothing_but_our_own(self):
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', _PROGRAM],
            capture_output=True, text=True)
        self.assertEqual(
            (0, '', ['before', 'C before', '[2.0, 2.5]', 'C after', 'after']),
            (done.returncode, done.stderr, done.stdout.splitlines()))
