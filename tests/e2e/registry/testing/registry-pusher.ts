// A client that pushes small images until there have been enough, and writes down what it begins and
// what the registry acknowledged. It is meant to be killed at any moment and started again.
//
//   node registry-pusher.ts ADDRESS JOURNAL COUNT

import { createHash, randomBytes } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const [address = "", journal = "", count = "0"] = process.argv.slice(2);
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

for (let n = begun(); n < Number(count); n++) {
  try {
    await pushImage(n);
  } catch {
    // The registry is gone, or was in the middle of it: this push counts as not acknowledged.
    await untilBack();
  }
}

function begun(): number {
  if (!existsSync(journal)) return 0;
  return readFileSync(journal, "utf8").match(/^begin /gm)?.length ?? 0;
}

async function pushImage(n: number): Promise<void> {
  const repository = `repository-${n % 5}`;
  const blobs = [1, 2].map(() => randomBytes(1_000 + Math.floor(Math.random() * 60_000)));
  const [config, ...layers] = blobs.map((bytes) => ({
    mediaType: "application/octet-stream",
    digest: digestOf(bytes),
    size: bytes.length,
  }));
  const manifest = Buffer.from(JSON.stringify({ schemaVersion: 2, config, layers }));
  note(`begin ${repository} ${[...blobs, manifest].map(digestOf).join(" ")} t${n}`);

  for (const bytes of blobs) {
    await pushBlob(repository, bytes, n);
    note(`blob ${repository} ${digestOf(bytes)}`);
  }
  const headers = { "content-type": MANIFEST };
  const path = `/v2/${repository}/manifests/t${n}`;
  await send("PUT", path, { headers, body: new Uint8Array(manifest) }, 201);
  note(`manifest ${repository} ${digestOf(manifest)} t${n}`);
}

/** In one request, in two, or in chunks, by turns. */
async function pushBlob(repository: string, bytes: Buffer, n: number): Promise<void> {
  const uploads = `/v2/${repository}/blobs/uploads/`;
  const digest = digestOf(bytes);
  const all = new Uint8Array(bytes);
  if (n % 3 === 0) {
    await send("POST", `${uploads}?digest=${digest}`, { body: all }, 201);
    return;
  }
  const location = (await send("POST", uploads, {}, 202)).headers.get("location") ?? "";
  const half = n % 3 === 1 ? 0 : Math.floor(all.length / 2);
  if (half > 0) {
    const headers = { "content-range": `0-${half - 1}` };
    await send("PATCH", location, { headers, body: all.subarray(0, half) }, 202);
  }
  await send("PUT", `${location}?digest=${digest}`, { body: all.subarray(half) }, 201);
}

async function send(method: string, path: string, init: RequestInit, status: number) {
  const response = await fetch(new URL(path, address), { method, ...init });
  await response.arrayBuffer();
  if (response.status !== status) throw new Error(`${method} ${path}: ${response.status}`);
  return response;
}

async function untilBack(): Promise<void> {
  for (let look = 0; look < 1_000; look++) {
    if (await fetch(new URL("/v2/", address)).then(isOk, () => false)) return;
    await sleep(20);
  }
  throw new Error("the registry did not come back");
}

function isOk({ ok }: Response): boolean {
  return ok;
}

function note(line: string): void {
  appendFileSync(journal, `${line}\n`);
}

function digestOf(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}
