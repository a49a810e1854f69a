import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import type { Digest } from "@exclave/core";
import { MEDIA_TYPES } from "../descriptor.ts";
import { digestOf } from "../digest.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { serveRegistry } from "./serve-registry.ts";

async function registry(t: TestContext) {
  const directory = await temporaryDirectory(t);
  const auth = { kind: "anonymous" } as const;
  const running = await serveRegistry({ directory, auth, host: "127.0.0.1", port: 0 });
  t.after(() => running.close());
  const send = (method: string, path: string, init: RequestInit = {}) =>
    fetch(new URL(path, running.url), { method, ...init });

  async function push(repository: string, bytes: Uint8Array): Promise<Digest> {
    const digest = digestOf(bytes);
    const path = `/v2/${repository}/blobs/uploads/?digest=${digest}`;
    assert.equal((await send("POST", path, { body: new Uint8Array(bytes) })).status, 201);
    return digest;
  }
  async function putManifest(repository: string, reference: string, fields: object = {}) {
    const config = { mediaType: MEDIA_TYPES.empty, digest: digestOf("{}"), size: 2 };
    await push(repository, Buffer.from("{}"));
    const body = JSON.stringify({ schemaVersion: 2, config, layers: [], ...fields });
    const headers = { "content-type": MEDIA_TYPES.manifest };
    const path = `/v2/${repository}/manifests/${reference}`;
    return { response: await send("PUT", path, { headers, body }), digest: digestOf(body) };
  }
  return { directory, send, push, putManifest };
}

async function errorCode(response: Response): Promise<string> {
  return ((await response.json()) as { errors: { code: string }[] }).errors[0]?.code ?? "";
}

