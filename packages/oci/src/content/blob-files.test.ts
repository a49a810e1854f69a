import assert from "node:assert/strict";
import { promises } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { openRegistry } from "../registry/testing/open-registry.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createBlobFiles } from "./blob-files.ts";
import { bytesOf, digestOf } from "./digest.ts";

/** Lets the test see each file that is opened, and refuse it. */
function watchOpens(t: TestContext, onOpen: (path: string, flags: unknown) => void): void {
  const { open } = promises;
  t.mock.method(promises, "open", async (...args: Parameters<typeof open>) => {
    onOpen(String(args[0]), args[1]);
    return open(...args);
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
}

function refuseTemporaryFiles(path: string): void {
  if (!path.includes("/tmp/") || !/[0-9a-f-]{36}$/.test(path)) return;
  throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
}

const BYTES = Buffer.from("content");

describe("blob files", () => {
  test("every directory that is made for the first blob is durable", async (t) => {
    const directory = await temporaryDirectory(t);
    const synced = new Set<string>();
    watchOpens(t, (path, flags) => flags === "r" && synced.add(path));

    const files = createBlobFiles(join(directory, "new/store"));
    await files.write({ digest: digestOf(BYTES) }, () => bytesOf(BYTES));

    for (const place of ["", "new", "new/store", "new/store/blobs", "new/store/blobs/sha256"]) {
      assert.ok(synced.has(join(directory, place)), place);
    }
  });

  test("a disk on which no file can be opened is full", async (t) => {
    const files = createBlobFiles(await temporaryDirectory(t));
    watchOpens(t, refuseTemporaryFiles);

    const written = files.write({ digest: digestOf(BYTES) }, () => bytesOf(BYTES));

    await assert.rejects(written, { code: "disk_full" });
  });

  test("a registry on such a disk says so", async (t) => {
    const { send } = await openRegistry(t, { mayLackBlobs: true });
    watchOpens(t, refuseTemporaryFiles);
    const headers = { "content-type": "application/vnd.oci.image.index.v1+json" };
    const body = JSON.stringify({ schemaVersion: 2, manifests: [] });

    const response = await send("PUT", "/v2/a/manifests/v1", { headers, body });

    assert.equal(response.status, 507);
  });
});
