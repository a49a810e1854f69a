// A real one-node Kubernetes on this machine's loopback, for tests: etcd, API server, controller manager,
// scheduler, and a kubelet on containerd and runc. Its state is one directory, and stopping it leaves none of it.
//
// It has no DNS and no kube-proxy: a Service has an address that leads nowhere, so pods are reached by their own.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { provideClusterTools } from "../../tools/test-tools/cluster-tools.ts";
import { isOnPath } from "../../tools/test-tools/provide.ts";
import { NODE_NAME, startNode, whyNoNode } from "./cluster-node.ts";
import { type ClusterPki, createClusterPki, writeKubeconfig } from "./cluster-pki.ts";
import { createDaemons, type Daemons } from "./daemons.ts";

const run = promisify(execFile);

export interface Cluster {
  readonly kubeconfig: string;
  readonly directory: string;
  /** What kubectl prints; it throws where kubectl fails. */
  kubectl(...args: readonly string[]): Promise<string>;
  stop(): Promise<void>;
}

export type ClusterOffer =
  | { readonly kind: "ready"; readonly start: () => Promise<Cluster> }
  | { readonly kind: "unavailable"; readonly because: string };

/** Whether this machine can have a cluster; its programs are built here if they are not in the cache. */
export async function offerCluster(say: (line: string) => void = () => {}): Promise<ClusterOffer> {
  const missing = ["kubectl", "openssl"].find((program) => !isOnPath(program));
  const because = missing ? `a cluster needs ${missing}` : whyNoNode();
  if (because !== undefined) return { kind: "unavailable", because };
  const tools = await provideClusterTools(say);
  if (tools.kind === "unavailable") return tools;
  const failure = await tryOnce(tools.directory);
  if (failure !== undefined) {
    return { kind: "unavailable", because: `a cluster does not come up here: ${failure}` };
  }
  return { kind: "ready", start: () => startCluster(tools.directory) };
}

/** No list of what a kubelet needs of a machine is whole: one that came up since the boot is the proof. */
async function tryOnce(tools: string): Promise<string | undefined> {
  const boot = await readFile("/proc/sys/kernel/random/boot_id", "utf8");
  const mark = join(tools, "came-up");
  if ((await readFile(mark, "utf8").catch(() => "")) === boot) return undefined;
  try {
    const cluster = await startCluster(tools);
    await cluster.stop();
    await writeFile(mark, boot);
    return undefined;
  } catch (reason) {
    return reason instanceof Error ? reason.message : String(reason);
  }
}

async function startCluster(tools: string): Promise<Cluster> {
  const directory = await mkdtemp(join(tmpdir(), "exclave-cluster-"));
  const daemons = createDaemons(directory);
  const undo: (() => Promise<void>)[] = [() => daemons.stopAll()];
  const stop = async () => {
    for (const step of undo.toReversed()) await step();
    undo.length = 0;
    await rm(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  };
  try {
    const pki = await createClusterPki(directory);
    const [client, peer, api, kubeletPort] = await freePorts(4);
    const server = `https://127.0.0.1:${api}`;
    const kubeconfig = await writeKubeconfig(join(directory, "kubeconfig"), server, pki);
    const kubectl = async (...args: readonly string[]) =>
      (await run("kubectl", [`--kubeconfig=${kubeconfig}`, ...args], { maxBuffer: 2 ** 26 }))
        .stdout;

    const plane = { directory, tools, daemons, pki, kubeconfig, kubectl };
    await startControlPlane({ ...plane, ports: { client, peer, api } });
    const node = await startNode({
      directory,
      tools,
      daemons,
      ca: pki.ca,
      kubeconfig,
      kubeletPort,
      isReady: async () =>
        (await kubectl("get", "node", NODE_NAME, "-o", READY_CONDITION)) === "True",
    });
    undo.push(() => node.stop());
    return { kubeconfig, directory, kubectl, stop };
  } catch (reason) {
    await stop();
    throw reason;
  }
}

const READY_CONDITION = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}';

interface ControlPlane {
  readonly directory: string;
  readonly tools: string;
  readonly daemons: Daemons;
  readonly pki: ClusterPki;
  readonly kubeconfig: string;
  readonly kubectl: (...args: readonly string[]) => Promise<string>;
  readonly ports: { readonly client: number; readonly peer: number; readonly api: number };
}

async function startControlPlane(plane: ControlPlane): Promise<void> {
  const { directory, tools, daemons, pki, kubeconfig, kubectl, ports } = plane;
  const etcd = `http://127.0.0.1:${ports.client}`;
  const peers = `http://127.0.0.1:${ports.peer}`;
  await daemons.start(
    join(tools, "etcd"),
    [
      `--data-dir=${join(directory, "etcd")}`,
      `--listen-client-urls=${etcd}`,
      `--advertise-client-urls=${etcd}`,
      `--listen-peer-urls=${peers}`,
      `--initial-advertise-peer-urls=${peers}`,
      `--initial-cluster=default=${peers}`,
      // What a test cluster loses with the machine nobody misses.
      "--unsafe-no-fsync",
    ],
    async () => (await fetch(`${etcd}/health`)).ok,
  );
  await daemons.start(
    join(tools, "kube-apiserver"),
    [
      `--etcd-servers=${etcd}`,
      "--bind-address=127.0.0.1",
      "--advertise-address=127.0.0.1",
      `--secure-port=${ports.api}`,
      `--tls-cert-file=${pki.api.certificate}`,
      `--tls-private-key-file=${pki.api.key}`,
      `--client-ca-file=${pki.ca}`,
      `--cert-dir=${join(directory, "api")}`,
      "--authorization-mode=Node,RBAC",
      "--service-account-issuer=https://kubernetes.default.svc",
      `--service-account-key-file=${pki.accountPublicKey}`,
      `--service-account-signing-key-file=${pki.accountKey}`,
      `--kubelet-client-certificate=${pki.admin.certificate}`,
      `--kubelet-client-key=${pki.admin.key}`,
      "--kubelet-preferred-address-types=InternalIP",
      "--service-cluster-ip-range=10.96.0.0/16",
    ],
    async () => (await kubectl("get", "--raw", "/readyz")) === "ok",
  );
  const shared = [`--kubeconfig=${kubeconfig}`, "--leader-elect=false", "--secure-port=0"];
  const ready = async () => true;
  await daemons.start(
    join(tools, "kube-controller-manager"),
    [
      ...shared,
      "--use-service-account-credentials",
      `--service-account-private-key-file=${pki.accountKey}`,
      `--root-ca-file=${pki.ca}`,
    ],
    // The first thing that shows it at work, and that every pod needs.
    async () => (await kubectl("get", "serviceaccount", "default", "-o", "name")) !== "",
  );
  await daemons.start(join(tools, "kube-scheduler"), shared, ready);
}

/** All open at once, so that no two are the same. */
async function freePorts(count: 4): Promise<[number, number, number, number]>;
async function freePorts(count: number): Promise<number[]> {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      return server;
    }),
  );
  const ports = servers.map((server) => (server.address() as { port: number }).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
