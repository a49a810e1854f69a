// The promises of the signer port, as tests: for the one in this process and the one in its own.

import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import {
  CANCEL_PAYLOAD_TYPE,
  CHECKPOINT_PAYLOAD_TYPE,
  Failure,
  type FailureCode,
  IN_TOTO_PAYLOAD_TYPE,
  MANIFEST_PAYLOAD_TYPE,
  preAuthEncoding,
  sha256Hex,
  TRUST_PAYLOAD_TYPE,
  TRUST_ROLES,
} from "@exclave/core";
import { ROLE_RULES, type Signer, type SignerKey } from "../signer/signer.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

const payload = new TextEncoder().encode("{}");

/** `open` is called again on the same directory: what was kept must be there. */
export function describeSigner(
  name: string,
  open: (t: TestContext, keys: string) => Promise<Signer>,
): void {
  describe(name, () => {
    test("makes keys that belong to one role and verify with their public half", async (t) => {
      const signer = await open(t, await keysDirectory(t));

      for (const role of TRUST_ROLES) {
        const key = await signer.make(role);
        const [payloadType = ""] = ROLE_RULES[role].payloadTypes;
        const signature = await signer.sign({ role, keyid: key.keyid, payloadType, payload });

        assert.equal(key.role, role);
        assert.equal(key.keyid, sha256Hex(Buffer.from(key.spki, "base64")));
        assert.ok(isBy(key, preAuthEncoding(payloadType, payload), signature), role);
        assert.deepEqual(
          (await signer.keys()).filter((one) => one.role === role),
          [key],
        );
      }
    });

    test("keeps keys in files that their owner alone can read, and has them after a restart", async (t) => {
      const directory = await keysDirectory(t);
      const signer = await open(t, directory);
      const key = await signer.make("director");
      await signer.close();

      const again = await open(t, directory);

      assert.deepEqual(await again.keys(), [key]);
      for (const file of await readdir(directory)) {
        assert.equal((await stat(join(directory, file))).mode & 0o077, 0, file);
      }
    });

    test("refuses every payload type that is not the role's", async (t) => {
      const signer = await open(t, await keysDirectory(t));
      const types = [
        MANIFEST_PAYLOAD_TYPE,
        CANCEL_PAYLOAD_TYPE,
        CHECKPOINT_PAYLOAD_TYPE,
        IN_TOTO_PAYLOAD_TYPE,
        TRUST_PAYLOAD_TYPE,
        "text/plain",
      ];

      for (const role of TRUST_ROLES) {
        const { keyid } = await signer.make(role);
        for (const payloadType of types) {
          if (ROLE_RULES[role].payloadTypes.includes(payloadType)) continue;
          await failsWith("forbidden", signer.sign({ role, keyid, payloadType, payload }));
        }
      }
    });

    test("refuses a payload over the role's limit and a key that is not the role's", async (t) => {
      const signer = await open(t, await keysDirectory(t));
      const director = await signer.make("director");
      const request = { role: "director", payloadType: MANIFEST_PAYLOAD_TYPE, payload } as const;
      const large = new Uint8Array(ROLE_RULES.director.bytesMax + 1);

      const { keyid } = director;
      await failsWith("too_large", signer.sign({ ...request, keyid, payload: large }));
      await failsWith("not_found", signer.sign({ ...request, keyid: "0".repeat(64) }));
      const asRelease = { role: "release", payloadType: IN_TOTO_PAYLOAD_TYPE } as const;
      await failsWith("not_found", signer.sign({ ...request, ...asRelease, keyid }));
      assert.ok(await signer.sign({ ...request, keyid }), "and goes on signing");
    });

    test("forgets a key for good, and only the one it is asked to", async (t) => {
      const directory = await keysDirectory(t);
      const signer = await open(t, directory);
      const [gone, kept] = [await signer.make("root"), await signer.make("root")];

      await signer.forget("root", gone.keyid);
      await signer.forget("root", gone.keyid);
      await signer.forget("director", kept.keyid);

      assert.deepEqual(await signer.keys(), [kept]);
      await signer.close();
      assert.deepEqual(await (await open(t, directory)).keys(), [kept]);
    });

    test("hands out a root key and no other", async (t) => {
      const directory = await keysDirectory(t);
      const signer = await open(t, directory);
      const [root, director] = [await signer.make("root"), await signer.make("director")];

      const pem = await signer.exportRoot(root.keyid);

      const der = createPublicKey(pem).export({ format: "der", type: "spki" });
      assert.equal(der.toString("base64"), root.spki);
      await failsWith("not_found", signer.exportRoot(director.keyid));
    });

    test("signs many at once, each with its own answer", async (t) => {
      const signer = await open(t, await keysDirectory(t));
      const key = await signer.make("director");
      const payloads = Array.from({ length: 50 }, (_, at) =>
        new TextEncoder().encode(`{"at":${at}}`),
      );

      const signatures = await Promise.all(
        payloads.map((one) =>
          signer.sign({
            role: "director",
            keyid: key.keyid,
            payloadType: MANIFEST_PAYLOAD_TYPE,
            payload: one,
          }),
        ),
      );

      for (const [at, one] of payloads.entries()) {
        const signed = preAuthEncoding(MANIFEST_PAYLOAD_TYPE, one);
        assert.ok(isBy(key, signed, signatures[at] ?? new Uint8Array()));
      }
    });

    test("takes over the keys of a server that had no signer yet", async (t) => {
      const directory = await keysDirectory(t);
      const before = await open(t, directory);
      const { keyid } = await before.make("root");
      const pem = await before.exportRoot(keyid);
      await before.forget("root", keyid);
      await before.close();
      await writeFile(join(directory, "director.pem"), pem, { mode: 0o600 });
      await writeFile(join(directory, "registry.pem"), pem, { mode: 0o600 });

      const signer = await open(t, directory);

      const keys = await signer.keys();
      assert.deepEqual(
        keys.map((key) => [key.role, key.keyid]),
        [["director", keyid]],
      );
      assert.equal(await readFile(join(directory, "director.pem"), "utf8"), pem);
    });
  });
}

function isBy({ spki, scheme }: SignerKey, bytes: Uint8Array, signature: Uint8Array): boolean {
  const key = createPublicKey({ key: Buffer.from(spki, "base64"), format: "der", type: "spki" });
  return verify(scheme === "ed25519" ? null : "sha256", bytes, key, signature);
}

async function keysDirectory(t: TestContext): Promise<string> {
  return join(await temporaryDirectory(t), "keys");
}

export async function failsWith(code: FailureCode, promise: Promise<unknown>): Promise<Failure> {
  const reason: unknown = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(reason instanceof Failure, `it fails with ${code}`);
  assert.equal(reason.code, code);
  return reason;
}
