// What this server does about what the others tell it, and what it does when it cannot be sure to have heard it all:
// it looks at everything once, soon and not at the same moment as the others.

import type { Timers } from "@exclave/api";
import { type Audience, unreachable } from "@exclave/core";
import type { ServerContext } from "../context.ts";
import type { LinkEndpoint } from "../link/link-endpoint.ts";
import type { ServerLoops } from "../server-loops.ts";
import type { Fleet } from "./fleet.ts";
import type { Notice } from "./notice.ts";

const SPREAD_MS = 300;

export interface FollowPeersOptions {
  readonly fleet: Fleet;
  readonly link: LinkEndpoint;
  readonly loops: ServerLoops;
  readonly timers: Pick<Timers, "after">;
  /** Uniform in [0, 1). */
  readonly random?: () => number;
}

export function followPeers(context: ServerContext, options: FollowPeersOptions): void {
  const { fleet, link, loops, timers, random = Math.random } = options;
  let coming: Promise<void> | undefined;
  let isWantedAgain = false;
  context.peers.listen({
    onNotice: (notice, from) => take(notice, from),
    onUnsure: lookSoon,
    onRenamed: () => link.begin("the server begins anew"),
  });

  function take(notice: Notice, from: string): void {
    switch (notice.kind) {
      case "install":
        return loops.markInstall(notice.install);
      case "all_installs":
        return loops.markAll();
      case "releases":
        return loops.markReleases();
      case "outbox":
        return link.look(notice.audience);
      case "revoked":
        return link.revoked(notice.audience);
      case "link":
        return moved({ ...notice, server: from });
      case "event":
        return context.live.hear(notice.event);
      case "trust":
        return orSay("the trust document", () => context.trust.refresh());
      case "authority":
        return orSay("the authority", async () => context.authority?.refresh());
      case "followed":
        return context.followers.heard(notice.job);
      case "checkpoints_wanted":
        link.askCheckpoints(notice.audience);
        return;
      case "checkpoints_kept":
        return context.agentCheckpoints.answered(notice.agent);
      case "everything":
        return lookSoon();
      default:
        return unreachable(notice);
    }
  }

  function moved(news: {
    readonly audience: Audience;
    readonly server: string;
    readonly epoch: number;
    readonly isUp: boolean;
  }): void {
    fleet.note(news);
    const { audience, epoch, isUp } = news;
    if (!isUp || !link.moved(audience, epoch)) return;
    // What was put there while this server believed to hold the link was looked at by nobody else.
    context.wake.outbox(audience);
  }

  function lookSoon(): void {
    isWantedAgain = true;
    coming ??= new Promise<void>((resolve) => {
      timers.after(Math.round(SPREAD_MS * random()), resolve);
    })
      .then(lookAtEverything)
      .finally(() => {
        coming = undefined;
        if (isWantedAgain) lookSoon();
      });
  }

  async function lookAtEverything(): Promise<void> {
    isWantedAgain = false;
    try {
      await fleet.reload();
      await context.trust.refresh();
      await context.authority?.refresh();
      loops.markReleases();
      await loops.markedAll();
      link.lookAll();
    } catch (reason) {
      context.log.warn({ reason }, "not everything could be looked at; it is retried");
      timers.after(RETRY_MS, lookSoon);
    }
  }

  function orSay(what: string, work: () => Promise<void>): void {
    work().catch((reason: unknown) => {
      context.log.warn({ reason }, `${what} could not be read again; it is retried`);
      lookSoon();
    });
  }
}

const RETRY_MS = 2_000;
