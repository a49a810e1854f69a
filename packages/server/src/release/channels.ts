// Channels: names that point at releases.

import { Failure } from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import type { ChannelRow, ReleaseRow } from "../store/rows.ts";
import type { Readers, Tables } from "../store/store.ts";

export async function moveChannel(
  tx: Tables,
  context: Pick<ServerContext, "now">,
  {
    release,
    name,
    by,
  }: { readonly release: ReleaseRow; readonly name: string; readonly by: string },
): Promise<ChannelRow> {
  const before = await tx.channels.of(release.app, name);
  const channel = { app: release.app, name, release: release.id, movedAt: context.now() };
  await tx.channels.put(channel);
  await audit(tx, context, {
    actor: by,
    action: "channel.moved",
    subject: `${release.app}/${name}`,
    details: { from: before?.release ?? null, to: release.id, version: release.version },
  });
  return channel;
}

/** A release of the app that can be deployed, by id or by version. */
export async function readyRelease(
  { releases }: Pick<Readers, "releases">,
  app: string,
  name: string,
): Promise<ReleaseRow> {
  const byId = await releases.get(name);
  const release = byId ?? (await releases.byVersion(app, name));
  if (release?.app !== app) throw new Failure("not_found", `there is no release ${name} of ${app}`);
  if (release.state !== "ready") {
    throw new Failure("conflict", `release ${release.version} of ${app} is ${release.state}`);
  }
  return release;
}
