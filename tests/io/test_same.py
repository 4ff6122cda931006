#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One model, in every format and at every place: each must have the same tensors and the same weights. What they must be
is counted from the shapes in same_files.py, not read from any answer.

    VRAM=path/to/vram CLIENT=path/to/read_client python3 test_same.py [CLASS...]
"""
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import same_files as made  # noqa: E402
import test_ollama as ollama  # noqa: E402
from hub_server import Hub  # noqa: E402

VRAM = os.environ['VRAM']
KIB64 = 64 << 10
COMMIT = 'c' * 40
BUFFERS = 2 * 4 * (made.HIDDEN // made.HEADS // 2)  # transformers' inv_freq and its original, F32, one per pair


class Case(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix='vram-same-')
        self.addCleanup(shutil.rmtree, self.home)
        self.hub = Hub()
        self.hub.__enter__()
        self.addCleanup(self.hub.__exit__)
        self.registry = ollama.Registry()
        self.addCleanup(self.registry.close)

    def vram(self, *words):
        env = {'PATH': os.environ['PATH'], 'HOME': self.home, 'HF_ENDPOINT': self.hub.url, 'LC_ALL': 'C',
               'MODELSCOPE_DOMAIN': self.hub.url, 'OLLAMA_MODELS': os.path.join(self.home, 'ollama')}
        env.update((k, v) for k, v in os.environ.items() if k.endswith('SAN_OPTIONS'))
        done = subprocess.run([VRAM, *words, '--json'], env=env, capture_output=True, timeout=120, check=False)
        self.assertIn(done.returncode, (0, 3), done.stderr)  # 3: the verdict is not known, the weights are
        return json.loads(done.stdout)

    def write(self, path, data):
        path = os.path.join(self.home, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as f:
            f.write(data)
        return path

    def on_disk(self, under, files):
        for name, data in files.items():
            self.write(os.path.join(under, name), data)
        return os.path.join(self.home, under)

    def cached(self, repo, files):
        """As huggingface_hub keeps it: blobs, and links to them."""
        folder = '.cache/huggingface/hub/models--' + repo.replace('/', '--')
        self.write(folder + '/refs/main', COMMIT.encode())
        for i, (name, data) in enumerate(files.items()):
            blob = self.write('%s/blobs/%d' % (folder, i), data)
            link = os.path.join(self.home, folder, 'snapshots', COMMIT, name)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(os.path.relpath(blob, os.path.dirname(link)), link)
        return repo

    def in_store(self, data):
        manifest = ollama.manifest([ollama.layer('model', data)])
        self.write('ollama/manifests/registry.ollama.ai/library/same/latest', manifest)
        self.write('ollama/blobs/' + ollama.digest(data).replace(':', '-'), data)
        return 'ollama:same'

    def in_registry(self, data):
        self.registry.put('library/other', 'latest', [data], [ollama.layer('model', data)])
        return 'ollama:%s/library/other' % self.registry.host

    def on_hub(self, repo, files):
        self.hub.add(repo, files)
        return repo

    def at_url(self, path, data):
        self.hub.static[path] = data
        return self.hub.files_url + path

    # ---- what each must say ----

    def expect(self, name, expected, runs=False, on_card=None):
        """expected: {name: (shape, dtype)}; runs: the engine is transformers, which adds its own buffers; on_card: what of
        the tensors lies there, where it is not all of them."""
        listed = {n: (shape, dtype, math.prod(shape) * made.SIZE[dtype]) for n, (shape, dtype) in expected.items()}
        total = sum(row[2] for row in listed.values())
        seen = self.vram('inspect', name, '--tensors')
        self.assertEqual({t['name']: (t['shape'], t['dtype'], t['bytes']) for t in seen['tensor_list']}, listed, name)
        self.assertEqual((seen['checkpoint_bytes'], seen['parameters']), (total, made.parameters()), name)
        fit = self.vram('fit', name, '--gpu', '24GiB')
        weights = fit['devices'][0]['ledger']['weights']
        self.assertEqual(fit['model']['checkpoint_bytes'], total, name)
        whole = total + (BUFFERS if runs else 0)
        self.assertEqual((weights['bytes'], weights['basis']), (whole if on_card is None else on_card, 'exact'), name)
        engine = (fit['engine'] or {}).get('name')
        self.assertEqual(fit['verdict'], 'fits' if runs or engine == 'llama.cpp' else 'unknown', name)

    def expect_torch(self, name, dtype='F32', prefix='', runs=True):
        self.expect(name, {prefix + row[0]: (row[2], dtype) for row in made.tensors()}, runs)

    def expect_gguf(self, name, dtype='F32', norms_too=False):
        """GGUF has the dimensions in the other order."""
        expected = {row[1]: (row[2][::-1], made.stored(dtype, row[2], norms_too)) for row in made.tensors()}
        tied = 'output.weight' not in expected  # then the card has a copy of the embeddings for the head
        on_card = sum((math.prod(shape) * made.SIZE[d] + 127) // 128 * 128 for n, (shape, d) in expected.items()
                      if tied or n != 'token_embd.weight')
        self.expect(name, expected, on_card=on_card)


class Formats(Case):
    def test_directories(self):
        for dtype in made.SIZE:
            for sharded in (False, True):
                at = '%s-%d' % (dtype, sharded)
                self.expect_torch(self.on_disk(at + '-st', made.safetensors_directory(dtype, sharded)), dtype)
                self.expect_torch(self.on_disk(at + '-bin', made.bin_directory(dtype, sharded)), dtype)
                legacy = made.bin_directory(dtype, sharded, made.torch_legacy)
                self.expect_torch(self.on_disk(at + '-old', legacy), dtype)

    def test_gguf(self):
        """In F32 the same to the byte. In half precision a converted file has more: norms and biases stay F32."""
        for dtype in made.SIZE:
            self.expect_gguf(self.write(dtype + '.gguf', made.gguf(dtype)), dtype)
            self.expect_gguf(self.write(dtype + '-all.gguf', made.gguf(dtype, True)), dtype, True)

    def test_part_of_a_pipeline(self):
        where = self.on_disk('pipe', made.pipeline('F32'))
        self.expect_torch(where, prefix='text_encoder/', runs=False)
        self.expect_torch(os.path.join(where, 'text_encoder'))


class Places(Case):
    def test_hub(self):
        self.expect_torch(self.on_hub('org/st', made.safetensors_directory('F32', True)))
        self.expect_torch(self.on_hub('org/bin', made.bin_directory('F32')))
        self.expect_torch(self.on_hub('org/bins', made.bin_directory('F32', True)))
        self.expect_torch(self.on_hub('org/old', made.bin_directory('F32', False, made.torch_legacy)))
        self.expect_torch(self.on_hub('org/pipe', made.pipeline('F32')), prefix='text_encoder/', runs=False)
        self.on_hub('org/two-GGUF', {'same-F32.gguf': made.gguf('F32'), 'same-F16.gguf': made.gguf('F16')})
        self.expect_gguf('org/two-GGUF:F32')
        self.expect_gguf('org/two-GGUF:F16', 'F16')

    def test_modelscope(self):
        self.on_hub('org/st', made.safetensors_directory('F32', True))
        self.expect_torch('modelscope:org/st')

    def test_hub_cache(self):
        self.expect_torch(self.cached('org/kept', made.safetensors_directory('F32')))
        self.expect_torch(self.cached('org/kept-bin', made.bin_directory('F32', True)))
        self.expect_gguf(self.cached('org/kept-GGUF', {'same-F32.gguf': made.gguf('F32')}))
        self.assertEqual(self.hub.asked(tail='.gguf'), [])

    def test_urls(self):
        """A file alone has no configuration: its weights are known, and not who runs them."""
        self.expect_torch(self.at_url('/x/model.safetensors', made.safetensors('F32')), runs=False)
        self.expect_torch(self.at_url('/x/model.bin', made.torch_zip('F32')), runs=False)
        self.expect_torch(self.at_url('/x/old.pt', made.torch_legacy('F32')), runs=False)
        self.expect_gguf(self.at_url('/x/model.gguf', made.gguf('F32')))

    def test_ollama(self):
        self.expect_gguf(self.in_store(made.gguf('F32')))
        self.expect_gguf(self.in_registry(made.gguf('F32')))


class Headers(Case):
    """Of files of gigabytes (holes on this disk) little more than the headers is read: the first request of a file is 64
    KiB, as one round trip over a network takes no longer for that than for less; a zip has its directory at the other
    end, with 64 KiB again; and how long a header is, is guessed while it is not known, which may miss by some."""

    def expect_read(self, path, head, data, files=1, most=1.125):
        seen = self.vram('inspect', path)
        self.assertEqual((seen['checkpoint_bytes'], len(seen['files'])), (data, files))
        self.assertEqual(sum(f['header_bytes'] for f in seen['files']), head)
        done = subprocess.run([os.environ['CLIENT'], path], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        read, calls = map(int, done.stdout.split())
        self.assertGreaterEqual(read, head // 2, path)  # the client counts what is read: what is passed over is little
        self.assertLessEqual(read, most * head + 2 * KIB64 * files, path)
        self.assertLessEqual(calls, 3 * files + head // KIB64 + 4, path)

    def rows(self, n):
        """So many matrices of 16 MiB."""
        return [('model.layers.%d.some.long.name.weight' % i, 'blk.%d.some_long_name.weight' % i, [2048, 2048])
                for i in range(n)]

    def sparse(self, name, head, data):
        path = self.write(name, head)
        os.truncate(path, len(head) + data)
        return path, len(head), data

    def test_safetensors(self):
        for n in (40, 400, 4000):
            self.expect_read(*self.sparse('a.safetensors', *made.safetensors_head('F32', self.rows(n))))
        total = 0
        for i in range(20):  # shards
            rows = [('%d.%s' % (i, name), None, shape) for name, _, shape in self.rows(50)]
            head, data = made.safetensors_head('F32', rows)
            self.sparse('d/model-%05d-of-00020.safetensors' % (i + 1), head, data)
            total += len(head)
        self.expect_read(os.path.join(self.home, 'd'), total, 1000 << 24, files=20)

    def test_gguf(self):
        for tokens in (0, 1000, 150000):
            head, data = made.gguf_head('F32', rows=self.rows(400), tokens=tokens)
            self.expect_read(*self.sparse('a.gguf', head, data))

    def test_torch(self):
        """Where the pickles of the old form end nobody says: twice as much is asked for each time."""
        for n in (40, 400, 4000):
            for write, most in ((made.write_sparse_zip, 1.125), (made.write_sparse_legacy, 2)):
                with open(os.path.join(self.home, 'a.bin'), 'wb') as f:
                    write(f, 'F32', self.rows(n))
                self.expect_read(f.name, os.path.getsize(f.name) - (n << 24), n << 24, most=most)


if __name__ == '__main__':
    unittest.main()
