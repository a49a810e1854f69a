import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { Failure } from "@exclave/core";
import { makeCertificate } from "@exclave/machine";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { openAuthority } from "./authority.ts";

const NOW = Date.UTC(2030, 0, 1);
const now = () => NOW;

async function keysIn(t: TestContext): Promise<string> {
  const keys = join(await temporaryDirectory(t), "keys");
  await mkdir(keys);
  return keys;
}

test("is made once and stays the same, its key for its owner alone", async (t) => {
  const keys = await keysIn(t);

  const first = await openAuthority({ keys, now });
  const second = await openAuthority({ keys, now });

  assert.equal(second.fingerprint, first.fingerprint);
  assert.match(first.fingerprint, /^sha256:[0-9a-f]{64}$/);
  assert.equal((await stat(join(keys, "ca.pem"))).mode & 0o777, 0o600);
  const { certificate } = second.issueServer(["a.example"]);
  assert.ok(certificate.verify(first.certificate.publicKey));
  assert.ok(certificate.validFromDate.getTime() < NOW, "a clock that is a little behind");
});

test("a key that a crash left without its certificate gets one", async (t) => {
  const keys = await keysIn(t);
  const before = await openAuthority({ keys, now });
  await rm(join(keys, "ca.crt"));

  const after = await openAuthority({ keys, now });

  assert.equal(after.fingerprint, before.fingerprint);
});

test("one that was brought is used as it is", async (t) => {
  const keys = await keysIn(t);
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const wish = {
    about: { kind: "authority" },
    name: "Our CA",
    key: publicKey,
    serial: Buffer.from([7]),
  } as const;
  const brought = makeCertificate({ ...wish, notBefore: NOW, notAfter: NOW + 1e9 }, { privateKey });
  await writeFile(join(keys, "ca.pem"), privateKey.export({ type: "pkcs8", format: "pem" }));
  await writeFile(join(keys, "ca.crt"), brought.toString());

  const { certificate } = await openAuthority({ keys, now });

  assert.equal(certificate.subject, "CN=Our CA");
  assert.equal(await readFile(join(keys, "ca.crt"), "utf8"), brought.toString());
});

test("files that do not belong together, or to no authority, are named", async (t) => {
  const keys = await keysIn(t);
  const authority = await openAuthority({ keys, now });
  const leaf = authority.issueServer(["a.example"]);
  const pem = (key = leaf.privateKey) => key.export({ type: "pkcs8", format: "pem" });
  const isInvalid = (pattern: RegExp) => (reason: unknown) =>
    reason instanceof Failure && reason.code === "invalid" && pattern.test(reason.message);

  await writeFile(join(keys, "ca.pem"), pem());
  await assert.rejects(
    openAuthority({ keys, now }),
    isInvalid(/ca\.pem is not the key of .*ca\.crt/),
  );
  await writeFile(join(keys, "ca.crt"), leaf.certificate.toString());
  await assert.rejects(
    openAuthority({ keys, now }),
    isInvalid(/not the certificate of an authority/),
  );
  await writeFile(join(keys, "ca.crt"), "nonsense");
  await assert.rejects(openAuthority({ keys, now }), isInvalid(/not a key and its certificate/));
  await rm(join(keys, "ca.pem"));
  await assert.rejects(openAuthority({ keys, now }), isInvalid(/its key .*ca\.pem is not/));
});
