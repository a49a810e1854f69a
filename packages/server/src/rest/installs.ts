import {
  createInstall,
  deployInstall,
  destroyInstall,
  forgetInstall,
  getInstall,
  type InstallView,
  listInstalls,
  runInInstall,
  setupInstall,
} from "@exclave/api";
import type { ServerContext } from "../context.ts";
import { createInstall as makeInstall } from "../install/create-install.ts";
import { gatherInstall } from "../install/gather-install.ts";
import { viewInstall } from "../install/install-view.ts";
import * as installs from "../install/installs.ts";
import { knownInstall } from "../install/known-install.ts";
import { runInInstall as runInside } from "../install/run-in-install.ts";
import { viewJob } from "../job/job-view.ts";
import type { InstallRow } from "../store/rows.ts";
import { type Handler, handler } from "./handler.ts";
import { inTurns } from "./in-turns.ts";

export const INSTALL_HANDLERS: readonly Handler[] = [
  handler(createInstall, async ({ body, caller, context }) =>
    view(context, await makeInstall(context, context.readApp, body, caller.name)),
  ),

  handler(listInstalls, async ({ query, context, charge }) => {
    const { items, next } = await context.store.read.installs.list(query);
    return { items: await inTurns(items, charge, (install) => context.shown.of(install)), next };
  }),

  handler(getInstall, async ({ params, context }) =>
    view(context, await knownInstall(context.store.read, params.install)),
  ),

  handler(deployInstall, async ({ params, body, caller, context }) => {
    const asked = { ref: params.install, body, by: caller.name };
    return view(context, await installs.deployInstall(context, context.readApp, asked));
  }),

  handler(setupInstall, async ({ params, body, caller, context }) => {
    const asked = { ref: params.install, because: body.because, by: caller.name };
    return view(context, await installs.setupInstall(context, asked));
  }),

  handler(destroyInstall, async ({ params, body, caller, context }) => {
    const asked = { ref: params.install, because: body.because, by: caller.name };
    return view(context, await installs.destroyInstall(context, asked));
  }),

  handler(forgetInstall, ({ params, query, caller, context }) =>
    installs.forgetInstall(context, { ref: params.install, force: query.force, by: caller.name }),
  ),

  handler(runInInstall, async ({ params, body, caller, context }) => {
    const { install: ref, component } = params;
    const job = await runInside(context, { ref, component, body, by: caller.name });
    return viewJob(context, job);
  }),
];

async function view(context: ServerContext, install: InstallRow): Promise<InstallView> {
  return viewInstall(await gatherInstall(context, install), context.now());
}
