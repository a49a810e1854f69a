// A cluster in memory for tests of the driver: an API server on loopback with TLS that knows Jobs, pods, their logs, token
// reviews and leases, and a kubelet whose programs are functions. It keeps to what a real one was seen to do; the
// real one has its own suite.

import { generateKeyPairSync } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { makeCertificate } from "@exclave/machine";
import type { KubeConnection } from "../kube-connection.ts";

/** What a pod's one container does; the number it returns is its exit code. */
export type FakeProgram = (pod: {
  readonly say: (text: string) => void;
  /** Fires on SIGTERM. */
  readonly terminated: AbortSignal;
}) => Promise<number>;

export interface FakeCluster {
  readonly connection: KubeConnection;
  /** Pods by the name of their Job. */
  readonly pods: Map<string, FakePod>;
  readonly jobs: Map<string, Json>;
  readonly leases: Map<string, Json>;
  /** What the API answers to a token. */
  readonly tokens: Map<string, Json>;
  /** Method and path of every request. */
  readonly requests: string[];
  /** Statuses that the next requests whose line matches get, instead of what they asked for. */
  failNext(line: RegExp, status: number): void;
  /** What a kubelet does at its limit: the oldest half of the lines is gone. */
  rotate(job: string): void;
  close(): Promise<void>;
}

export interface FakePod {
  readonly json: Json;
  readonly lines: { time: string; text: string }[];
  readonly terminate: AbortController;
  end(status: Json): void;
  isOver: boolean;
}

/** The API's objects as they come and go. */
type Json = ReturnType<typeof JSON.parse>;

