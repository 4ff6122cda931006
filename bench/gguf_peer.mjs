// SPDX-License-Identifier: MIT
// What @huggingface/gguf reads in a file, against `vram inspect --json --tensors` of it on standard input:
// every tensor (name, shape, dtype, offset) and every key. Run by gguf_peer.sh in a folder with that package.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.cwd() + "/"));
const { gguf, GGMLQuantizationType } = require("@huggingface/gguf");

const file = process.argv[2];
const started = performance.now();
const theirs = await gguf(file, { allowLocalFile: true });
const took = performance.now() - started;
if (process.argv[3] === "--time") {
  console.log(took.toFixed(1));
  process.exit(0);
}

// Whole numbers over 2^53 are compared as text.
const ours = JSON.parse(
  readFileSync(0, "utf8").replace(/: (-?\d{16,})(?=[,\n])/g, ': "$1"'),
);
let different = 0;
const differ = (...what) => {
  if (++different <= 10) console.log("differs:", ...what);
};

const byName = new Map(ours.tensor_list.map((t) => [t.name, t]));
for (const t of theirs.tensorInfos) {
  const o = byName.get(t.name);
  if (!o) differ("no tensor", t.name);
  else if (o.shape.join() !== t.shape.join()) differ(t.name, "shape", o.shape, t.shape);
  else if (o.dtype !== GGMLQuantizationType[t.dtype]) differ(t.name, "dtype", o.dtype, t.dtype);
  else if (String(o.offset) !== String(t.offset)) differ(t.name, "offset", o.offset, t.offset);
}
if (byName.size !== theirs.tensorInfos.length) differ("tensors", byName.size, theirs.tensorInfos.length);

const same = (a, b) => {
  if (Array.isArray(b)) {
    const counted = a !== null && typeof a === "object" && !Array.isArray(a);
    return counted ? a.count === b.length : a.length === b.length && a.every((x, i) => same(x, b[i]));
  }
  if (typeof b === "number" && typeof a === "number") return a === b || Math.fround(a) === b;
  return String(a) === String(b);
};
const own = new Set(["version", "tensor_count", "kv_count"]); // of the header, not keys
let keys = 0;
for (const [key, value] of Object.entries(theirs.metadata)) {
  if (own.has(key)) continue;
  keys++;
  if (!(key in ours.metadata)) differ("no key", key);
  else if (!same(ours.metadata[key], value)) differ(key, ours.metadata[key], value);
}
if (keys !== Object.keys(ours.metadata).length) differ("keys", Object.keys(ours.metadata).length, keys);
console.log(`${theirs.tensorInfos.length} tensors and ${keys} keys: ${different === 0 ? "all alike" : different + " differ"}`);
process.exit(different === 0 ? 0 : 1);
