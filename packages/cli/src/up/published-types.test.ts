import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { createClient, type PluginView } from "@exclave/api";
import { createApiDouble } from "../testing/api-double.ts";
import { page, pluginView } from "../testing/views.ts";
import { waitForTypes } from "./published-types.ts";

const old = { ...pluginView("command"), digest: `sha256:${"a".repeat(64)}` };
const shipped = pluginView("command");

test("it waits, and says for what, until the shipped types are known, not earlier versions of them", async (t) => {
  const answers = [[], [old], [shipped]];

  const { isThere, said, asked } = await wait(t, () => answers.shift() ?? []);

  assert.equal(isThere, true);
  assert.equal(asked, 3);
  assert.deepEqual(said, ["types   waiting for the build agent to publish command"]);
});

test("what takes too long is said, and is no reason to stop everything", async (t) => {
  const { isThere, said } = await wait(t, () => [], 0);

  assert.equal(isThere, false);
  assert.match(said.at(-1) ?? "", /command could not be published yet/);
});

async function wait(t: TestContext, answer: () => PluginView[], patienceMs = 60_000) {
  const images = await mkdtemp(join(tmpdir(), "exclave-types-"));
  t.after(() => rm(images, { recursive: true, force: true }));
  await writeFile(
    join(images, "images.json"),
    JSON.stringify([
      { name: "runner", kind: "runner", digest: `sha256:${"e".repeat(64)}` },
      { name: "command", kind: "plugin", digest: shipped.digest },
    ]),
  );
  const double = await createApiDouble(t, { listPlugins: () => page(answer()) });
  const said: string[] = [];
  const isThere = await waitForTypes({
    client: createClient({ url: double.url, token: double.token }),
    images,
    say: (line) => said.push(line),
    now: Date.now,
    signal: t.signal,
    patienceMs,
  });
  return { isThere, said, asked: double.asked.length };
}