export async function createFakeCluster(
  programOf: (image: string) => FakeProgram,
): Promise<FakeCluster> {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const cert = makeCertificate(
    {
      about: { kind: "server", hosts: ["127.0.0.1"] },
      name: "fake",
      key: publicKey,
      serial: Buffer.alloc(16, 0x41),
      notBefore: Date.now() - 60_000,
      notAfter: Date.now() + 3_600_000,
    },
    { privateKey },
  ).toString();
  const pods = new Map<string, FakePod>();
  const jobs = new Map<string, Json>();
  const leases = new Map<string, Json>();
  const tokens = new Map<string, Json>();
  const requests: string[] = [];
  const failures: { line: RegExp; status: number }[] = [];
  let made = 0;
  let lastTime = 0;
  const key = privateKey.export({ type: "pkcs8", format: "pem" });
  const server = createServer({ cert, key }, (request, response) => {
    handle(request, response).catch((reason: unknown) => {
      response.destroy(reason as Error);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const connection = { server: `https://127.0.0.1:${port}`, ca: cert, token: async () => "agent" };
  return { connection, pods, jobs, leases, tokens, requests, failNext, rotate, close };

  function failNext(line: RegExp, status: number): void {
    failures.push({ line, status });
  }

  function rotate(job: string): void {
    const lines = pods.get(job)?.lines ?? [];
    lines.splice(0, Math.ceil(lines.length / 2));
  }

  async function close(): Promise<void> {
    for (const pod of pods.values()) pod.end({ phase: "Failed" });
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
    const { pathname, searchParams } = new URL(request.url ?? "", "https://x");
    const line = `${request.method} ${pathname}`;
    requests.push(line);
    const failing = failures.findIndex((failure) => failure.line.test(line));
    if (failing >= 0) {
      const [failure] = failures.splice(failing, 1);
      return say(response, failure?.status ?? 500, { message: "as the test wishes" });
    }
    const name = pathname.split("/").at(-1) ?? "";
    if (line.endsWith("/tokenreviews")) {
      return say(response, 201, { status: tokens.get(body.spec.token) ?? {} });
    }
    if (pathname.includes("/leases/")) return lease(request.method ?? "", name, body, response);
    if (request.method === "POST") return create(body, response);
    if (pathname.endsWith("/log")) {
      const pod = [...pods.values()].find(
        ({ json }) => json.metadata.name === pathname.split("/").at(-2),
      );
      return pod ? log(pod, searchParams, response) : say(response, 404, {});
    }
    if (pathname.endsWith("/pods")) {
      const job = searchParams.get("labelSelector")?.split("=")[1] ?? "";
      const pod = pods.get(job);
      return say(response, 200, { items: pod ? [pod.json] : [] });
    }
    if (pathname.includes("/pods/")) {
      const pod = [...pods.values()].find(({ json }) => json.metadata.name === name);
      return pod ? say(response, 200, pod.json) : say(response, 404, {});
    }
    if (pathname.endsWith("/jobs")) return say(response, 200, { items: [...jobs.values()] });
    if (request.method === "DELETE") return remove(name, response);
    const job = jobs.get(name);
    return job ? say(response, 200, job) : say(response, 404, {});
  }

  function lease(method: string, name: string, body: Json, response: ServerResponse): void {
    const there = leases.get(name);
    if (!there) return say(response, 404, {});
    if (method === "GET") return say(response, 200, there);
    if (body.metadata.resourceVersion !== there.metadata.resourceVersion) {
      return say(response, 409, {});
    }
    body.metadata.resourceVersion = String(++made);
    leases.set(name, body);
    say(response, 200, body);
  }

  function create(order: Json, response: ServerResponse): void {
    const { name } = order.metadata;
    if (jobs.has(name)) return say(response, 409, { message: "it is there" });
    const job = {
      ...order,
      metadata: { ...order.metadata, uid: `uid-${++made}` },
      status: { conditions: [] },
    };
    jobs.set(name, job);
    pods.set(name, startPod(name, order, job));
    say(response, 201, job);
  }

  function startPod(name: string, order: Json, job: Json): FakePod {
    const { template } = order.spec;
    const [container] = template.spec.containers;
    const state = (is: Json) => [{ name: container.name, state: is }];
    const pod: FakePod = {
      json: {
        metadata: {
          name: `${name}-x${++made}`,
          uid: `uid-${made}`,
          labels: template.metadata.labels,
          ownerReferences: [{ kind: "Job", name }],
        },
        status: { phase: "Running", containerStatuses: state({ running: {} }) },
      },
      lines: [],
      terminate: new AbortController(),
      isOver: false,
      end(status) {
        if (pod.isOver) return;
        pod.isOver = true;
        pod.json.status = status;
        const type = status.phase === "Succeeded" ? "Complete" : "Failed";
        job.status.conditions = [{ type, status: "True", reason: "BackoffLimitExceeded" }];
      },
    };
    const over = (exitCode: number, more: Json = {}) =>
      pod.end({
        phase: exitCode === 0 ? "Succeeded" : "Failed",
        containerStatuses: state({ terminated: { exitCode, reason: "Error" } }),
        ...more,
      });
    const say = (text: string) => {
      if (pod.isOver) return;
      for (const part of text.split(/(?<=\n)/)) pod.lines.push({ time: nextTime(), text: part });
    };
    programOf(container.image)({ say, terminated: pod.terminate.signal }).then(over, () =>
      over(143),
    );
    const deadline = setTimeout(() => {
      void kill(pod, template.spec).then(() =>
        over(137, { reason: "DeadlineExceeded", phase: "Failed" }),
      );
    }, template.spec.activeDeadlineSeconds * 1_000);
    deadline.unref();
    return pod;
  }

  async function kill(pod: FakePod, spec: Json): Promise<void> {
    const until = Date.now() + spec.terminationGracePeriodSeconds * 1_000;
    // A deadline ends it with its own reason, whatever the program makes of the signal.
    if (!pod.json.metadata.deletionTimestamp) {
      await sleep(until - Date.now());
      return;
    }
    pod.terminate.abort(new Error("SIGTERM"));
    while (!pod.isOver && Date.now() < until) await sleep(5);
  }

  function remove(name: string, response: ServerResponse): void {
    const job = jobs.get(name);
    if (!job) return say(response, 404, {});
    jobs.delete(name);
    const pod = pods.get(name);
    if (pod) {
      pod.json.metadata.deletionTimestamp = new Date().toISOString();
      void bury(name, pod, job.spec.template.spec);
    }
    say(response, 200, job);
  }

  async function bury(name: string, pod: FakePod, spec: Json): Promise<void> {
    await kill(pod, spec);
    pod.end({ phase: "Failed" });
    pods.delete(name);
  }

  /** Never the same twice, as a node's clock in nanoseconds. */
  function nextTime(): string {
    lastTime = Math.max(lastTime + 1, Date.now() * 1_000);
    const micros = String(lastTime % 1_000).padStart(3, "0");
    return new Date(Math.floor(lastTime / 1_000)).toISOString().replace("Z", `${micros}000Z`);
  }

  async function log(
    pod: FakePod,
    query: URLSearchParams,
    response: ServerResponse,
  ): Promise<void> {
    const since = query.get("sinceTime")?.slice(0, 19) ?? "";
    response.writeHead(200);
    response.flushHeaders();
    let given = "";
    let isNewLine = true;
    for (;;) {
      const isLast = pod.isOver || query.get("follow") !== "true";
      for (const { time, text } of pod.lines) {
        if (time.slice(0, 19) < since || time <= given) continue;
        response.write(isNewLine ? `${time} ${text}` : text);
        isNewLine = text.endsWith("\n");
        given = time;
      }
      if (isLast || response.destroyed) return void response.end();
      await sleep(5);
    }
  }
}

function say(response: ServerResponse, status: number, json: Json): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(json));
}
