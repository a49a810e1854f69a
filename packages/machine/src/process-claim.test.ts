import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { claimForProcess, readHolder } from "./process-claim.ts";
import { identifyProcess } from "./process-identity.ts";
import { temporaryDirectory } from "./testing/temporary-directory.ts";

const self = identifyProcess(process.pid);

test("a place that is free becomes ours, and whoever comes next is told who has it", async (t) => {
  const path = join(await temporaryDirectory(t), "claim");

  const first = claimForProcess(path);
  const second = claimForProcess(path);

  assert.deepEqual(first, { kind: "ours", self });
  assert.deepEqual(second, { kind: "theirs", holder: self });
});

test("the record of a process that is gone, or that nobody can read, counts for nothing", async (t) => {
  const path = join(await temporaryDirectory(t), "claim");
  for (const left of [JSON.stringify({ ...self, startTime: "another" }), "{", ""]) {
    await writeFile(path, left);

    assert.equal(claimForProcess(path).kind, "ours");
    assert.deepEqual(readHolder(path), self);
  }
});

test("while somebody else is claiming, a dead record is not taken away", async (t) => {
  const path = join(await temporaryDirectory(t), "claim");
  const dead = JSON.stringify({ ...self, startTime: "another" });
  await writeFile(path, dead);
  const program = `
    import { lockFile } from ${JSON.stringify(import.meta.resolve("./file-lock.ts"))};
    globalThis.kept = lockFile(process.argv[1]);
    console.log("locked");
    setInterval(() => {}, 1_000);
  `;
  const other = spawn(process.execPath, ["--input-type=module", "-e", program, `${path}.lock`], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => other.kill("SIGKILL"));
  await once(other.stdout, "data");

  assert.deepEqual(claimForProcess(path), { kind: "busy" });
  assert.equal(await readFile(path, "utf8"), dead);

  other.kill("SIGKILL");
  await once(other, "exit");
  assert.equal(claimForProcess(path).kind, "ours");
});

test("of many that claim at once exactly one has it", async (t) => {
  const path = join(await temporaryDirectory(t), "claim");
  await writeFile(path, JSON.stringify({ ...self, startTime: "another" }));
  const program = `
    import { claimForProcess } from ${JSON.stringify(import.meta.resolve("./process-claim.ts"))};
    process.stdin.once("data", () => {
      let claimed = claimForProcess(process.argv[1]);
      while (claimed.kind === "busy") claimed = claimForProcess(process.argv[1]);
      console.log(claimed.kind);
    });
    console.log("ready");
  `;
  const all = Array.from({ length: 6 }, () =>
    spawn(process.execPath, ["--input-type=module", "-e", program, path], {
      stdio: ["pipe", "pipe", "inherit"],
    }),
  );
  t.after(() => all.forEach((one) => one.kill("SIGKILL")));
  await Promise.all(all.map((one) => once(one.stdout, "data")));

  for (const one of all) one.stdin.write("go\n");
  const said = await Promise.all(all.map((one) => once(one.stdout, "data")));

  const kinds = said.map(([chunk]) => String(chunk).trim());
  assert.equal(kinds.filter((kind) => kind === "ours").length, 1, kinds.join());
});