describe("the embedded registry", () => {
  test("says that it is one", async (t) => {
    const { send } = await registry(t);

    const response = await send("GET", "/v2/");

    assert.equal(response.status, 200);
    assert.equal(response.headers.get("docker-distribution-api-version"), "registry/2.0");
  });

  test("takes a blob in chunks, says how far it is, and refuses one out of order", async (t) => {
    const { send } = await registry(t);
    const bytes = Buffer.from("0123456789");
    const begun = await send("POST", "/v2/a/blobs/uploads/");
    const location = begun.headers.get("location") ?? "";
    assert.equal(begun.status, 202);

    const chunk = (from: number, to: number) =>
      send("PATCH", location, {
        headers: { "content-range": `${from}-${to - 1}` },
        body: bytes.subarray(from, to),
      });

    const first = await chunk(0, 4);
    assert.equal(first.status, 202);
    assert.equal(first.headers.get("range"), "0-3");
    const early = await chunk(6, 8);
    assert.equal(early.status, 416);
    assert.equal((await chunk(0, 4)).status, 416);
    const status = await send("GET", location);
    assert.equal(status.status, 204);
    assert.equal(status.headers.get("range"), "0-3");
    assert.equal((await chunk(4, 8)).status, 202);
    const done = await send("PUT", `${location}?digest=${digestOf(bytes)}`, {
      headers: { "content-range": "8-9" },
      body: bytes.subarray(8),
    });
    assert.equal(done.status, 201);
    const back = await send("GET", done.headers.get("location") ?? "");
    assert.equal(await back.text(), "0123456789");
    assert.equal((await send("GET", location)).status, 404);
  });

  test("keeps no blob whose digest is wrong, and nothing of a cancelled upload", async (t) => {
    const { send, directory } = await registry(t);
    const wrong = await send("POST", `/v2/a/blobs/uploads/?digest=${digestOf("right")}`, {
      body: "wrong",
    });
    const begun = await send("POST", "/v2/a/blobs/uploads/");
    const location = begun.headers.get("location") ?? "";
    await send("PATCH", location, { body: "half" });

    const cancelled = await send("DELETE", location);

    assert.equal(wrong.status, 400);
    assert.equal(await errorCode(wrong), "DIGEST_INVALID");
    assert.equal(cancelled.status, 204);
    assert.equal((await send("PUT", `${location}?digest=${digestOf("half")}`)).status, 404);
    assert.deepEqual(await readdir(join(directory, "tmp")), []);
    assert.equal((await send("HEAD", `/v2/a/blobs/${digestOf("right")}`)).status, 404);
  });

  test("an upload belongs to its repository", async (t) => {
    const { send } = await registry(t);
    const begun = await send("POST", "/v2/a/blobs/uploads/");
    const location = (begun.headers.get("location") ?? "").replace("/v2/a/", "/v2/b/");

    assert.equal((await send("PATCH", location, { body: "x" })).status, 404);
  });

  // biome-ignore format: a table reads as a table.
  const RANGES: [string, number, string, string?][] = [
    ["bytes=2-4",  206, "234",        "bytes 2-4/10"],
    ["bytes=7-",   206, "789",        "bytes 7-9/10"],
    ["bytes=-3",   206, "789",        "bytes 7-9/10"],
    ["bytes=-30",  206, "0123456789", "bytes 0-9/10"],
    ["bytes=8-99", 206, "89",         "bytes 8-9/10"],
    ["bytes=4-2",  200, "0123456789"],
    ["lines=1-2",  200, "0123456789"],
  ];
  for (const [range, status, text, contentRange] of RANGES) {
    test(`answers ${range} with ${status}`, async (t) => {
      const { send, push } = await registry(t);
      const digest = await push("a", Buffer.from("0123456789"));

      const response = await send("GET", `/v2/a/blobs/${digest}`, { headers: { range } });

      assert.equal(response.status, status);
      assert.equal(await response.text(), text);
      assert.equal(response.headers.get("content-range"), contentRange ?? null);
    });
  }

  test("answers a range past the end with 416", async (t) => {
    const { send, push } = await registry(t);
    const digest = await push("a", Buffer.from("0123456789"));

    const headers = { range: "bytes=10-" };
    const response = await send("GET", `/v2/a/blobs/${digest}`, { headers });

    assert.equal(response.status, 416);
    assert.equal(response.headers.get("content-range"), "bytes */10");
  });

  test("mounts from a named repository, from any, and opens an upload when it cannot", async (t) => {
    const { send, push } = await registry(t);
    const digest = await push("a", Buffer.from("shared"));
    const mount = (to: string, query: string) => send("POST", `/v2/${to}/blobs/uploads/?${query}`);

    assert.equal((await send("HEAD", `/v2/b/blobs/${digest}`)).status, 404);
    assert.equal((await mount("b", `mount=${digest}&from=a`)).status, 201);
    assert.equal((await mount("c", `mount=${digest}`)).status, 201);
    assert.equal((await mount("d", `mount=${digest}&from=nowhere`)).status, 202);
    assert.equal((await mount("d", `mount=${digestOf("unknown")}`)).status, 202);
    assert.equal((await send("HEAD", `/v2/b/blobs/${digest}`)).status, 200);
    assert.equal((await send("HEAD", `/v2/c/blobs/${digest}`)).status, 200);
    assert.equal((await send("HEAD", `/v2/d/blobs/${digest}`)).status, 404);
  });

  test("lists tags page by page", async (t) => {
    const { send, putManifest } = await registry(t);
    for (const tag of ["c", "a", "d", "b"]) await putManifest("x/y", tag);

    const list = async (path: string) => {
      const response = await send("GET", path);
      const { tags } = (await response.json()) as { tags: string[] };
      return { tags, next: /<(.*)>; rel="next"/.exec(response.headers.get("link") ?? "")?.[1] };
    };

    assert.deepEqual(await list("/v2/x/y/tags/list"), {
      tags: ["a", "b", "c", "d"],
      next: undefined,
    });
    const first = await list("/v2/x/y/tags/list?n=3");
    assert.deepEqual(first.tags, ["a", "b", "c"]);
    assert.deepEqual(await list(first.next ?? ""), { tags: ["d"], next: undefined });
    assert.deepEqual(await list("/v2/x/y/tags/list?n=0"), { tags: [], next: undefined });
    assert.deepEqual((await list("/v2/x/y/tags/list?last=b")).tags, ["c", "d"]);
    assert.equal((await send("GET", "/v2/nowhere/tags/list")).status, 404);
  });

  test("says which manifest a pushed one is about, and lists it there", async (t) => {
    const { send, putManifest } = await registry(t);
    const subject = { mediaType: MEDIA_TYPES.manifest, digest: digestOf("x"), size: 1 };

    const { response } = await putManifest("a", "sig", {
      subject,
      artifactType: "application/sig",
    });

    assert.equal(response.headers.get("oci-subject"), subject.digest);
    const path = `/v2/a/referrers/${subject.digest}`;
    const all = await send("GET", path);
    assert.equal(all.headers.get("content-type"), MEDIA_TYPES.index);
    assert.equal(((await all.json()) as { manifests: unknown[] }).manifests.length, 1);
    const none = await send("GET", `${path}?artifactType=application/other`);
    assert.equal(none.headers.get("oci-filters-applied"), "artifactType");
    assert.deepEqual(((await none.json()) as { manifests: unknown[] }).manifests, []);
  });

  test("deleting a manifest takes its tags and its place among referrers along", async (t) => {
    const { send, putManifest } = await registry(t);
    const subject = { mediaType: MEDIA_TYPES.manifest, digest: digestOf("x"), size: 1 };
    const { digest } = await putManifest("a", "one", { subject });
    await putManifest("a", "two", { subject });

    assert.equal((await send("DELETE", "/v2/a/manifests/one")).status, 202);
    assert.equal((await send("GET", "/v2/a/manifests/one")).status, 404);
    assert.equal((await send("GET", "/v2/a/manifests/two")).status, 200);
    assert.equal((await send("DELETE", `/v2/a/manifests/${digest}`)).status, 202);

    assert.equal((await send("GET", "/v2/a/manifests/two")).status, 404);
    assert.equal((await send("DELETE", `/v2/a/manifests/${digest}`)).status, 404);
    const referrers = await send("GET", `/v2/a/referrers/${subject.digest}`);
    assert.deepEqual(((await referrers.json()) as { manifests: unknown[] }).manifests, []);
    assert.equal((await send("DELETE", `/v2/a/blobs/${digestOf("{}")}`)).status, 202);
    assert.equal((await send("HEAD", `/v2/a/blobs/${digestOf("{}")}`)).status, 404);
  });

  test("refuses manifests that are wrong, each with its code", async (t) => {
    const { send, putManifest } = await registry(t);
    const put = (body: string, reference = "t", type: string = MEDIA_TYPES.manifest) =>
      send("PUT", `/v2/a/manifests/${reference}`, { headers: { "content-type": type }, body });
    const missing = { mediaType: MEDIA_TYPES.layerTar, digest: digestOf("missing"), size: 7 };

    assert.equal(await errorCode(await put("not json")), "MANIFEST_INVALID");
    assert.equal(await errorCode(await put("{}")), "MANIFEST_INVALID");
    assert.equal(await errorCode(await put("{}", "t", "text/plain")), "MANIFEST_INVALID");
    assert.equal((await put(" ".repeat(4 * 1024 * 1024 + 1))).status, 413);
    const lacking = await putManifest("a", "t", { layers: [missing] });
    assert.equal(await errorCode(lacking.response), "MANIFEST_BLOB_UNKNOWN");
    const other = await putManifest("a", digestOf("other"));
    assert.equal(await errorCode(other.response), "DIGEST_INVALID");
    assert.equal((await send("GET", "/v2/a/manifests/t")).status, 404);
  });

  test("keeps content by sha512 as well", async (t) => {
    const { send } = await registry(t);
    const digest = `sha512:${createHash("sha512").update("strong").digest("hex")}`;

    const pushed = await send("POST", `/v2/a/blobs/uploads/?digest=${digest}`, { body: "strong" });

    assert.equal(pushed.status, 201);
    assert.equal(await (await send("GET", `/v2/a/blobs/${digest}`)).text(), "strong");
  });

  // biome-ignore format: a table reads as a table.
  const REFUSED: [string, string, number, string][] = [
    ["GET",    "/v2/a/blobs/sha256:short",                400, "DIGEST_INVALID"],
    ["GET",    "/v2/a/manifests/sha256:short",            400, "DIGEST_INVALID"],
    ["GET",    "/v2/a/manifests/..%2f..%2fetc",           400, "MANIFEST_INVALID"],
    ["GET",    "/v2/UPPER/tags/list",                     400, "NAME_INVALID"],
    ["GET",    "/v2/a/%2e%2e/b/tags/list",                404, "NAME_UNKNOWN"],
    ["POST",   "/v2/a/blobs/uploads/?mount=nonsense",     400, "DIGEST_INVALID"],
    ["GET",    "/v2/a/blobs/uploads/unknown",             404, "BLOB_UPLOAD_UNKNOWN"],
    ["POST",   "/v2/a/manifests/latest",                  405, "UNSUPPORTED"],
    ["GET",    "/elsewhere",                              404, "UNSUPPORTED"],
  ];
  for (const [method, path, status, code] of REFUSED) {
    test(`answers ${method} ${path} with ${status} ${code}`, async (t) => {
      const { send } = await registry(t);

      const response = await send(method, path);

      assert.equal(response.status, status);
      assert.equal(await errorCode(response), code);
    });
  }

  test("sweeps away what a killed process left unfinished, and keeps what was finished", async (t) => {
    const directory = await temporaryDirectory(t);
    await mkdir(join(directory, "tmp"));
    await writeFile(join(directory, "tmp", "left-over"), "half a blob");
    const options = { directory, auth: { kind: "anonymous" }, host: "127.0.0.1", port: 0 } as const;
    const running = await serveRegistry(options);
    t.after(() => running.close());

    const response = await fetch(new URL("/v2/", running.url));

    assert.equal(response.status, 200);
    assert.deepEqual(await readdir(directory), []);
  });
});
