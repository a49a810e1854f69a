// An agent where a second copy of it may be started beside it: in a cluster, the copy that holds the Lease works, and the
// other one waits before it opens a journal, dials or starts anything.

import { join } from "node:path";
import { Failure, parseSandboxContract } from "@exclave/core";
import { readIfThere } from "@exclave/machine";
import type { Agent } from "./agent.ts";
import { type ComposeOptions, composeAgent } from "./compose.ts";
import { openCluster } from "./sandbox/cluster-place.ts";
import { clusterRuntime } from "./sandbox/open-runtime.ts";

export interface AloneOptions extends Omit<ComposeOptions, "cluster"> {
  /** What a kubelet tells its pods, among others. */
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export async function composeAlone(options: AloneOptions): Promise<Agent> {
  const { kind, home, environment, now, log } = options;
  const text = kind === "install" ? await readIfThere(join(home, "sandbox.json")) : undefined;
  const contract = text === undefined ? undefined : parseSandboxContract(text);
  const runtime = clusterRuntime(contract);
  if (!contract || !runtime) return composeAgent(options);

  const { roles } = contract;
  const onLost = (because: string) => options.onDamaged?.(new Failure("conflict", because));
  const cluster = await openCluster({ runtime, roles, environment, now, log, onLost });
  try {
    const agent = await composeAgent({ ...options, cluster });
    return {
      async stop() {
        await agent.stop();
        await cluster.close();
      },
    };
  } catch (reason) {
    await cluster.close();
    throw reason;
  }
}
