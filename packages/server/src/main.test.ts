// The program itself, as a process: started, killed in the middle of its work, started again.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { type TestContext, test } from "node:test";
import {
  type AuditView,
  type Client,
  createClient,
  createToken,
  listAudit,
  listTokens,
} from "@exclave/api";
import { verifyChain } from "@exclave/core";
import { createServerFetch, findServerCa } from "@exclave/machine";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

const PROGRAM = new URL("./main.ts", import.meta.url).pathname;
const SIGNER = new URL("./signer/main.ts", import.meta.url).pathname;

interface Program {
  readonly child: ChildProcess;
  readonly url: string;
}

function launch(args: readonly string[], more: Record<string, string> = {}): ChildProcess {
  const env = { PATH: process.env["PATH"] ?? "", EXCLAVE_LOG_LEVEL: "silent", ...more };
  return spawn(process.execPath, [PROGRAM, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
}

async function start(
  t: TestContext,
  data: string,
  environment: Record<string, string> = {},
): Promise<Program> {
  const child = launch(["--data", data, "--address", "127.0.0.1:0"], environment);
  t.after(() => child.kill("SIGKILL"));
  assert.ok(child.stdout);
  const lines = createInterface(child.stdout);
  const [line] = (await once(lines, "line")) as [string];
  const ready = JSON.parse(line) as { ready: boolean; url: string };
  assert.equal(ready.ready, true);
  return { child, url: ready.url };
}

async function clientOf({ url }: Program, data: string) {
  const token = (await readFile(join(data, "admin-token"), "utf8")).trim();
  return createClient({ url, token });
}

async function ended(child: ChildProcess): Promise<{ code: number | null; text: string }> {
  let text = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  const [code] = (await once(child, "close")) as [number | null];
  return { code, text };
}

test("killed at any moment, it loses nothing it has answered for", async (t) => {
  const data = join(await temporaryDirectory(t), "server");
  const answered: string[] = [];
  let round = 0;

  for (; round < 3; round++) {
    const program = await start(t, data);
    const client = await clientOf(program, data);
    let isAlive = true;
    const writers = [0, 1, 2].map(async (writer) => {
      for (let n = 0; isAlive; n++) {
        const name = `${round}-${writer}-${n}`;
        try {
          await client.call(createToken, { body: { name, role: "viewer" } });
          answered.push(name);
        } catch {
          return;
        }
        // In the middle of the others' transactions, wherever they happen to be.
        if (writer === 0 && n === 7) {
          isAlive = false;
          program.child.kill("SIGKILL");
        }
      }
    });
    await once(program.child, "close");
    isAlive = false;
    await Promise.all(writers);
  }

  const program = await start(t, data);
  const client = await clientOf(program, data);
  const { items } = await client.call(listTokens, { query: { limit: 200 } });
  const names = new Set(items.map(({ name }) => name));
  assert.ok(answered.length >= 24, `${answered.length} tokens`);
  assert.deepEqual(
    answered.filter((name) => !names.has(name)),
    [],
  );
  const { rows, ...head } = await wholeRecord(client);
  assert.equal(verifyChain(rows as never, { checkpoints: [head] }).kind, "ok");
  const created = rows.filter(({ action }) => action === "token.created");
  // State and record are one transaction: there are as many of one as of the other.
  assert.equal(created.length, items.length);
});

test("a second server on the same directory is refused with one sentence", async (t) => {
  const data = join(await temporaryDirectory(t), "server");
  await start(t, data);

  const { code, text } = await ended(launch(["--data", data, "--address", "127.0.0.1:0"]));

  assert.equal(code, 1);
  assert.equal(text, `server: another server is already running on ${data}\n`);
});

test("stops cleanly when asked to, and lets the next one have the directory", async (t) => {
  const data = join(await temporaryDirectory(t), "server");
  const { child } = await start(t, data);

  child.kill("SIGTERM");
  const { code } = await ended(child);

  assert.equal(code, 0);
  await start(t, data);
});

test("keys and the first token are readable by their owner alone", async (t) => {
  const data = join(await temporaryDirectory(t), "server");
  await start(t, data);

  const keys = (await readdir(join(data, "keys"))).map((file) => `keys/${file}`);
  assert.deepEqual(
    keys.map((file) => file.replace(/-[0-9a-f]{16}/, "")).sort(),
    ["checkpoint", "director", "registry", "release", "root"].map((name) => `keys/${name}.pem`),
  );
  for (const file of ["admin-token", "trust/1.json", ...keys]) {
    assert.equal((await stat(join(data, file))).mode & 0o777, 0o600, file);
  }
  assert.equal((await stat(data)).mode & 0o777, 0o700);
});

test("with a signer that runs elsewhere, no signing key is in the server's directory", async (t) => {
  const directory = await temporaryDirectory(t);
  const [data, socket] = [join(directory, "server"), join(directory, "signer.sock")];
  const args = [SIGNER, "--keys", join(directory, "elsewhere"), "--listen", socket];
  const signer = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => signer.kill("SIGKILL"));
  await once(signer.stdout, "data");

  await start(t, data, { EXCLAVE_SIGNER_SOCKET: socket });

  assert.deepEqual(await readdir(join(data, "keys")), ["registry.pem"]);
  assert.equal((await readdir(join(directory, "elsewhere"))).length, 4);
  assert.ok(await readFile(join(data, "trust", "1.json"), "utf8"));
});

test("wrong arguments are answered with how it is used", async () => {
  const { code, text } = await ended(launch(["--data", "x", "--address", "nowhere"]));

  assert.equal(code, 2);
  assert.match(text, /usage: server --data DIR --address HOST:PORT/);
});

test("with --tls it says which authority vouches for it, and only that one does", async (t) => {
  const data = join(await temporaryDirectory(t), "server");
  const child = launch(["--data", data, "--address", "127.0.0.1:0", "--tls"]);
  t.after(() => child.kill("SIGKILL"));
  assert.ok(child.stdout);
  const [line] = (await once(createInterface(child.stdout), "line")) as [string];
  const { url, caFingerprint } = JSON.parse(line) as { url: string; caFingerprint: string };

  const ca = await findServerCa(url, caFingerprint);
  const answer = await createServerFetch({ ca })(`${url}/healthz`);

  assert.match(url, /^https:/);
  assert.equal(answer.status, 200);
  await assert.rejects(createServerFetch({})(`${url}/healthz`), /certificate/);
});

test("is told that a balancer terminates TLS, or that agents come in the clear, in so many words", async (t) => {
  const data = join(await temporaryDirectory(t), "server");
  const refusal = async (...args: string[]) => {
    const child = launch(["--data", data, ...args]);
    t.after(() => child.kill("SIGKILL"));
    return ended(child);
  };

  const open = await refusal("--address", "127.0.0.1:0", "--behind-tls-balancer");
  const clear = await refusal("--address", "127.0.0.1:0", "--public-url", "http://192.0.2.1");

  assert.deepEqual([open.code, clear.code], [2, 2]);
  assert.match(open.text, /--behind-tls-balancer needs --public-url https/);
  assert.match(clear.text, /in the clear.*--insecure-http/);
  // A proxy in front that terminates TLS.
  const proxied = launch([
    "--data",
    data,
    "--address",
    "127.0.0.1:0",
    "--public-url",
    "https://e.org",
  ]);
  t.after(() => proxied.kill("SIGKILL"));
  assert.ok(proxied.stdout);
  const [line] = (await once(createInterface(proxied.stdout), "line")) as [string];
  assert.equal((JSON.parse(line) as { url: string }).url, "https://e.org");
});

test("everything in its directory is its owner's alone, whatever the umask and what was there before", async (t) => {
  const data = join(await temporaryDirectory(t), "server");
  const before = process.umask(0);
  t.after(() => process.umask(before));
  const first = await start(t, data);
  await (await clientOf(first, data)).call(createToken, { body: { name: "one", role: "viewer" } });
  first.child.kill("SIGKILL");
  await once(first.child, "close");
  const loose = await openToOthers(data);
  assert.deepEqual(loose, []);
  for (const path of [data, join(data, "keys"), join(data, "logs")]) await chmod(path, 0o777);
  for (const file of ["exclave.db", "exclave.db-wal", "exclave.db-shm", "admin-token"]) {
    await chmod(join(data, file), 0o666);
  }
  await writeFile(join(data, "logs", "j-jaaaaaaaaaaaaaaaa-1.log"), "said", { mode: 0o666 });

  await start(t, data);

  assert.deepEqual(await openToOthers(data), []);
});

async function openToOthers(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true });
  const open = [];
  for (const path of ["", ...entries]) {
    const { mode } = await stat(join(directory, path));
    if ((mode & 0o077) !== 0) open.push(`${path} ${(mode & 0o777).toString(8)}`);
  }
  return open;
}

async function wholeRecord(client: Client) {
  const rows: AuditView[] = [];
  for (;;) {
    const after = rows.length;
    const { items, next, size, head } = await client.call(listAudit, { query: { after } });
    rows.push(...items);
    if (next === null) return { rows, size, head };
  }
}
