// Prints what Hugging Face's own packages read from a file, as JSON.
//
// Usage: node readers_test.mjs NODE_MODULES gguf FILE | safetensors FOLDER
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [modules, kind, target] = process.argv.slice(2);
const require = createRequire(path.join(modules, "x.js"));

// Replaces the HTTP requests to the hub: serves the files of the folder as those of a repository.
async function fetchFromFolder(url, options = {}) {
  const name = decodeURIComponent(new URL(url).pathname.split(/\/(?:resolve|raw)\/main\//)[1]);
  const file = path.join(target, name);
  if (!fs.existsSync(file)) return new Response("", { status: 404, headers: { "X-Error-Code": "EntryNotFound" } });
  const bytes = fs.readFileSync(file);
  const range = /bytes=(\d+)-(\d+)/.exec(new Headers(options.headers).get("Range") ?? "");
  const first = range ? Number(range[1]) : 0;
  const last = range ? Math.min(Number(range[2]), bytes.length - 1) : bytes.length - 1;
  return new Response(options.method === "HEAD" ? null : bytes.subarray(first, last + 1), {
    status: range ? 206 : 200,
    headers: {
      "Content-Length": String(last + 1 - first),
      "Content-Range": `bytes ${first}-${last}/${bytes.length}`,
      ETag: '"one"',
    },
  });
}

async function read() {
  if (kind === "gguf") return require("@huggingface/gguf").gguf(target, { allowLocalFile: true });
  return require("@huggingface/hub").parseSafetensorsMetadata({ repo: "a/b", fetch: fetchFromFolder });
}

console.log(JSON.stringify(await read(), (_, value) => (typeof value === "bigint" ? Number(value) : value)));
