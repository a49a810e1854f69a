// The programs of a one-node Kubernetes, built with Go into the cache once and found again. Together they
// take some eight minutes of two cores on a machine that has built nothing yet.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { buildGoTool, type GoTool } from "./go-tool.ts";
import { isOnPath, TOOLS_CACHE } from "./provide.ts";

const KUBERNETES = "k8s.io/kubernetes";
const KUBERNETES_VERSION = "v1.36.4";
const VERSION_PACKAGE = "k8s.io/component-base/version";

const CONTAINERD = "github.com/containerd/containerd/v2";
const CNI = "github.com/containernetworking/plugins";

const CLUSTER_TOOLS: readonly GoTool[] = [
  {
    name: "etcd",
    module: "go.etcd.io/etcd/server/v3",
    version: "v3.6.14",
    package: "go.etcd.io/etcd/server/v3",
  },
  ...["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"].map(kubernetes),
  ...["containerd", "containerd-shim-runc-v2", "ctr"].map((name) => ({
    name,
    module: CONTAINERD,
    version: "v2.1.4",
    package: `${CONTAINERD}/cmd/${name}`,
  })),
  ...["main/bridge", "main/loopback", "ipam/host-local"].map((folder) => ({
    name: folder.slice(folder.indexOf("/") + 1),
    module: CNI,
    version: "v1.7.1",
    package: `${CNI}/plugins/${folder}`,
  })),
];

export type ClusterTools =
  /** All of them lie in one directory. */
  | { readonly kind: "ready"; readonly directory: string }
  /** They cannot be had on this machine, and why. */
  | { readonly kind: "unavailable"; readonly because: string };

export async function provideClusterTools(say: (line: string) => void): Promise<ClusterTools> {
  const directory = join(TOOLS_CACHE, "cluster", KUBERNETES_VERSION);
  for (const tool of CLUSTER_TOOLS) {
    const program = join(directory, tool.name);
    if (existsSync(program)) continue;
    if (!isOnPath("go")) return { kind: "unavailable", because: `${tool.name} needs go` };
    say(`fetching ${tool.name} …`);
    try {
      await buildGoTool(tool, program);
    } catch (reason) {
      const said = reason instanceof Error ? reason.message : String(reason);
      const because = `${tool.name} cannot be built: ${said.trim().split("\n").at(-1)}`;
      return { kind: "unavailable", because };
    }
  }
  return { kind: "ready", directory };
}

function kubernetes(name: string): GoTool {
  const [major = "", minor = ""] = KUBERNETES_VERSION.slice(1).split(".");
  return {
    name,
    module: KUBERNETES,
    version: KUBERNETES_VERSION,
    package: `${KUBERNETES}/cmd/${name}`,
    partsVersion: KUBERNETES_VERSION.replace(/^v1/, "v0"),
    // Charts ask which version they are on, and a build of a module does not know its own.
    linkValues: {
      [`${VERSION_PACKAGE}.gitVersion`]: KUBERNETES_VERSION,
      [`${VERSION_PACKAGE}.gitMajor`]: major,
      [`${VERSION_PACKAGE}.gitMinor`]: minor,
    },
  };
}
