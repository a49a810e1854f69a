// How a cluster's API is reached: from inside a pod by what the kubelet put there, from elsewhere by a
// kubeconfig. A kubeconfig is read as the value it holds, so that nothing here parses YAML.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "@exclave/core";
import { z } from "zod";

export interface KubeConnection {
  readonly server: string;
  /** In PEM: who vouches for the API server; the machine's roots unless given. */
  readonly ca?: string | undefined;
  /** Asked for each request: a kubelet renews the token of its pod. */
  readonly token?: (() => Promise<string>) | undefined;
  readonly certificate?: { readonly cert: string; readonly key: string } | undefined;
}

export const SERVICE_ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount";

/** From inside a pod; `environment` has what every kubelet sets. */
export async function connectionInCluster(
  environment: Readonly<Record<string, string | undefined>>,
  directory = SERVICE_ACCOUNT_DIRECTORY,
): Promise<KubeConnection> {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = "443" } = environment;
  if (!host) {
    const message = "KUBERNETES_SERVICE_HOST is not set: this is no pod, so give a kubeconfig";
    throw new Failure("invalid", message);
  }
  return {
    server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    ca: await readFile(join(directory, "ca.crt"), "utf8"),
    token: async () => (await readFile(join(directory, "token"), "utf8")).trim(),
  };
}

const Named = <Key extends string, Value extends z.ZodType>(key: Key, value: Value) =>
  z.array(
    z.object({ name: z.string(), [key]: value } as { name: z.ZodString } & Record<Key, Value>),
  );

const Kubeconfig = z.object({
  "current-context": z.string(),
  contexts: Named("context", z.object({ cluster: z.string(), user: z.string() })),
  clusters: Named(
    "cluster",
    z.object({
      server: z.url(),
      "certificate-authority-data": z.base64().optional(),
      "certificate-authority": z.string().optional(),
    }),
  ),
  users: Named(
    "user",
    z.object({
      token: z.string().optional(),
      tokenFile: z.string().optional(),
      "client-certificate-data": z.base64().optional(),
      "client-certificate": z.string().optional(),
      "client-key-data": z.base64().optional(),
      "client-key": z.string().optional(),
    }),
  ),
});

/** With a token or a client certificate; a program that would have to be run for one is refused. */
export async function connectionOf(kubeconfig: unknown): Promise<KubeConnection> {
  const read = Kubeconfig.safeParse(kubeconfig);
  if (!read.success) {
    throw new Failure("invalid", `this is no kubeconfig: ${z.prettifyError(read.error)}`);
  }
  const { contexts, clusters, users, "current-context": current } = read.data;
  const context = contexts.find(({ name }) => name === current)?.context;
  const cluster = clusters.find(({ name }) => name === context?.cluster)?.cluster;
  const user = users.find(({ name }) => name === context?.user)?.user;
  if (!cluster || !user) {
    throw new Failure("invalid", `the kubeconfig has no context, cluster and user for ${current}`);
  }
  const { token, tokenFile } = user;
  const cert = await textOf(user["client-certificate-data"], user["client-certificate"]);
  const key = await textOf(user["client-key-data"], user["client-key"]);
  if (token === undefined && tokenFile === undefined && !(cert && key)) {
    throw new Failure("invalid", `the kubeconfig's ${current} has no token and no certificate`);
  }
  return {
    server: cluster.server,
    ca: await textOf(cluster["certificate-authority-data"], cluster["certificate-authority"]),
    ...(cert && key ? { certificate: { cert, key } } : {}),
    ...(tokenFile !== undefined
      ? { token: async () => (await readFile(tokenFile, "utf8")).trim() }
      : token !== undefined && { token: async () => token }),
  };
}

async function textOf(data: string | undefined, file: string | undefined) {
  if (data !== undefined) return Buffer.from(data, "base64").toString("utf8");
  return file === undefined ? undefined : readFile(file, "utf8");
}
