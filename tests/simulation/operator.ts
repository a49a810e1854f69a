// People: they create installs, ask for things at odd moments, and when everything is quiet they do
// what a hold tells them to.

import { createInstall as createCall } from "@exclave/api";
import { Failure, Instant, isSettled } from "@exclave/core";
import {
  cancelJob,
  createInstall,
  deployInstall,
  destroyInstall,
  forgetInstall,
  type JobRow,
  runInInstall,
  type ServerContext,
  setupInstall,
} from "@exclave/server/simulation";
import type { HeldInstall } from "./promises.ts";
import type { ServerSide } from "./server-side.ts";
import { CHANNEL, laterRelease, RELEASES, type Released, readApp } from "./vendor.ts";
import { settle } from "./virtual-timers.ts";
import { must, note, type World } from "./world.ts";

export interface Operator {
  /** Asks for something at random. */
  ask(): Promise<void>;
  create(name: string): Promise<void>;
  exec(name: string): Promise<void>;
  /** Every debug command that still runs. */
  cancelRequests(): Promise<void>;
  update(): Promise<void>;
  /** As a hold says: once more. */
  askAgain(name: string): Promise<void>;
  /** What a hold says that somebody has to do. */
  obey(hold: HeldInstall): Promise<void>;
  destroy(name: string): Promise<void>;
  askedAt(install: string): number;
  readonly cancelled: ReadonlySet<string>;
}

const BY = "operator";
/** It may have been done or not: the server is gone. */
const UNANSWERED: unique symbol = Symbol("unanswered");
type Unanswered = typeof UNANSWERED;
const NOTHING_ELSE = { allowDestroy: [], components: [], retry: false };

export function createOperator(world: World, server: ServerSide): Operator {
  const { dice } = world;
  const asked = new Map<string, number>();
  const cancelled = new Set<string>();
  let released = 1;

  return {
    ask,
    create,
    exec,
    cancelRequests,
    update,
    askAgain,
    obey,
    destroy,
    askedAt: (install) => asked.get(install) ?? -1,
    cancelled,
  };

  async function ask(): Promise<void> {
    const install = dice.pick(await server.read.installs.all());
    if (!install) return;
    const { name } = install;
    const roll = dice.below(100);
    if (roll < 35) await exec(name);
    else if (roll < 60) {
      const job = dice.pick(await openJobs());
      if (job) await cancel(job);
    }
    if (roll >= 60 && roll < 75) await update();
    if (roll >= 75 && roll < 90) await askAgain(name);
    if (roll >= 90) await deploy(name, { ...NOTHING_ELSE, components: ["api"] });
  }

  /** Nobody is surprised that a request fails while there is trouble: it is made again, or not. */
  async function request<Value>(
    what: string,
    work: (context: ServerContext) => Promise<Value>,
  ): Promise<Value | Unanswered | undefined> {
    const { context } = server;
    if (!context) return undefined;
    try {
      // Whoever asks a server that crashes meanwhile never hears of it again.
      const lost = settle().then(settle);
      const result = await Promise.race([work(context), lost.then((): Unanswered => UNANSWERED)]);
      note(world, `operator: ${what}${result === UNANSWERED ? ": no answer" : ""}`);
      return result;
    } catch (reason) {
      note(world, `operator: ${what}: ${String(reason)}`);
      const isExpected = reason instanceof Failure || String(reason).includes("SQLITE_IOERR");
      must(world, isExpected, "a request fails with a sentence", String(reason));
      return undefined;
    }
  }

  async function create(name: string): Promise<void> {
    const wanted = { name, app: "crm", channel: CHANNEL, sandbox: "local" };
    const body = createCall.body.parse(wanted);
    await request(`create ${name}`, (context) => createInstall(context, readApp, body, BY));
  }

  async function exec(ref: string): Promise<void> {
    const body = { operation: "exec", command: ["true"], timeoutSeconds: 30 };
    await request(`exec in ${ref}`, (context) =>
      runInInstall(context, { ref, component: "api", body: body as never, by: BY }),
    );
  }

  async function openJobs(): Promise<JobRow[]> {
    const installs = await server.read.installs.all();
    const open = await Promise.all(installs.map(({ id }) => server.read.jobs.openOfInstall(id)));
    return open.flat().filter(({ state }) => !isSettled(state));
  }

  async function cancel({ id }: Pick<JobRow, "id">): Promise<void> {
    const done = await request(`cancel ${id}`, (context) =>
      cancelJob(context, { id, graceMs: 1_000, by: BY }),
    );
    if (done !== undefined && done !== UNANSWERED) cancelled.add(id);
  }

  async function cancelRequests(): Promise<void> {
    for (const job of await openJobs()) if (job.operation === "exec") await cancel(job);
  }

  async function update(): Promise<void> {
    const [, newest] = RELEASES;
    if (newest && released <= 2) await release("update", newest);
  }

  /** One that is newer than all before, as somebody makes it when a hold asks for it. */
  async function releaseAnew(): Promise<void> {
    const number = Math.max(released, 2) + 1;
    await release(`release ${number}`, laterRelease(number, Instant.parse(world.time.now)));
  }

  async function release(what: string, { row }: Released): Promise<void> {
    released = row.number;
    await request(what, async (context) => {
      await context.store.transaction(async (tx) => {
        const channel = await tx.channels.of(row.app, CHANNEL);
        if (!channel) return;
        await tx.releases.put(row);
        await tx.channels.put({ ...channel, release: row.id });
      });
      context.wake.allInstalls();
    });
  }

  async function askAgain(ref: string): Promise<void> {
    const install = await server.read.installs.byName(ref);
    if (install?.mode === "destroyed") return destroy(ref);
    await deploy(ref, { ...NOTHING_ELSE, retry: true });
  }

  async function obey({ name, endsWhen }: HeldInstall): Promise<void> {
    if (endsWhen.includes("`exclave release")) return releaseAnew();
    if (endsWhen.includes("install forget")) return forget(name);
    if (!endsWhen.includes("install setup")) return askAgain(name);
    const why = { ref: name, because: "a hold says so", by: BY };
    await request(`setup ${name}`, (context) => setupInstall(context, why));
  }

  async function forget(ref: string): Promise<void> {
    const order = { ref, force: true, by: BY };
    await request(`forget ${ref}`, (context) => forgetInstall(context, order));
  }

  async function deploy(ref: string, body: object): Promise<void> {
    const done = await request(`deploy ${ref}`, (context) =>
      deployInstall(context, readApp, { ref, body: body as never, by: BY }),
    );
    if (done) await noteAsked(ref);
  }

  async function destroy(ref: string): Promise<void> {
    const done = await request(`destroy ${ref}`, (context) =>
      destroyInstall(context, { ref, because: "it was asked for", by: BY }),
    );
    if (done) await noteAsked(ref);
  }

  /** Also when the answer was lost: it may have been heard. */
  async function noteAsked(ref: string): Promise<void> {
    const install = await server.read.installs.byName(ref);
    if (install) asked.set(install.id, world.time.now);
  }
}
