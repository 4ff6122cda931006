#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A hub on loopback, made of nginx and sparse files, and what reading DeepSeek-V3's 135 headers from it costs.

    bench/hub/hub.py VRAM DATA [--peer HF_MEM_PYTHON] [--runs N] [--keep]

VRAM: the command. DATA: the folder with tools/make_checkpoint.py and data/configs. HF_MEM_PYTHON: python of an
environment with hf-mem (PyPI), which is then measured in the same run; its address of the hub is a constant, so a copy
of it with another one is run. Needs nginx with its echo module (Debian: libnginx-mod-http-echo) and openssl.

The hub has two hosts, as the real one: one answers the API and redirects files, the other one has them. Each request is
in a log with the bytes that were sent. "delay" lets each answer of both wait for 50 ms. HTTP/2 and HTTP/1.1 are the
two protocols.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

REPO = 'deepseek-ai/DeepSeek-V3'
COMMIT = 'e815299b0bcbac849fa540c768ef21845365c9eb'
HUB, FILES = 18443, 18444  # ports

CONF = '''
load_module /usr/lib/nginx/modules/ngx_http_echo_module.so;
worker_processes 1; daemon on; pid {dir}/nginx.pid; error_log {dir}/error.log;
events {{ worker_connections 1024; }}
http {{
  default_type application/octet-stream; sendfile on;
  client_body_temp_path {dir}/tmp; proxy_temp_path {dir}/tmp; fastcgi_temp_path {dir}/tmp;
  uwsgi_temp_path {dir}/tmp; scgi_temp_path {dir}/tmp;
  log_format l '$server_port $status $body_bytes_sent "$http_range" $server_protocol "$http_authorization" $request_uri';
  access_log {dir}/access.log l;
  ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem;
  keepalive_requests 100000;
  server {{
    listen 127.0.0.1:{hub} ssl {h2};
    location /api/ {{ {delay_api} }}
    location @api {{ root {dir}/hub; default_type application/json; try_files $uri.json =404; }}
    location ~ /resolve/[^/]+/(?<file>.*)$ {{ {delay_file} }}
    location @file {{ try_files /none @route; }}
    location @route {{
      if ($uri ~ "/resolve/[^/]+/(.*\\.safetensors)$") {{
        return 302 https://localhost:{files}/blobs/$1?Signature=secret&Expires=1;
      }}
      rewrite ^.*/resolve/[^/]+/(.*)$ /$1 break; root {dir}/repo;
    }}
  }}
  server {{
    listen 127.0.0.1:{files} ssl {h2};
    location /blobs/ {{ {delay_blob} }}
    location @blob {{ rewrite ^/blobs/(.*)$ /$1 break; root {dir}/repo; }}
  }}
}}
'''


def make_files(d, data):
    config = os.path.join(data, 'data/configs/deepseek-ai--DeepSeek-V3.json')
    repo = os.path.join(d, 'repo')
    subprocess.run([sys.executable, os.path.join(data, 'tools/make_checkpoint.py'), config, repo], check=True,
                   stdout=subprocess.DEVNULL)
    names = sorted(os.listdir(repo))
    sizes = {n: os.path.getsize(os.path.join(repo, n)) for n in names}
    api = os.path.join(d, 'hub/api/models', REPO)
    os.makedirs(os.path.join(api, 'revision'))
    os.makedirs(os.path.join(api, 'tree'))
    model = {'id': REPO, 'modelId': REPO, 'sha': COMMIT, 'private': False, 'gated': False, 'disabled': False,
             'siblings': [dict({'rfilename': n, 'size': s, 'blobId': '0' * 40},
                               **({'lfs': {'sha256': '0' * 64, 'size': s, 'pointerSize': 135}}
                                  if n.endswith('.safetensors') else {})) for n, s in sizes.items()]}
    tree = [{'type': 'file', 'oid': '0' * 40, 'size': s, 'path': n} for n, s in sizes.items()]
    for rev in ('main', COMMIT):
        json.dump(model, open(os.path.join(api, 'revision', rev + '.json'), 'w'))
        json.dump(tree, open(os.path.join(api, 'tree', rev + '.json'), 'w'))
    json.dump(model, open(api + '.json', 'w'))
    return repo, [n for n in names if n.endswith('.safetensors')]


def header_bytes(path):
    with open(path, 'rb') as f:
        return 8 + int.from_bytes(f.read(8), 'little')


def make_certificate(d):
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost',
                    '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', d + '/key.pem', '-out',
                    d + '/cert.pem'], check=True, stderr=subprocess.DEVNULL)


def start(d, h2, delay):
    wait = 'echo_sleep 0.05; echo_exec %s;' if delay else 'try_files /none %s;'
    with open(d + '/nginx.conf', 'w') as f:
        f.write(CONF.format(dir=d, hub=HUB, files=FILES, h2='http2' if h2 else '', delay_api=wait % '@api',
                            delay_file=wait % '@file', delay_blob=wait % '@blob'))
    open(d + '/access.log', 'w').close()
    subprocess.run(['nginx', '-c', d + '/nginx.conf', '-p', d], check=True)
    time.sleep(0.3)


