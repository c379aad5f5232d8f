# SPDX-License-Identifier: Apache-2.0


import io
import os
import sys
from unittest import mock

import ddt
import fixtures
import hypothesis
from hypothesis import strategies
from oslotest import base
import zstandard

from nova_pinning.document import packed
from nova_pinning import errors
from nova_pinning.tests.unit import unit_base


@ddt.ddt
class TestPacked(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path

    def _path(self, name, data=None):
        path = os.path.join(self.directory, name)
        if data is not None:
            with open(path, 'wb') as file:
                file.write(data)
        return path

    def _error(self, name, data, **limits):
        return str(self.assertRaises(
            errors.InputError, packed.read, self._path(name, data), **limits))

    @ddt.data('one', 'one.zst')
    def test_round_trip(self, name):
        path = self._path(name)
        for text in ('', 'n\u00e9w\n', 'x' * 300_000):
            packed.write(path, text)
            self.assertEqual(text, packed.read(path))
        self.assertEqual([name], os.listdir(self.directory))

    def test_packs(self):
        path = self._path('one.zst')
        packed.write(path, 'x' * 300_000)
        self.assertLess(os.stat(path).st_size, 1000)
        # Other programs write no size at the beginning.
        packer = zstandard.ZstdCompressor(
            write_content_size=False).compressobj()
        path = self._path('two.zst', packer.compress(b'text')
                          + packer.flush())
        self.assertEqual('text', packed.read(path))

    def test_whatever_its_name(self):
        for text in (b'', b'(', b'text' * 9999):
            data = zstandard.compress(text)
            self.assertEqual(text.decode(), packed.read(
                self._path('one.json', data)))
            with mock.patch.object(sys, 'stdin', mock.Mock(
                    buffer=io.BytesIO(data))):
                self.assertEqual(text.decode(), packed.read('-'))
        self.assertIn('is larger than 2 MiB', self._error(
            'one', zstandard.compress(bytes(3 << 20)), max_bytes=2 << 20))

    @ddt.data('one', 'one.zst')
    def test_what_could_not_be_read_again(self, name):
        path = self._path(name)
        packed.write(path, 'x' * 4096, max_bytes=4096)
        error = self.assertRaises(errors.InputError, packed.write, path,
                                  'x' * 4097, max_bytes=4096)
        self.assertIn('could not be read again', str(error))
        self.assertEqual('x' * 4096, packed.read(path))

    @unit_base.settings(50)
    @hypothesis.given(strategies.binary(min_size=1, max_size=50),
                      strategies.data())
    def test_damaged(self, text, data):
        whole = zstandard.ZstdCompressor(write_checksum=True).compress(
            text.hex().encode())
        end = data.draw(strategies.integers(0, len(whole) - 1))
        self.assertIn('is cut off', self._error('one.zst', whole[:end]))
        at = data.draw(strategies.integers(0, len(whole) - 1))
        damaged = bytearray(whole)
        damaged[at] ^= data.draw(strategies.integers(1, 255))
        # Whatever it is that was hit, the text is not taken for another.
        path = self._path('one.zst', damaged)
        try:
            self.assertEqual(text.hex(), packed.read(path))
        except errors.InputError:
            pass

    def test_bad(self):
        good = zstandard.ZstdCompressor().compress(b'text')
        self.assertIn('cannot be unpacked', self._error('a.zst', b'{}' * 9))
        self.assertIn('has more after the end',
                      self._error('b.zst', good + b'x'))
        self.assertIn('has more after the end',
                      self._error('c.zst', good + b'x' * 10_000))
        self.assertIn('c:1: is not UTF-8', self._error('c', b'\xff'))
        self.assertIn('d:2: is not UTF-8', self._error('d', b'a\nb\xff'))

    @ddt.data('one', 'one.zst')
    def test_too_large(self, name):
        data = b'x' * (3 << 20)
        if name.endswith('.zst'):
            data = zstandard.ZstdCompressor().compress(data)
        self.assertIn('is larger than 2 MiB',
                      self._error(name, data, max_bytes=2 << 20))
        self.assertEqual(3 << 20, len(packed.read(
            self._path(name, data), max_bytes=3 << 20)))

    def test_bomb(self):
        # Half a gibibyte, of which no more than a chunk's worth beyond
        # the limit is unpacked.
        unpacked = []
        real = zstandard.ZstdDecompressor

        class Counting:
            def __init__(self, **options):
                self._unpacker = real(**options).decompressobj()

            def decompressobj(self):
                return self

            @property
            def eof(self):
                return self._unpacker.eof

            def decompress(self, chunk):
                found = self._unpacker.decompress(chunk)
                unpacked.append(len(found))
                return found

        packer = zstandard.ZstdCompressor().compressobj()
        data = b''.join(packer.compress(bytes(1 << 20))
                        for _ in range(512)) + packer.flush()
        with mock.patch.object(zstandard, 'ZstdDecompressor', Counting):
            self._error('bomb.zst', data, max_bytes=1 << 20)
        self.assertLess(sum(unpacked), 1 << 28)

    def test_window(self):
        parameters = zstandard.ZstdCompressionParameters(window_log=30)
        packer = zstandard.ZstdCompressor(
            compression_params=parameters).compressobj()
        data = packer.compress(b'x') + packer.flush()
        self.assertIn('cannot be unpacked', self._error('one.zst', data))

    @ddt.data('', '.zst')
    def test_not_to_be_read(self, suffix):
        for path, message in (
                (f'none{suffix}', 'No such file'), (f'a\0{suffix}', 'null')):
            error = self.assertRaises(
                errors.InputError, packed.read, self._path(path))
            self.assertIn(message, str(error))
        os.mkdir(self._path(f'dir{suffix}'))
        error = self.assertRaises(
            errors.InputError, packed.read, self._path(f'dir{suffix}'))
        self.assertIn('Is a directory', str(error))
        with mock.patch('builtins.open', side_effect=PermissionError(
                13, 'Permission denied')):
            error = self.assertRaises(
                errors.InputError, packed.read, self._path(f'x{suffix}'))
        self.assertIn('Permission denied', str(error))

    def test_old_file_stays(self):
        path = self._path('one.zst')
        packed.write(path, 'old')
        with mock.patch('os.replace', side_effect=OSError(28, 'No space')):
            error = self.assertRaises(
                errors.InputError, packed.write, path, 'new')
        self.assertIn('No space', str(error))
        self.assertEqual('old', packed.read(path))
        self.assertEqual(['one.zst'], os.listdir(self.directory))

    def test_standard(self):
        stdin = mock.Mock(buffer=io.BytesIO(b'text'))
        stdout = io.StringIO()
        with (mock.patch.object(sys, 'stdin', stdin),
              mock.patch.object(sys, 'stdout', stdout)):
            self.assertEqual('text', packed.read('-'))
            packed.write('-', 'text')
        self.assertEqual('text', stdout.getvalue())
        stdin = mock.Mock(buffer=io.BytesIO(b'\xff'))
        with mock.patch.object(sys, 'stdin', stdin):
            error = self.assertRaises(errors.InputError, packed.read, '-')
        self.assertIn('standard input:1: is not UTF-8', str(error))
