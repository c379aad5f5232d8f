# SPDX-License-Identifier: Apache-2.0

import pathlib

import ddt
import fixtures
import testtools

from nova_pinning import errors
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.simulation import guests
from nova_pinning.simulation import trace

SHARED = hostclass.HostClass.SHARED

GOOD = """time,id,flavor,vcpus,memory,class,lifetime
0,a,,4,8192,,
0.5,b,,2,4096,shared,3600
7,c,big,,,,1e3
"""


class _Base(testtools.TestCase):

    def setUp(self):
        super().setUp()
        self.path = str(pathlib.Path(self.useFixture(
            fixtures.TempDir()).path) / 'trace.csv')

    def write(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        pathlib.Path(self.path).write_bytes(data)


class TestTrace(_Base):

    def test_rows(self):
        self.write(GOOD)
        self.assertEqual(
            [trace.TraceRow(2, 0.0, 'a', None, '', 4, 8192,
                            hostclass.HostClass.DEDICATED),
             trace.TraceRow(3, 0.5, 'b', 3600.0, '', 2, 4096,
                            hostclass.HostClass.SHARED),
             trace.TraceRow(4, 7.0, 'c', 1000.0, 'big', 0, 0,
                            hostclass.HostClass.DEDICATED)],
            list(trace.rows(self.path)))

    def test_scan(self):
        self.write(GOOD)
        found = trace.scan(self.path)
        self.assertEqual(
            (3, {'big': errors.Location(self.path, 4)}),
            (found.count, found.flavors))

    def test_arrivals(self):
        self.write(GOOD)
        big = guests.plain(16, 1024)
        found = list(
            trace.ArrivalTrace(self.path, 3, {}, {'big': big}).arrivals(1))
        self.assertEqual(['a', 'b', 'c'], [one.id for one in found])
        self.assertEqual([guests.plain(4, 8192), guests.plain(
            2, 4096, hostclass.HostClass.SHARED)],
            [one.request for one in found[:2]])
        self.assertIs(big, found[2].request)

    def test_equal_guests_are_one(self):
        # The engine knows kinds of guests by their identity.
        self.write('time,id,vcpus,memory\n0,a,2,4\n1,b,2,4\n')
        first, second = trace.ArrivalTrace(self.path, 2, {}, {}).arrivals(1)
        self.assertIs(first.request, second.request)

    def test_flavor_that_came_later(self):
        self.write(GOOD)
        error = self.assertRaises(
            errors.InputError, list,
            trace.ArrivalTrace(self.path, 3, {}, {}).arrivals(1))
        self.assertIn("has another flavor 'big'", str(error))

    def test_columns_in_any_order_with_blanks_and_empty_lines(self):
        self.write('id, Time ,memory,vcpus\r\n\r\na , 1 ,4096, 2\r\n')
        row, = trace.rows(self.path)
        self.assertEqual(('a', 1.0, 2, 4096),
                         (row.id, row.time_seconds, row.vcpus,
                          row.memory_mib))

    def test_cells_and_pages(self):
        self.write('time,id,vcpus,memory,cells,pages,class\n'
                   '0,a,8,8192,2,1GiB,\n1,b,8,8192,,2048,shared\n'
                   '2,c,8,8192,2,Large,shared\n3,d,8,8192,,,\n')
        self.assertEqual(
            [guests.plain(8, 8192, cells=2, page_size_kib=1048576),
             guests.plain(8, 8192, SHARED, page_size_kib=2048),
             guests.plain(8, 8192, SHARED, cells=2,
                          page_size_kib=model.PAGES_LARGE),
             guests.plain(8, 8192)],
            [arrival.request for arrival in trace.ArrivalTrace(
                self.path, 4, {}, {}).arrivals(1)])

    def test_a_flavor_says_its_own(self):
        self.write('time,id,flavor,cells,pages\n0,a,big,2,1GiB\n')
        row, = trace.rows(self.path)
        self.assertEqual((1, None), (row.cells, row.page_size_kib))

    def test_streams(self):
        # Nothing behind the first lines is looked at before it is needed.
        self.write('time,id,vcpus,memory\n0,a,2,4096\nnonsense\n')
        self.assertEqual('a', next(trace.rows(self.path)).id)


@ddt.ddt
class TestBadTraces(_Base):

    @ddt.data(
        ('0,a,1,1\n1,b,1,1\n0.5,c,1,1', 4, 'time 0.5 is before 1'),
        ('0,a,1,1\n1,a,1,1', 3, "id 'a' appears twice"),
        ('-1,a,1,1', 2, "time '-1' is not a number of seconds"),
        ('nan,a,1,1', 2, "time 'nan'"),
        ('inf,a,1,1', 2, "time 'inf'"),
        ('0,a,-4,1', 2, "vcpus '-4' is not a whole number"),
        ('0,a,0,1', 2, "vcpus '0'"),
        ('0,a,1.5,1', 2, "vcpus '1.5'"),
        ('0,a,1,', 2, 'memory is empty'),
        ('0,a,1', 2, 'has 3 columns, the first line has 4'),
        ('0,,1,1', 2, 'id is empty'),
        ('0,"a,1,1', 2, 'is not CSV'),
    )
    @ddt.unpack
    def test_line(self, lines, number, message):
        self.write(f'time,id,vcpus,memory\n{lines}\n')
        error = self.assertRaises(errors.InputError, trace.scan, self.path)
        self.assertIn(f'{self.path}:{number}: ', str(error))
        self.assertIn(message, str(error))

    @ddt.data(
        ('0,a,nan', "lifetime 'nan' is not a number"),
        ('0,a,-5', "lifetime '-5' is not a number"),
    )
    @ddt.unpack
    def test_lifetime(self, line, message):
        self.write(f'time,id,lifetime,flavor\n{line},x\n')
        error = self.assertRaises(errors.InputError, trace.scan, self.path)
        self.assertIn(message, str(error))

    @ddt.data(
        ('8,8192,0,', "cells '0' is not a whole number from 1 to 64"),
        ('8,8192,65,', "cells '65' is not"),
        ('8,8192,two,', "cells 'two' is not"),
        ('9,8192,2,', 'cells 2: vcpus 9 cannot be spread evenly'),
        ('9,8192,3,', 'cells 3: memory 8192 cannot be spread evenly'),
        ('8,8192,,huge', "pages 'huge' is not an amount"),
        ('8,8192,,3XB', "pages '3XB' has a unit that is not known"),
        ('8,8192,,1.5K', "pages '1.5K' is not a whole number of KiB"),
        ('8,8192,,0', 'pages 0: a page of no size'),
    )
    @ddt.unpack
    def test_cells_and_pages(self, line, message):
        self.write('time,id,vcpus,memory,cells,pages\n0,a,8,8192,2,\n'
                   f'1,b,{line}\n')
        error = self.assertRaises(errors.InputError, trace.scan, self.path)
        self.assertIn(f'{self.path}:3: ', str(error))
        self.assertIn(message, str(error))

    @ddt.data(
        ('', 'is empty'),
        ('time,id,vcpus,memory\n', 'has no arrivals'),
        ('time,id,flavour\n0,a,b\n', "'flavour' is not a column of a trace"),
        ('time,flavor\n0,a\n', 'column id is missing'),
        ('time,id,vcpus\n0,a,1\n', 'column memory is missing'),
        ('time,id,id\n', 'column id appears twice'),
        ('time,id,vcpus,memory,class\n0,a,1,1,vip\n',
         "class 'vip' is neither dedicated nor shared"),
    )
    @ddt.unpack
    def test_file(self, text, message):
        self.write(text)
        error = self.assertRaises(errors.InputError, trace.scan, self.path)
        self.assertIn(message, str(error))

    def test_no_text(self):
        self.write(b'time,id,vcpus,memory\n0,\xff,1,1\n')
        error = self.assertRaises(errors.InputError, trace.scan, self.path)
        self.assertIn('is not UTF-8 text', str(error))

    def test_no_file(self):
        error = self.assertRaises(errors.InputError, trace.scan, self.path)
        self.assertIn('cannot be read', str(error))
