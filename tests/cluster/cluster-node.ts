// The one node of a test cluster: containerd with runc, a bridge for its pods, and a kubelet. Everything it
// makes on the machine has the cluster's directory or its own name in it, and goes when it stops.

import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { Daemons } from "./daemons.ts";
import { SAMPLE_IMAGE, writeSampleImage } from "./sample-image.ts";

const run = promisify(execFile);

export const NODE_NAME = "test-node";
const BRIDGE = "exclave-test0";
const POD_NETWORK = "10.199.77.0/24";
/** On the loopback device, and not 127.0.0.1: a kubelet refuses to be there. */
const NODE_ADDRESS = "10.199.78.1";

export interface NodeOptions {
  readonly directory: string;
  readonly tools: string;
  readonly daemons: Daemons;
  readonly ca: string;
  readonly kubeconfig: string;
  readonly kubeletPort: number;
  readonly isReady: () => Promise<boolean>;
}

export interface ClusterNode {
  stop(): Promise<void>;
}

export async function startNode(options: NodeOptions): Promise<ClusterNode> {
  const { directory, tools, daemons } = options;
  const socket = join(directory, "containerd.sock");
  const forwarding = await readFile("/proc/sys/net/ipv4/ip_forward", "utf8");
  const ctr = (...args: readonly string[]) =>
    run(join(tools, "ctr"), ["--address", socket, "--namespace", "k8s.io", ...args]);

  await run("ip", ["address", "replace", `${NODE_ADDRESS}/32`, "dev", "lo"]);
  const config = await writeContainerdConfig(options, socket);
  // The shim is looked for on the PATH.
  const path = `${tools}:${process.env["PATH"] ?? ""}`;
  const isUp = async () => (await ctr("version")).stdout !== "";
  await daemons.start(join(tools, "containerd"), ["--config", config], isUp, { path });
  await ctr("images", "import", await writeSampleImage(directory));

  const kubelet = await writeKubeletConfig(options, socket);
  await daemons.start(
    join(tools, "kubelet"),
    [
      `--config=${kubelet}`,
      `--kubeconfig=${options.kubeconfig}`,
      `--root-dir=${join(directory, "kubelet")}`,
      `--cert-dir=${join(directory, "kubelet-certificates")}`,
      `--hostname-override=${NODE_NAME}`,
      `--node-ip=${NODE_ADDRESS}`,
    ],
    options.isReady,
    { path },
  );

  return { stop };

  async function stop(): Promise<void> {
    await daemons.stop("kubelet");
    await endContainers(ctr);
    await daemons.stop("containerd");
    await endShims(socket);
    await unmountBelow(directory);
    await run("ip", ["link", "delete", BRIDGE]).catch(() => undefined);
    await writeFile("/proc/sys/net/ipv4/ip_forward", forwarding).catch(() => undefined);
    await run("ip", ["address", "delete", `${NODE_ADDRESS}/32`, "dev", "lo"]).catch(
      () => undefined,
    );
    for (const group of await readdir("/sys/fs/cgroup")) {
      await rmdir(`/sys/fs/cgroup/${group}/k8s.io`).catch(() => undefined);
    }
  }
}

/** Undefined when a node can run here, otherwise what is missing. */
export function whyNoNode(): string | undefined {
  if (process.platform !== "linux") return "a node needs Linux";
  if (process.getuid?.() !== 0) return "a node needs root";
  if (!readFileSync("/proc/filesystems", "utf8").includes("overlay")) {
    return "a node needs overlayfs";
  }
  const runc = ["/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"].find((path) =>
    existsSync(path),
  );
  return runc ? undefined : "a node needs runc";
}

