// Channels: names that point at releases.

import { askedNow, Failure, type Instant, movesChannel } from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import type { AppRow, ChannelRow, ReleaseRow } from "../store/rows.ts";
import type { Readers, Tables } from "../store/store.ts";

interface ChannelMove {
  readonly release: ReleaseRow;
  readonly name: string;
  readonly by: string;
  /** When it was asked for; now, unless it had to be built first. */
  readonly askedAt?: Instant;
}

/** Moves the channel a release was meant for, unless a later wish has moved it in the meantime. */
export async function releaseToChannel(
  tx: Tables,
  context: Pick<ServerContext, "now">,
  release: ReleaseRow,
  name: string,
): Promise<boolean> {
  const before = await tx.channels.of(release.app, name);
  const { createdAt: askedAt, requestedBy: by } = release;
  if (movesChannel(askedAt, before)) {
    await moveChannel(tx, context, { release, name, by, askedAt });
    return true;
  }
  await audit(tx, context, {
    actor: by,
    action: "channel.kept",
    subject: `${release.app}/${name}`,
    details: {
      at: before?.release ?? null,
      ready: release.id,
      because: "what the channel points at was asked for later",
    },
  });
  return false;
}

export async function moveChannel(
  tx: Tables,
  context: Pick<ServerContext, "now">,
  { release, name, by, askedAt }: ChannelMove,
): Promise<ChannelRow> {
  const before = await tx.channels.of(release.app, name);
  const now = context.now();
  const channel: ChannelRow = {
    app: release.app,
    appName: release.appName,
    name,
    release: release.id,
    movedAt: now,
    askedAt: askedAt ?? askedNow(now, before?.askedAt),
  };
  await tx.channels.put(channel);
  await audit(tx, context, {
    actor: by,
    action: "channel.moved",
    subject: `${release.app}/${name}`,
    details: {
      app: release.appName,
      from: before?.release ?? null,
      to: release.id,
      version: release.version,
    },
  });
  return channel;
}

/** A release of the app that can be deployed, by id or by version. */
export async function readyRelease(
  { releases }: Pick<Readers, "releases">,
  app: Pick<AppRow, "id" | "name">,
  name: string,
): Promise<ReleaseRow> {
  const byId = await releases.get(name);
  const release = byId ?? (await releases.byVersion(app.id, name));
  if (release?.app !== app.id) {
    throw new Failure("not_found", `there is no release ${name} of ${app.name}`);
  }
  if (release.state !== "ready") {
    throw new Failure("conflict", `release ${release.version} of ${app.name} is ${release.state}`);
  }
  return release;
}