def stop(d):
    with open(d + '/nginx.pid') as f:
        pid = int(f.read())
    os.kill(pid, 15)
    while os.path.exists(d + '/nginx.pid'):
        time.sleep(0.02)


def read_log(d, shards):
    """Requests and bytes for each shard at the host of the files; requests in all; who got a token."""
    time.sleep(0.2)
    per, sent, rows, protocol, leaked = dict.fromkeys(shards, 0), 0, 0, set(), 0
    with open(d + '/access.log') as f:
        for line in f:
            port, status, size, _, proto, auth, uri = re.match(
                r'(\d+) (\d+) (\d+) "([^"]*)" (\S+) "([^"]*)" (\S+)', line).groups()
            rows += 1
            protocol.add(proto)
            if int(port) == FILES:
                per[uri.split('?')[0].split('/')[-1]] += 1
                sent += int(size)
                leaked += auth != '-'
    open(d + '/access.log', 'w').close()
    return per, sent, rows, protocol, leaked


def timed(argv, env):
    begin = time.monotonic()
    r = subprocess.run(argv, env=env, capture_output=True, text=True)
    return time.monotonic() - begin, r


def peer_copy(d, python):
    """hf-mem with another address of the hub, which it has as a constant."""
    site = subprocess.run([python, '-c', 'import hf_mem, os; print(os.path.dirname(hf_mem.__file__))'],
                          capture_output=True, text=True, check=True).stdout.strip()
    shutil.copytree(site, d + '/peer/hf_mem')
    for folder, _, names in os.walk(d + '/peer/hf_mem'):
        for n in names:
            if n.endswith('.py'):
                p = os.path.join(folder, n)
                text = open(p).read().replace('https://huggingface.co', 'https://localhost:%d' % HUB)
                open(p, 'w').write(text)
    return [python, '-c', 'from hf_mem.cli import main; main()', '--model-id', REPO]


def measure(name, argv, env, d, shards, heads, runs, delay, fresh=None):
    times, last = [], None
    for _ in range(runs):
        if fresh:
            shutil.rmtree(fresh, ignore_errors=True)
            os.makedirs(fresh)  # in a home that is not there nothing is kept
        open(d + '/access.log', 'w').close()
        seconds, last = timed(argv, env)
        times.append(seconds)
    per, sent, rows, protocol, leaked = read_log(d, shards)
    if last.returncode != 0:
        print('%-8s exit %d: %s' % (name, last.returncode, (last.stderr or last.stdout)[-300:].strip()))
        return None
    median = statistics.median(times)
    twice = sum(n > 1 for n in per.values())
    print('%-8s %s  %7.0f ms (%s)  %4d requests, %d shards asked once, %d twice, %d not; %.3f times the header bytes%s' % (
        name, '/'.join(sorted(protocol)), median * 1000,
        '%.1f delays' % (median / 0.05) if delay else 'no delay', rows, sum(n == 1 for n in per.values()), twice,
        sum(n == 0 for n in per.values()), sent / heads, '; TOKEN LEAKED' if leaked else ''))
    return median


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument('vram')
    ap.add_argument('data')
    ap.add_argument('--peer')
    ap.add_argument('--runs', type=int, default=5)
    ap.add_argument('--keep', action='store_true')
    a = ap.parse_args()
    d = tempfile.mkdtemp(prefix='vram-hub-')
    os.chmod(d, 0o755)
    os.makedirs(d + '/tmp')
    os.chmod(d + '/tmp', 0o777)
    repo, shards = make_files(d, a.data)
    make_certificate(d)
    heads = sum(header_bytes(os.path.join(repo, n)) for n in shards)
    print('%d shards, %d bytes of headers' % (len(shards), heads))
    env = {'PATH': os.environ['PATH'], 'HOME': d + '/home', 'HF_ENDPOINT': 'https://localhost:%d' % HUB,
           'SSL_CERT_FILE': d + '/cert.pem', 'HF_TOKEN': 'hf_secret', 'PYTHONPATH': d + '/peer'}
    ours = [os.path.abspath(a.vram), 'inspect', REPO, '--json']
    theirs = peer_copy(d, a.peer) if a.peer else None
    for h2, delay in ((True, False), (False, False), (True, True), (False, True)):
        start(d, h2, delay)
        try:
            mine = measure('vram', ours, env, d, shards, heads, a.runs, delay, fresh=d + '/home')
            peer = measure('hf-mem', theirs, env, d, shards, heads, max(1, a.runs // 2), delay) if theirs else None
            if mine and peer:
                print('%-8s hf-mem takes %.1f times as long' % ('', peer / mine))
        finally:
            stop(d)
    if a.keep:
        print(d)
    else:
        shutil.rmtree(d)


if __name__ == '__main__':
    main()
