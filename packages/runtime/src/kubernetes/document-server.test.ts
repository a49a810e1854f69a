// What a job in a cluster can get from its agent: its own files, once. Everybody else gets a refusal that costs little.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, type TestContext, test } from "node:test";
import { connect } from "node:tls";
import { type JobName, jobName } from "@exclave/core";
import { createDocumentDesk } from "./document-desk.ts";
import { DOCUMENT_PATH, openDocumentCertificate, serveDocuments } from "./document-server.ts";
import { jobOrder } from "./job-order.ts";
import { createKubeClient } from "./kube-client.ts";
import { readRecord, writeRecord } from "./kube-place.ts";
import { createFakeCluster } from "./testing/fake-cluster.ts";
import { orderPlace, someSpec } from "./testing/some-spec.ts";

const FILES = { "job.json": '{"secret":"s3cret"}' };
const cluster = await createFakeCluster(() => () => new Promise(() => undefined));
after(() => cluster.close());
let made = 0;

async function served(t: TestContext, requestMs = 10_000) {
  const directory = await mkdtemp(join(tmpdir(), "exclave-documents-"));
  const client = createKubeClient(cluster.connection);
  const certificate = await openDocumentCertificate(directory, ["127.0.0.1"], Date.now());
  const desk = createDocumentDesk({ client, namespace: "jobs", directory });
  const server = await serveDocuments({ desk, certificate, host: "127.0.0.1", port: 0, requestMs });
  t.after(async () => {
    await server.close();
    client.close();
    await rm(directory, { recursive: true, force: true });
  });
  const name = jobName(`document-${++made}`, 1);
  await client.send("POST", "/apis/batch/v1/namespaces/jobs/jobs", {
    json: jobOrder(someSpec({ name, files: FILES }), orderPlace),
    schema: { parse: (value: unknown) => value } as never,
  });
  await writeRecord({ directory }, name, "files", FILES);
  const token = `token-${made}`;
  vouch(token, name);
  return { directory, name, token, port: server.port, ca: certificate.ca };
}

function vouch(token: string, name: JobName, changes: Record<string, unknown> = {}): void {
  const { metadata } = cluster.pods.get(name)?.json ?? { metadata: {} };
  cluster.tokens.set(token, {
    authenticated: true,
    audiences: ["exclave-agent"],
    user: {
      username: "system:serviceaccount:jobs:job-apply",
      extra: {
        "authentication.kubernetes.io/pod-name": [metadata.name],
        "authentication.kubernetes.io/pod-uid": [metadata.uid],
      },
    },
    ...changes,
  });
}

interface Asking {
  readonly port: number;
  readonly ca: string;
  readonly token?: string | undefined;
  readonly method?: string;
  readonly path?: string;
  readonly body?: string;
}

async function ask({ port, ca, token, method = "GET", path = DOCUMENT_PATH, body }: Asking) {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const sent = request({ host: "127.0.0.1", port, ca, method, path, agent: false }, (answer) => {
    let text = "";
    answer.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text }));
  });
  if (token !== undefined) sent.setHeader("authorization", `Bearer ${token}`);
  sent.on("error", reject);
  sent.end(body);
  return promise;
}

test("a job gets its files once, and they are gone from the agent", async (t) => {
  const { directory, name, token, port, ca } = await served(t);

  const first = await ask({ port, ca, token });
  const second = await ask({ port, ca, token });

  assert.deepEqual(JSON.parse(first.text), { files: FILES });
  assert.equal(second.status, 410);
  assert.doesNotMatch(second.text, /s3cret/);
  assert.equal(await readRecord({ directory }, name, "files"), undefined);
});

test("of many that ask at once with one token, one gets the files", async (t) => {
  const { token, port, ca } = await served(t);

  const answers = await Promise.all(Array.from({ length: 8 }, () => ask({ port, ca, token })));

  assert.equal(answers.filter(({ status }) => status === 200).length, 1);
  assert.ok(answers.every(({ status }) => [200, 410].includes(status)));
});

