import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { MANIFEST_PAYLOAD_TYPE } from "@exclave/core";
import { describeSigner, failsWith } from "../testing/describe-signer.ts";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { openKeyDirectory } from "./key-directory.ts";
import { connectSigner, startSignerProcess } from "./open-signer.ts";
import type { Signer } from "./signer.ts";
import { LINE_BYTES_MAX } from "./signer-wire.ts";

const log = { warn: () => undefined };
const PROGRAM = fileURLToPath(new URL("./main.ts", import.meta.url));

describeSigner("keys in this process", (_, keys) => openKeyDirectory(keys));
describeSigner("keys in a process of their own", async (t, keys) => startProcess(t, keys));
describeSigner("keys behind a socket", async (t, keys) => {
  const { socket, stop } = await listeningSigner(t, keys);
  const signer = connectSigner(socket, { log });
  const close = async () => {
    await signer.close();
    await stop();
  };
  t.after(close);
  return { ...signer, close };
});

test("a signer that dies is started again, and what was asked meanwhile is answered", async (t) => {
  const pids: number[] = [];
  const signer = startProcess(t, await keysIn(t), (pid) => pids.push(pid));
  const { keyid } = await signer.make("director");

  for (let round = 1; round <= 3; round++) {
    process.kill(pids.at(-1) ?? 0, "SIGKILL");
    const asked = await Promise.all([1, 2, 3].map(() => signManifest(signer, keyid)));
    assert.equal(asked.length, 3);
  }

  assert.ok(pids.length >= 2, `started ${pids.length} times`);
});

test("a signer that cannot be reached is a clear failure, within the patience given", async (t) => {
  const directory = await temporaryDirectory(t);
  const path = join(directory, "nobody.sock");
  const signer = connectSigner(path, { log, patienceMs: 300 });
  t.after(() => signer.close());

  const { message } = await failsWith("unavailable", signer.keys());

  assert.match(message, /the signer at .*nobody\.sock does not answer .*nothing is signed/);
});

test("a stopped signer fails what is still asked of it, and leaves no process", async (t) => {
  const pids: number[] = [];
  const signer = startProcess(t, await keysIn(t), (pid) => pids.push(pid));
  await signer.keys();

  await signer.close();

  await failsWith("unavailable", signer.keys());
  assert.equal(isAlive(pids[0] ?? 0), false);
});

test("a server that is killed leaves no signer behind", async (t) => {
  const keys = await keysIn(t);
  const open = fileURLToPath(new URL("./open-signer.ts", import.meta.url));
  const script = `import { startSignerProcess } from ${JSON.stringify(open)};
    const signer = startSignerProcess(${JSON.stringify(keys)}, {
      log: { warn() {} }, onStarted: (pid) => console.log(pid) });
    await signer.keys(); console.log("ready"); setInterval(() => {}, 1000);`;
  const server = spawn(process.execPath, ["--input-type=module", "--eval", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => server.kill("SIGKILL"));
  let said = "";
  for await (const chunk of server.stdout) {
    said += String(chunk);
    if (said.includes("ready")) break;
  }
  const pid = Number(said.split("\n")[0]);
  assert.ok(isAlive(pid));

  server.kill("SIGKILL");

  while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 10));
});

test("a line over the limit ends the connection and not the signer", async (t) => {
  const { socket } = await listeningSigner(t, await keysIn(t));
  const flood = connect(socket);
  flood.on("error", () => undefined);
  const closed = once(flood, "close");
  flood.write(Buffer.alloc(LINE_BYTES_MAX + 2, 97));
  await closed;

  const signer = connectSigner(socket, { log });
  t.after(() => signer.close());

  assert.deepEqual(await signer.keys(), []);
});

test("what is no request is answered as such, and no key but root's is handed out", async (t) => {
  const { socket } = await listeningSigner(t, await keysIn(t));
  const line = connect(socket);
  t.after(() => line.destroy());
  line.write('nonsense\n{"id":7,"do":"export","role":"director","keyid":"x"}\n');
  let said = "";
  for await (const chunk of line) {
    said += String(chunk);
    if (said.split("\n").length > 2) break;
  }

  const answers = said
    .trim()
    .split("\n")
    .map((text) => JSON.parse(text) as unknown);

  assert.deepEqual(answers, [
    { id: 0, error: { code: "invalid", message: "that is not a request to a signer" } },
    { id: 7, error: { code: "forbidden", message: "a director key is never handed out" } },
  ]);
});

function signManifest(signer: Signer, keyid: string): Promise<Uint8Array> {
  const payload = new TextEncoder().encode("{}");
  return signer.sign({ role: "director", keyid, payloadType: MANIFEST_PAYLOAD_TYPE, payload });
}

function startProcess(t: TestContext, keys: string, onStarted?: (pid: number) => void): Signer {
  const backoffMs = { first: 10, most: 100 };
  const patienceMs = 60_000;
  const options = { log, backoffMs, patienceMs, ...(onStarted && { onStarted }) };
  const signer = startSignerProcess(keys, options);
  t.after(() => signer.close());
  return signer;
}

async function listeningSigner(t: TestContext, keys: string) {
  const socket = join(await temporaryDirectory(t), "signer.sock");
  const child = spawn(process.execPath, [PROGRAM, "--keys", keys, "--listen", socket], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  t.after(stop);
  await once(child.stdout, "data");
  return { socket, stop };
}

async function keysIn(t: TestContext): Promise<string> {
  return join(await temporaryDirectory(t), "keys");
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
