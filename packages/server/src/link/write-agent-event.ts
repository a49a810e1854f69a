// Writes down what an event changes, in the caller's transaction.

import { componentKey, type Tables } from "../store/store.ts";
import type { AgentEventWrites } from "./agent-event-writes.ts";

export async function writeAll(tx: Tables, writes: AgentEventWrites): Promise<void> {
  for (const job of writes.jobs) await tx.jobs.put(job);
  if (writes.install) await tx.installs.put(writes.install);
  for (const install of writes.otherInstalls ?? []) await tx.installs.put(install);
  for (const component of writes.components) await tx.components.put(component);
  if (writes.removedComponent) {
    const { install, name } = writes.removedComponent;
    await tx.components.remove(componentKey(install, name));
  }
  if (writes.channel) await tx.channels.put(writes.channel);
  if (writes.build) await tx.builds.put(writes.build);
  for (const image of writes.images) await tx.images.put(image);
  for (const entry of writes.audit) await tx.audit.append(entry);
}
