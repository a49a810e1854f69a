import assert from "node:assert/strict";
import { readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { silentLog } from "../testing/builders.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createSealedVault } from "./vault.ts";

async function home(t: TestContext) {
  const root = await temporaryDirectory(t);
  const directory = join(root, "vault");
  const keyPath = join(root, "agent", "vault.key");
  return {
    directory,
    keyPath,
    open: () => createSealedVault({ directory, keyPath, log: silentLog }),
  };
}

test("keeps, replaces and drops entries across lives of its agent", async (t) => {
  const { open } = await home(t);
  open().keep("secret", "session", "first");
  open().keep("secret", "session", "second");
  open().keep("secret", "gone", "third");
  open().keep("outputs", "session", [{ name: "url" }]);

  open().drop("secret", "gone");

  assert.equal(open().read("secret", "session"), "second");
  assert.equal(open().read("secret", "gone"), undefined);
  assert.deepEqual(open().entries("secret"), [{ name: "session", value: "second" }]);
  assert.deepEqual(open().entries("outputs"), [{ name: "session", value: [{ name: "url" }] }]);
});

test("nothing of an entry can be read from its file, and files are their owner's alone", async (t) => {
  const { directory, keyPath, open } = await home(t);
  open().keep("secret", "database-password", "correct horse");

  const [file = ""] = await readdir(directory);
  const text = (await readFile(join(directory, file))).toString("latin1");

  assert.doesNotMatch(`${file}${text}`, /correct|horse|database|password/);
  assert.equal((await stat(join(directory, file))).mode & 0o777, 0o600);
  assert.equal((await stat(keyPath)).mode & 0o777, 0o600);
});

test("a damaged secret is a sentence that names its file, never another secret", async (t) => {
  const { directory, open } = await home(t);
  open().keep("secret", "session", "value");
  const [file = ""] = await readdir(directory);
  const bytes = await readFile(join(directory, file));
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
  await writeFile(join(directory, file), bytes);

  assert.throws(() => open().read("secret", "session"), new RegExp(`${file} is damaged`));
});

test("one damaged entry does not cost the others of its kind", async (t) => {
  const { directory, open } = await home(t);
  open().keep("outputs", "api", 1);
  const [file = ""] = await readdir(directory);
  open().keep("outputs", "database", 2);
  await writeFile(join(directory, file), "not what was sealed, but long enough to be looked at");

  const entries = open().entries("outputs");

  assert.deepEqual(entries, [{ name: "database", value: 2 }]);
  assert.ok((await readdir(directory)).includes(`${file}.damaged`));
});

test("an entry put in another's place is not taken for it", async (t) => {
  const { directory, open } = await home(t);
  open().keep("secret", "theirs", "known to somebody");
  const [theirs = ""] = await readdir(directory);
  open().keep("secret", "ours", "known to nobody");
  const ours = (await readdir(directory)).find((file) => file !== theirs) ?? "";

  await writeFile(join(directory, ours), await readFile(join(directory, theirs)));

  assert.throws(() => open().read("secret", "ours"), /damaged or sealed by another key/);
});

test("a missing key is a sentence, and no new key is made over what it sealed", async (t) => {
  const { directory, keyPath, open } = await home(t);
  open().keep("secret", "session", "value");
  await rm(keyPath);

  assert.throws(
    () => open().read("secret", "session"),
    /the vault's key .* is missing; restore it/,
  );
  assert.throws(() => open().keep("secret", "other", "v"), /the vault's key .* is missing/);
  await rm(directory, { recursive: true });
  open().keep("secret", "session", "new");
  assert.equal(open().read("secret", "session"), "new");
});
