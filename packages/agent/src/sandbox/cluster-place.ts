// What an agent that lives in a cluster stands on: the cluster's API, the Lease by which it is the one that works, the place
// where jobs fetch their files, and the runtime. Loaded only where the contract asks for it.

import type { KubernetesRuntime, SandboxContract } from "@exclave/core";
import { makePrivate } from "@exclave/machine";
import type { JobRuntime } from "@exclave/runtime";
import type { KubeConnection } from "@exclave/runtime/kubernetes";
import type { Log } from "../log.ts";
import { identitiesIn } from "./open-runtime.ts";

export interface ClusterPlace {
  readonly runtime: JobRuntime;
  /** The port jobs fetch their files from. */
  readonly port: number;
  /** Lets the next copy work. */
  close(): Promise<void>;
}

export interface ClusterOptions {
  readonly runtime: KubernetesRuntime;
  readonly roles: SandboxContract["roles"];
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Instead of what a kubelet tells: for tests. */
  readonly connection?: KubeConnection;
  /** Where the place for files listens: every address of the pod unless given. */
  readonly host?: string;
  readonly now: () => number;
  readonly log: Log;
  /** Another copy may be at work from now on: this one has to end at once. */
  readonly onLost: (because: string) => void;
  readonly signal?: AbortSignal;
}

/** Waits until this copy of the agent is the one that works. */
export async function openCluster(options: ClusterOptions): Promise<ClusterPlace> {
  const { runtime, environment, now, log, onLost, host = "0.0.0.0" } = options;
  const kubernetes = await import("@exclave/runtime/kubernetes");
  const connection = options.connection ?? (await kubernetes.connectionInCluster(environment));
  const client = kubernetes.createKubeClient(connection);
  // The pod's name: the same copy again after its program was restarted.
  const holder = environment["HOSTNAME"] || `agent-${process.pid}`;
  log.info("waiting for the Lease of this install's agent", { holder });
  const signal = options.signal ?? new AbortController().signal;
  const { namespace, directory, document } = runtime;
  const lease = await kubernetes.holdLease(
    { client, ...runtime.lease, holder, now, onLost },
    signal,
  );
  try {
    await makePrivate(directory, { isDeep: false });
    const hosts = [new URL(document.url).hostname.replace(/^\[|\]$/g, "")];
    const certificate = await kubernetes.openDocumentCertificate(directory, hosts, now());
    const desk = kubernetes.createDocumentDesk({ client, namespace, directory });
    const onRefused = (because: string) => log.warn("a request for a job's files", { because });
    const served = await kubernetes.serveDocuments({
      desk,
      certificate,
      host,
      port: document.port,
      onRefused,
    });
    return {
      runtime: kubernetes.createKubernetesRuntime({
        client,
        namespace,
        directory,
        imageRegistry: runtime.imageRegistry,
        document: { url: document.url, ca: certificate.ca },
        serviceAccounts: identitiesIn(options.roles),
        apiClasses: runtime.apiClasses,
        stateClaim: runtime.stateClaim,
      }),
      port: served.port,
      async close() {
        await served.close();
        await lease.release();
        client.close();
      },
    };
  } catch (reason) {
    await lease.release();
    client.close();
    throw reason;
  }
}
