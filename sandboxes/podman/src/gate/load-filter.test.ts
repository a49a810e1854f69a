import assert from "node:assert/strict";
import { test } from "node:test";
import { type ArchivedFile, archive } from "@exclave/plugin-sdk/engine";
import { filterLoad } from "./load-filter.ts";

const isOwnTag = (tag: string) => tag.startsWith("exclave.invalid/exclave-i1:");

function file(path: string, content: string | Buffer): ArchivedFile {
  return { path, mode: 0o644, content: Buffer.from(content) };
}

function list(...tags: string[]): ArchivedFile {
  return file("manifest.json", JSON.stringify([{ Config: "c", RepoTags: tags, Layers: [] }]));
}

async function filtered(bytes: Uint8Array, chunkBytes = 700): Promise<Buffer> {
  async function* chunks() {
    for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
  }
  const out: Uint8Array[] = [];
  for await (const part of filterLoad(chunks(), isOwnTag)) out.push(Buffer.from(part));
  return Buffer.concat(out);
}

const OWN = "exclave.invalid/exclave-i1:one";

test("an archive that names images of this install passes unchanged, however it is cut", async () => {
  const bytes = archive([list(OWN), file("config.json", "{}"), file("l1", Buffer.alloc(5_000, 1))]);

  for (const chunkBytes of [1, 511, 512, 700, 100_000]) {
    assert.ok((await filtered(bytes, chunkBytes)).equals(bytes), String(chunkBytes));
  }
});

for (const [what, files] of Object.entries({
  "names an image of somebody else": [list("docker.io/library/alpine:latest")],
  "names one beside its own": [list(OWN, "localhost/x:1")],
  "names none": [list()],
  "has its list later": [file("config.json", "{}"), list(OWN)],
  "has a second list": [list(OWN), list("localhost/x:1")],
  "has an older list": [list(OWN), file("repositories", "{}")],
  "is an OCI layout, too": [list(OWN), file("index.json", "{}")],
  "leads elsewhere": [list(OWN), file("../x", "")],
  "has a list that is none": [file("manifest.json", "[")],
})) {
  test(`an archive that ${what} is refused`, async () => {
    await assert.rejects(filtered(archive(files)), { code: "forbidden" });
  });
}

test("nothing may follow an archive's end, and it may not end in the middle", async () => {
  const whole = archive([list(OWN)]);
  const second = archive([list("localhost/x:1")]);

  await assert.rejects(filtered(Buffer.concat([whole, second])), { code: "forbidden" });
  await assert.rejects(filtered(whole.subarray(0, 600)), { code: "forbidden" });
});

test("an entry that readers may read differently is refused", async () => {
  const bytes = archive([list(OWN), file("a", "x")]);
  const pax = Buffer.from(bytes);
  pax.write("x", 1024 + 156);

  await assert.rejects(filtered(pax), { code: "forbidden" });
});
