import assert from "node:assert/strict";
import { stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Failure, Instant, renewTrust } from "@exclave/core";
import { NOW } from "../testing/builders.ts";
import { sealTrust, signedTrust } from "../testing/signed-trust.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { adoptTrust } from "./adopt-trust.ts";
import { createTrustFile, readTrustFile } from "./trust-file.ts";

const now = () => NOW;

test("the newest document is there after a restart, for its owner alone", async (t) => {
  const path = join(await temporaryDirectory(t), "agent", "trust.json");
  const first = signedTrust();
  const second = renewTrust(first.document, Instant.parse(NOW));
  const file = createTrustFile(path, first, now);

  file.keep(sealTrust(second, first.root), second);

  assert.deepEqual((await readTrustFile(path, now))?.current(), second);
  assert.deepEqual(file.current(), second);
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.equal(file.role("director").keys[0]?.keyid, first.director.keyid);
});

test("a file that holds no trust document is said to be none, and no file is none", async (t) => {
  const path = join(await temporaryDirectory(t), "trust.json");
  assert.equal(await readTrustFile(path, now), undefined);

  await writeFile(path, "{}");

  await assert.rejects(readTrustFile(path, now), /does not hold a trust document/);
});

test("an agent from before trust documents takes the one that names the keys it pinned", async () => {
  const { envelope, document } = signedTrust();
  const pinned = {
    director: { keyid: document.roles.director.keyids[0] ?? "", spki: "" },
    release: { keyid: document.roles.release.keyids[0] ?? "", spki: "" },
  };
  const asked: string[] = [];
  const adopt = (served: unknown, keys = pinned) =>
    adoptTrust({
      serverUrl: "http://server.test",
      pinned: keys,
      now: NOW,
      read: async (url) => {
        asked.push(url);
        return served;
      },
    });

  assert.deepEqual((await adopt(envelope)).document, document);
  assert.deepEqual(asked, ["http://server.test/v1/trust/1"]);
  const isRefused = (reason: unknown) => reason instanceof Failure && reason.code === "signature";
  await assert.rejects(adopt(signedTrust().envelope), isRefused);
  const forged = { ...envelope, signatures: signedTrust().envelope.signatures };
  await assert.rejects(adopt(forged), isRefused);
  const other = { ...pinned, release: pinned.director };
  await assert.rejects(adopt(envelope, other), isRefused);
});
