// An agent in a cluster: of two copies one works, and the jobs it starts get their files from it.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, type TestContext, test } from "node:test";
import { type JobName, jobName, SandboxContract } from "@exclave/core";
import { createFakeCluster } from "@exclave/runtime/testing";
import { createLog } from "../log.ts";
import { openCluster } from "./cluster-place.ts";
import { openRuntime } from "./open-runtime.ts";

const cluster = await createFakeCluster(() => () => new Promise(() => undefined));
after(() => cluster.close());
const log = createLog({ level: "error", write: () => undefined, now: Date.now });

async function place(t: TestContext, lease: string) {
  const directory = await mkdtemp(join(tmpdir(), "exclave-cluster-"));
  t.after(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));
  cluster.leases.set(lease, { metadata: { name: lease, resourceVersion: "0" }, spec: {} });
  const contract = SandboxContract.parse({
    version: 1,
    kind: "kubernetes",
    install: { id: "iabcdefghijklmnop", name: "acme" },
    registry: { url: "https://registry.test", issuer: "a", service: "b" },
    runtime: {
      type: "kubernetes",
      namespace: "jobs",
      imageRegistry: "registry.test",
      directory,
      document: { url: "https://127.0.0.1:8443/v1/document", port: 0 },
      lease: { namespace: "agent", name: lease },
    },
    roles: { apply: "deployer" },
  });
  const { runtime, roles } = contract;
  assert.ok(runtime.type === "kubernetes");
  const open = (pod: string, onLost: (because: string) => void = () => undefined) =>
    openCluster({
      runtime,
      roles,
      environment: { HOSTNAME: pod },
      connection: cluster.connection,
      host: "127.0.0.1",
      now: Date.now,
      log,
      onLost,
    });
  return { open, contract };
}

test("a second copy of an agent does nothing until the first has gone", async (t) => {
  const { open } = await place(t, "two-copies");
  const first = await open("agent-1");
  const opened: string[] = [];
  const second = open("agent-2").then((place) => {
    opened.push("second");
    return place;
  });
  assert.equal(cluster.leases.get("two-copies").spec.holderIdentity, "agent-1");
  assert.deepEqual(opened, []);

  await first.close();
  const working = await second;

  assert.equal(cluster.leases.get("two-copies").spec.holderIdentity, "agent-2");
  await working.close();
});

test("the runtime of the contract is the cluster's, and a job it starts gets its files", async (t) => {
  const { open, contract } = await place(t, "working");
  const working = await open("agent-1");
  t.after(() => working.close());
  const runtime = await openRuntime(contract, { path: "", cluster: working });
  const name = jobName("files", 1);

  await runtime.start({
    name,
    image: { registryUrl: "https://x", repository: "a", digest: `sha256:${"a".repeat(64)}` },
    jobClass: "apply",
    files: { "job.json": "{}" },
    environment: {},
    limits: {},
    network: "none",
    deadlineMs: 60_000,
  });
  const pod = cluster.jobs.get(name).spec.template.spec;
  vouch(name);
  const ca = pod.containers[0].env.find((one: { name: string }) => one.name.endsWith("_CA"));

  assert.equal(pod.serviceAccountName, "deployer");
  assert.deepEqual(await fetched(working.port, ca.value), { files: { "job.json": "{}" } });
});

test("a contract of a cluster is refused by an agent that is in none", async (t) => {
  const { contract } = await place(t, "none");

  await assert.rejects(openRuntime(contract, { path: "" }), { code: "invalid" });
});

function vouch(name: JobName): void {
  const { metadata } = cluster.pods.get(name)?.json ?? {};
  cluster.tokens.set("token", {
    authenticated: true,
    audiences: ["exclave-agent"],
    user: {
      username: "system:serviceaccount:jobs:deployer",
      extra: {
        "authentication.kubernetes.io/pod-name": [metadata.name],
        "authentication.kubernetes.io/pod-uid": [metadata.uid],
      },
    },
  });
}

async function fetched(port: number, ca: string): Promise<unknown> {
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const headers = { authorization: "Bearer token" };
  const options = { host: "127.0.0.1", port, path: "/v1/document", ca, headers, agent: false };
  const sent = request(options, (answer) => {
    let text = "";
    answer.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    answer.on("end", () => resolve(JSON.parse(text)));
  });
  sent.on("error", reject);
  sent.end();
  return promise;
}
