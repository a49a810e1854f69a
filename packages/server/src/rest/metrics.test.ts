import assert from "node:assert/strict";
import { test } from "node:test";
import { getMetrics } from "@exclave/api";
import { deployedWorld, type World } from "../testing/deployed-world.ts";
import { until } from "../testing/test-server.ts";

async function scraped({ server }: World): Promise<string> {
  const response = await fetch(`${server.url}${getMetrics.path}`, {
    headers: { authorization: `Bearer ${server.token}` },
  });
  assert.equal(response.status, 200);
  assert.match(response.headers.get("content-type") ?? "", /^text\/plain; version=0\.0\.4/);
  return response.text();
}

function valueOf(text: string, series: string): number {
  const line = text.split("\n").find((one) => one.startsWith(`${series} `));
  return Number(line?.slice(series.length + 1) ?? Number.NaN);
}

test("jobs, agents, requests and reconciliations are counted, without a label for any of them", async (t) => {
  const at = await deployedWorld(t);
  await scraped(at);

  const text = await scraped(at);

  const { store } = at.server.server.context;
  const { items } = await store.read.jobs.find({ limit: 100, state: "succeeded" });
  const applied = items.filter(({ operation }) => operation === "apply").length;
  assert.ok(applied > 3, "the components' and the sandbox's");
  const ended = 'exclave_jobs_ended_total{operation="apply",outcome="succeeded"}';
  assert.equal(valueOf(text, ended), applied);
  assert.equal(valueOf(text, 'exclave_job_run_seconds_count{operation="apply"}'), applied);
  assert.equal(valueOf(text, 'exclave_agents_connected{kind="install"}'), 1);
  assert.equal(valueOf(text, 'exclave_agents_connected{kind="build"}'), 1);
  const scrapes = 'exclave_http_request_seconds_count{method="GET",route="/metrics",status="2xx"}';
  assert.ok(valueOf(text, scrapes) >= 1);
  assert.ok(valueOf(text, 'exclave_reconcile_seconds_count{loop="installs",outcome="ok"}') > 0);
  assert.ok(valueOf(text, "process_resident_memory_bytes") > 1e6);
  const { id } = (await store.read.installs.byName("acme")) ?? {};
  assert.ok(id);
  for (const name of ["acme", id, at.install.identity()?.agent ?? "", "api"]) {
    assert.ok(!text.includes(`"${name}"`), name);
  }
});

test("an agent that went is not counted as connected, however it came and went", async (t) => {
  const at = await deployedWorld(t);
  const connected = async () =>
    valueOf(await scraped(at), 'exclave_agents_connected{kind="install"}');
  // The second connection takes over from the first, which goes.
  await at.install.reconnect();
  await until(connected, (count) => count === 1, "one is connected");

  await at.install.agent()?.disconnect();

  await until(connected, (count) => count === 0, "none is connected");
});
