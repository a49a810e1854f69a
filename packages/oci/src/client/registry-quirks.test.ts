// Registries that keep less of the specification than most do.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { Failure } from "@exclave/core";
import { MEDIA_TYPES } from "../content/descriptor.ts";
import { digestOf } from "../content/digest.ts";
import { createRegistryClient } from "./registry-client.ts";

async function clientOf(t: TestContext, handle: RequestListener) {
  const server = createServer(handle);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = createRegistryClient({ url, backoffMs: 1 });
  t.after(() => {
    client.close();
    server.closeAllConnections();
    server.close();
  });
  return client;
}

const SUBJECT = digestOf("subject");
const REFERRER = { mediaType: MEDIA_TYPES.manifest, digest: digestOf("signature"), size: 9 };
const LIST = JSON.stringify({ schemaVersion: 2, manifests: [REFERRER] });

test("what a tag stands for is read where the answer to a HEAD does not say it", async (t) => {
  const client = await clientOf(t, (request, response) => {
    const headers = { "content-type": MEDIA_TYPES.index, "content-length": LIST.length };
    response.writeHead(200, headers).end(request.method === "HEAD" ? undefined : LIST);
  });

  const head = await client.headManifest("a", "v1");

  assert.deepEqual(head, {
    digest: digestOf(LIST),
    mediaType: MEDIA_TYPES.index,
    size: LIST.length,
  });
});

test("a digest that is none, in the answer to a HEAD, is not taken for one", async (t) => {
  const client = await clientOf(t, (_request, response) => {
    response.writeHead(200, { "docker-content-digest": "W/abc" }).end(LIST);
  });

  assert.equal((await client.headManifest("a", "v1"))?.digest, digestOf(LIST));
});

for (const [name, status, body] of [
  ["a page for people", 200, "<html>app</html>"],
  ["some other JSON", 200, `{"ok":true}`],
  ["405", 405, ""],
] as const) {
  test(`referrers are looked for under their tag where the API answers with ${name}`, async (t) => {
    const client = await clientOf(t, (request, response) => {
      const isApi = request.url?.includes("/referrers/");
      const headers = { "content-type": isApi ? "text/html" : MEDIA_TYPES.index };
      response.writeHead(isApi ? status : 200, headers).end(isApi ? body : LIST);
    });

    assert.deepEqual(await client.referrers("a", SUBJECT), [REFERRER]);
  });
}

test("a registry that has a page for people everywhere is told as such", async (t) => {
  const client = await clientOf(t, (_request, response) => {
    response.writeHead(200, { "content-type": "text/html" }).end("<html>app</html>");
  });

  for (const asking of [() => client.referrers("a", SUBJECT), () => client.tags("a")]) {
    await assert.rejects(asking, (reason) => reason instanceof Failure && reason.code !== "bug");
  }
});

test("what a registry says is one line that leaves the terminal alone", async (t) => {
  const message = "x\u001b[2J\u001b[31mRED\r\nerror: \u202efake\u0007";
  const client = await clientOf(t, (_request, response) => {
    response.writeHead(403).end(JSON.stringify({ errors: [{ code: "DENIED", message }] }));
  });

  await assert.rejects(client.tags("a"), (reason) => {
    assert.match((reason as Failure).message, /: x \[2J \[31mRED error: fake$/);
    return true;
  });
});

test("an error that is written in another form is still an error", async (t) => {
  const client = await clientOf(t, (_request, response) => {
    response.writeHead(403).end(JSON.stringify({ errors: [{ message: { text: "no" } }] }));
  });

  await assert.rejects(client.tags("a"), /answered 403 to GET/);
});