async function writeContainerdConfig({ directory, tools }: NodeOptions, socket: string) {
  const networks = join(directory, "networks");
  await mkdir(networks, { recursive: true });
  const network = {
    cniVersion: "1.0.0",
    name: "pods",
    plugins: [
      {
        type: "bridge",
        bridge: BRIDGE,
        isGateway: true,
        ipMasq: false,
        ipam: {
          type: "host-local",
          dataDir: join(directory, "addresses"),
          ranges: [[{ subnet: POD_NETWORK }]],
          routes: [{ dst: "0.0.0.0/0" }],
        },
      },
    ],
  };
  await writeFile(join(networks, "10-pods.conflist"), JSON.stringify(network));

  const text = JSON.stringify;
  const config = `version = 3
root = ${text(join(directory, "containerd"))}
state = ${text(join(directory, "run"))}
[grpc]
address = ${text(socket)}
[plugins.'io.containerd.cri.v1.images']
snapshotter = "overlayfs"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = ${text(SAMPLE_IMAGE)}
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [${text(tools)}]
conf_dir = ${text(networks)}
`;
  const file = join(directory, "containerd.toml");
  await writeFile(file, config);
  return file;
}

async function writeKubeletConfig({ directory, ca, kubeletPort }: NodeOptions, socket: string) {
  const config = {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    address: NODE_ADDRESS,
    port: kubeletPort,
    healthzPort: 0,
    containerRuntimeEndpoint: `unix://${socket}`,
    cgroupDriver: "cgroupfs",
    cgroupsPerQOS: false,
    enforceNodeAllocatable: [],
    failCgroupV1: false,
    failSwapOn: false,
    makeIPTablesUtilChains: false,
    authentication: {
      x509: { clientCAFile: ca },
      anonymous: { enabled: false },
      webhook: { enabled: true },
    },
    authorization: { mode: "Webhook" },
    // A machine that builds things may be short of disk, and pods are not to be evicted for it.
    evictionHard: {
      "memory.available": "50Mi",
      "nodefs.available": "1%",
      "imagefs.available": "1%",
    },
    imageGCHighThresholdPercent: 100,
    imageGCLowThresholdPercent: 99,
    podLogsDir: join(directory, "pod-logs"),
    volumePluginDir: join(directory, "volume-plugins"),
    staticPodPath: "",
    shutdownGracePeriod: "0s",
  };
  const file = join(directory, "kubelet.json");
  await writeFile(file, JSON.stringify(config));
  return file;
}

/** What still runs when the kubelet is gone: nobody else would end it. */
async function endContainers(
  ctr: (...args: readonly string[]) => Promise<{ readonly stdout: string }>,
): Promise<void> {
  const listed = await ctr("tasks", "list", "--quiet").catch(() => ({ stdout: "" }));
  const names = listed.stdout.split("\n").filter(Boolean);
  await Promise.all(
    names.map(async (name) => {
      await ctr("tasks", "delete", "--force", name).catch(() => undefined);
      await ctr("containers", "delete", name).catch(() => undefined);
    }),
  );
}

/** Shims outlive their containerd, with what they hold: whatever it did not end is ended here. */
async function endShims(socket: string): Promise<void> {
  const deadline = Date.now() + 10_000;
  for (;;) {
    const all = await processTable();
    const shims = all.filter(({ command }) => command.includes(socket)).map(({ pid }) => pid);
    if (shims.length === 0) return;
    if (Date.now() > deadline) throw new Error(`shims of ${socket} do not end: ${shims.join(" ")}`);
    const held = all.filter(({ parent }) => shims.includes(parent)).map(({ pid }) => pid);
    for (const pid of [...held, ...shims]) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It ended by itself.
      }
    }
    await sleep(100);
  }
}

async function processTable() {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const rows = pids.map(async (pid) => {
    try {
      const command = await readFile(`/proc/${pid}/cmdline`, "utf8");
      const stat = await readFile(`/proc/${pid}/stat`, "utf8");
      const [, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return [{ pid: Number(pid), parent: Number(parent), command }];
    } catch {
      // It ended meanwhile.
      return [];
    }
  });
  return (await Promise.all(rows)).flat();
}

async function unmountBelow(directory: string): Promise<void> {
  const mounts = (await readFile("/proc/mounts", "utf8"))
    .split("\n")
    .map((line) => line.split(" ")[1] ?? "")
    .filter((path) => path.startsWith(`${directory}/`));
  for (const path of mounts.toReversed()) {
    await run("umount", ["--lazy", path]).catch(() => undefined);
  }
}