test("whoever is not that pod is refused, and the job gets its files afterwards", async (t) => {
  const { name, token, port, ca } = await served(t);
  const pod = cluster.pods.get(name)?.json.metadata;
  const extra = (podName: string, uid: string) => ({
    "authentication.kubernetes.io/pod-name": [podName],
    "authentication.kubernetes.io/pod-uid": [uid],
  });
  const username = "system:serviceaccount:jobs:job-apply";
  const strangers: Record<string, Record<string, unknown>> = {
    unknown: { authenticated: false },
    "for the API": { audiences: ["https://kubernetes.default.svc"] },
    "another namespace": {
      user: { username: "system:serviceaccount:jobs-evil:x", extra: extra(pod.name, pod.uid) },
    },
    "no pod": { user: { username, extra: {} } },
    "an earlier pod of the name": { user: { username, extra: extra(pod.name, "uid-0") } },
    "a path": { user: { username, extra: extra("../secrets/x", pod.uid) } },
  };

  for (const [who, changes] of Object.entries(strangers)) {
    vouch(`stranger-${made}`, name, changes);
    const { status, text } = await ask({ port, ca, token: `stranger-${made}` });
    assert.ok(status === 401 || status === 403, `${who}: ${status}`);
    assert.doesNotMatch(text, /s3cret/);
  }

  assert.equal((await ask({ port, ca, token })).status, 200);
});

test("a pod that carries a job's label and is not that Job's is refused", async (t) => {
  const { name, token, port, ca } = await served(t);
  const pod = cluster.pods.get(name);
  pod?.json.metadata.ownerReferences.splice(0);

  assert.equal((await ask({ port, ca, token })).status, 403);
});

test("other requests are refused before the cluster is asked", async (t) => {
  const { token, port, ca } = await served(t);
  const before = cluster.requests.length;

  const answers = [
    await ask({ port, ca }),
    await ask({ port, ca, token, path: "/v1/other" }),
    await ask({ port, ca, token, method: "POST", body: "x".repeat(1024) }),
    await ask({ port, ca, token: "x".repeat(9_000) }),
  ];

  assert.deepEqual(
    answers.map(({ status }) => status),
    [401, 404, 404, 401],
  );
  assert.equal(cluster.requests.length, before);
});

test("headers without an end are cut off", async (t) => {
  const { port, ca } = await served(t);
  const socket = connect({ host: "127.0.0.1", port, ca });
  const answered = new Promise<string>((resolve) => {
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString();
    });
    socket.on("close", () => resolve(text));
    socket.on("error", () => resolve(text));
  });

  socket.write(`GET ${DOCUMENT_PATH} HTTP/1.1\r\nhost: x\r\nfiller: ${"x".repeat(64 * 1024)}`);

  assert.match(await answered, /^HTTP\/1\.1 431/);
});

test("who connects and says nothing, or half a request, is let go", async (t) => {
  const { port, ca } = await served(t, 200);
  const closed = (said: string) => {
    const socket = connect({ host: "127.0.0.1", port, ca }, () => socket.write(said));
    socket.on("error", () => undefined);
    socket.resume();
    return once(socket, "close");
  };

  await Promise.all([closed(""), closed(`GET ${DOCUMENT_PATH} HTTP/1.1\r\nhost: x\r\n`)]);
});

test("a cluster that does not answer is no reason to give anything out", async (t) => {
  const { token, port, ca } = await served(t);
  cluster.failNext(/tokenreviews/, 500);

  assert.equal((await ask({ port, ca, token })).status, 503);
  assert.equal((await ask({ port, ca, token })).status, 200);
});

test("the certificate is made once, and anew for other names", async (t) => {
  const { directory } = await served(t);
  const open = (...hosts: string[]) => openDocumentCertificate(directory, hosts, Date.now());

  const first = await open("127.0.0.1");
  assert.deepEqual(await open("127.0.0.1"), first);
  assert.notEqual((await open("agent.exclave.svc")).ca, first.ca);
});
