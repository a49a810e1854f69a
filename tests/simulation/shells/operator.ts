// People: they create installs, ask for things at odd moments, and when everything is quiet they do
// what a hold tells them to.

import { createInstall as createCall } from "@exclave/api";
import { Failure, isSettled } from "@exclave/core";
import {
  cancelJob,
  createInstall,
  deployInstall,
  destroyInstall,
  type JobRow,
  runInInstall,
  type ServerContext,
} from "@exclave/server/simulation";
import type { ServerSide } from "./server-side.ts";
import { CHANNEL, RELEASES, readApp } from "./vendor.ts";
import { settle } from "./virtual-timers.ts";
import { must, note, type World } from "./world.ts";

export interface Operator {
  /** Asks for something at random. */
  ask(): Promise<void>;
  create(name: string): Promise<string | undefined>;
  exec(name: string): Promise<void>;
  /** Every debug command that still runs. */
  cancelRequests(): Promise<void>;
  update(): Promise<void>;
  /** As a hold says: once more. */
  askAgain(name: string): Promise<void>;
  destroy(name: string): Promise<void>;
  askedAt(install: string): number;
  readonly cancelled: ReadonlySet<string>;
}

const BY = "operator";
const NOTHING_ELSE = { allowDestroy: [], components: [], retry: false };

export function createOperator(world: World, server: ServerSide): Operator {
  const { dice } = world;
  const asked = new Map<string, number>();
  const cancelled = new Set<string>();

  return {
    ask,
    create,
    exec,
    cancelRequests,
    update,
    askAgain,
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
  ): Promise<Value | void> {
    const { context } = server;
    if (!context) return undefined;
    try {
      // Whoever asks a server that crashes meanwhile never hears of it again.
      const result = await Promise.race([work(context), settle().then(settle)]);
      note(world, `operator: ${what}`);
      return result;
    } catch (reason) {
      note(world, `operator: ${what}: ${String(reason)}`);
      const isExpected = reason instanceof Failure || String(reason).includes("SQLITE_IOERR");
      must(world, isExpected, "a request fails with a sentence", String(reason));
      return undefined;
    }
  }

  async function create(name: string): Promise<string | undefined> {
    const wanted = { name, app: "crm", channel: CHANNEL, sandbox: "local" };
    const body = createCall.body.parse(wanted);
    const row = await request(`create ${name}`, (context) =>
      createInstall(context, readApp, body, BY),
    );
    return row?.id;
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
    if (done) cancelled.add(id);
  }

  async function cancelRequests(): Promise<void> {
    for (const job of await openJobs()) if (job.operation === "exec") await cancel(job);
  }

  async function update(): Promise<void> {
    const [, newest] = RELEASES;
    await request("update", async (context) => {
      await context.store.transaction(async (tx) => {
        const channel = await tx.channels.of(newest?.row.app as never, CHANNEL);
        if (!channel || !newest) return;
        await tx.releases.put(newest.row);
        await tx.channels.put({ ...channel, release: newest.row.id });
      });
      context.wake.allInstalls();
    });
  }

  async function askAgain(ref: string): Promise<void> {
    const install = await server.read.installs.byName(ref);
    if (install?.mode === "destroyed") return destroy(ref);
    await deploy(ref, { ...NOTHING_ELSE, retry: true });
  }

  async function deploy(ref: string, body: object): Promise<void> {
    const row = await request(`deploy ${ref}`, (context) =>
      deployInstall(context, readApp, { ref, body: body as never, by: BY }),
    );
    if (row) asked.set(row.id, world.time.now);
  }

  async function destroy(ref: string): Promise<void> {
    const row = await request(`destroy ${ref}`, (context) =>
      destroyInstall(context, { ref, because: "it was asked for", by: BY }),
    );
    if (row) asked.set(row.id, world.time.now);
  }
}
