// What a stranger sees first: the demo comes up healthy and serves its page, every word of the command
// line works on it, Ctrl-C leaves nothing running, and a second start resumes where the first stopped.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { InstallView } from "@exclave/api";
import { createWorld, processes, until, untilHealthy } from "../testing/harness.ts";

test("the demo starts, serves its page, stops without a trace and resumes", async (t) => {
  const world = await createWorld(t);
  await world.up("--demo");
  const first = await demoHealthy();

  await t.test(
    "it is what the issue of a demo is: five components, four types, one page",
    async () => {
      assert.ok(first.components.length >= 5);
      assert.ok(new Set(first.components.map(({ type }) => type)).size >= 4);
      const page = await fetch(addressOf(first));
      assert.equal(page.status, 200);
      assert.match(page.headers.get("content-type") ?? "", /html/);
      await until("the address is on screen", () => world.upOutput().includes(addressOf(first)));
    },
  );

  await t.test("every list and show speaks JSON", async () => {
    const [job] = await world.jobs("--install", "acme");
    assert.ok(job);
    for (const args of [
      ["install", "list"],
      ["install", "show", "acme"],
      ["job", "list"],
      ["job", "show", job.id],
      ["agent", "list"],
      ["audit", "list"],
      ["channel", "list"],
      ["token", "list"],
      ["context", "list"],
      ["version"],
    ]) {
      assert.ok(await world.json(...args), args.join(" "));
      for (const format of ["table", "yaml", "name"]) await world.exclave(...args, "-o", format);
    }
    for (const shell of ["bash", "zsh", "fish"])
      assert.ok((await world.exclave("completion", shell)).length > 100);
    assert.ok((await world.exclave("job", "logs", job.id)).length >= 0);
  });

  await t.test("Ctrl-C ends everything", async () => {
    assert.equal(await world.down(), 0);
    assert.deepEqual(processes(world.place), []);
  });

  await t.test(
    "a second start goes on: the same install, healthy again, nothing built anew",
    async () => {
      await world.up("--demo");
      const again = await demoHealthy();

      assert.equal(again.createdAt, first.createdAt);
      assert.equal(again.release, first.release);
      assert.equal((await fetch(addressOf(again))).status, 200);
      await world.exclave("audit", "verify");
    },
  );

  async function demoHealthy(): Promise<InstallView> {
    await until(
      "acme exists",
      async () => (await world.attempt("install", "show", "acme")).code === 0,
    );
    return untilHealthy(world, "acme");
  }
});

function addressOf(install: InstallView): string {
  return String(install.components.find(({ name }) => name === "web")?.outputs["url"]);
}
