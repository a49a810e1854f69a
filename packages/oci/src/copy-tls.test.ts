// Copies over TLS, with certificates no system knows. The records of TLS come in their own rhythm,
// so the bytes are looked at as a whole at the other end.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { Failure } from "@exclave/core";
import { readBlobBytes, writeBlobBytes } from "./content-store.ts";
import { copyArtifact } from "./copy.ts";
import { MEDIA_TYPES } from "./descriptor.ts";
import { createRegistry } from "./registry/registry.ts";
import { createRegistryClient } from "./registry-client.ts";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

const isAbsent = spawnSync("openssl", ["version"]).status !== 0;
const skip = isAbsent ? "openssl is not installed" : false;

async function certificate(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")];
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const names = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"];
  const files = ["-keyout", key, "-out", cert, "-days", "2"];
  execFileSync("openssl", ["req", "-x509", ...kind, ...names, ...files], { stdio: "ignore" });
  return { key: readFileSync(key), cert: readFileSync(cert) };
}

async function registry(t: TestContext, tls: { key: Buffer; cert: Buffer }) {
  const directory = await temporaryDirectory(t);
  const made = createRegistry({ directory, auth: { kind: "anonymous" } });
  const server = createServer(tls, (request, response) => void made.handle(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await made.close();
  });
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe("a copy over TLS", { skip }, () => {
  test("brings every byte, whatever the sizes are", async (t) => {
    const tls = await certificate(t);
    const clients = [await registry(t, tls), await registry(t, tls)].map((url) => {
      const client = createRegistryClient({ url, ca: tls.cert });
      t.after(() => client.close());
      return client;
    });
    const [from, to] = clients as [(typeof clients)[0], (typeof clients)[0]];
    const sizes = [1, 16_384, 262_144, 262_145, 3_000_001, 8_000_000];
    const layers = [];
    for (const size of sizes) {
      layers.push(await writeBlobBytes(from, "a", MEDIA_TYPES.layerTar, randomBytes(size)));
    }
    const config = await writeBlobBytes(from, "a", MEDIA_TYPES.empty, Buffer.from("{}"));
    const document = { schemaVersion: 2, mediaType: MEDIA_TYPES.manifest, config, layers };
    const bytes = Buffer.from(JSON.stringify(document));
    const digest = await from.writeManifest("a", bytes, MEDIA_TYPES.manifest);

    const source = { repository: "a", digest };
    const result = await copyArtifact({ from, to, source, target: { repository: "b" } });

    assert.equal(result.copiedBytes, sizes.reduce((sum, size) => sum + size, 0) + 2);
    for (const layer of layers) {
      assert.equal((await readBlobBytes(to, "b", layer)).length, layer.size);
    }
  });

  test("is refused when nobody vouches for the other side, at the first try", async (t) => {
    const url = await registry(t, await certificate(t));
    const strangers = [
      createRegistryClient({ url, backoffMs: 1 }),
      createRegistryClient({ url, backoffMs: 1, ca: (await certificate(t)).cert }),
    ];
    for (const client of strangers) {
      t.after(() => client.close());

      await assert.rejects(client.tags("a"), isUnreachable);
      const digest = `sha256:${"0".repeat(64)}` as never;
      await assert.rejects(
        client.pourBlob("a", digest, async () => undefined),
        isUnreachable,
      );
      assert.equal(client.requests, 2);
    }
  });
});

function isUnreachable(reason: unknown): boolean {
  return reason instanceof Failure && reason.code === "unavailable";
}
