import assert from "node:assert/strict";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { writeBlobBytes } from "../content/content-store.ts";
import { MEDIA_TYPES } from "../content/descriptor.ts";
import { serveRegistry } from "../registry/serve-registry.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createRegistryClient } from "./registry-client.ts";

/** No such host can be reached by any address. */
const URL_OF_NONE = "http://registry.exclave.invalid";
const REPOSITORY = "apps/crm/api";

test("a registry on a socket is written and read by whoever has the socket, over no network", async (t) => {
  const { client, socket } = await aRegistry(t);
  const bytes = Buffer.alloc(300_000, "content");

  const blob = await writeBlobBytes(client, REPOSITORY, MEDIA_TYPES.layerGzip, bytes);
  const read: Buffer[] = [];
  await client.pourBlob(REPOSITORY, blob.digest, async (chunk) => {
    read.push(Buffer.from(chunk));
  });

  assert.ok(Buffer.concat(read).equals(bytes));
  assert.equal(await client.headBlob(REPOSITORY, blob.digest), bytes.length);
  assert.ok((await stat(socket)).isSocket());
});

test("the socket of an earlier life is replaced", async (t) => {
  const directory = await temporaryDirectory(t);
  const first = await aRegistry(t, directory);
  await first.close();

  const { client } = await aRegistry(t, directory);

  const blob = await writeBlobBytes(
    client,
    REPOSITORY,
    MEDIA_TYPES.layerGzip,
    Buffer.from("again"),
  );
  assert.equal(await client.headBlob(REPOSITORY, blob.digest), 5);
});

test("where a registry sends us is not reached by its socket", async (t) => {
  const directory = await temporaryDirectory(t);
  const elsewhere = createServer((_, response) => response.end("from elsewhere"));
  await new Promise<void>((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
  t.after(() => elsewhere.close());
  const { port } = elsewhere.address() as AddressInfo;
  const redirecting = createServer((_, response) => {
    response.writeHead(307, { location: `http://127.0.0.1:${port}/blob` }).end();
  });
  const socket = join(directory, "redirecting.sock");
  await new Promise<void>((resolve) => redirecting.listen(socket, resolve));
  t.after(() => redirecting.close());
  const client = createRegistryClient({ url: URL_OF_NONE, socket });
  t.after(() => client.close());

  const read: Buffer[] = [];
  for await (const chunk of client.readBlob(REPOSITORY, `sha256:${"0".repeat(64)}` as never)) {
    read.push(Buffer.from(chunk));
  }

  assert.equal(Buffer.concat(read).toString(), "from elsewhere");
});

async function aRegistry(t: TestContext, given?: string) {
  const directory = given ?? (await temporaryDirectory(t));
  const socket = join(directory, "registry.sock");
  const registry = await serveRegistry({
    directory: join(directory, "content"),
    host: "",
    port: 0,
    socket,
    auth: { kind: "anonymous" },
  });
  const client = createRegistryClient({ url: URL_OF_NONE, socket });
  let closed: Promise<void> | undefined;
  const closeOnce = () => (closed ??= registry.close());
  t.after(async () => {
    client.close();
    await closeOnce();
  });
  return { client, socket, close: closeOnce };
}
