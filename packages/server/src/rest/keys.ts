import {
  exportRootKey,
  forgetRootKey,
  getKeys,
  getTrust,
  publishTrust,
  renewTrust,
  rotateKey,
} from "@exclave/api";
import { Failure } from "@exclave/core";
import {
  createRootExport,
  renewTrust as renew,
  rotateKey as rotate,
  viewKeys,
} from "../trust/change-keys.ts";
import { type Handler, handler } from "./handler.ts";

const rootExport = createRootExport();

export const KEY_HANDLERS: readonly Handler[] = [
  handler(getTrust, async ({ params: { version }, context }) => {
    const { trust } = context;
    const found = version === "current" ? trust.current() : trust.after(version - 1)[0];
    if (!found) throw new Failure("not_found", `there is no trust document ${version}`);
    return found.envelope;
  }),

  handler(getKeys, ({ context }) => viewKeys(context)),

  handler(rotateKey, ({ params: { role }, body, caller, context }) =>
    rotate(context, { role, ...body, by: caller.name }),
  ),

  handler(renewTrust, ({ caller, context }) => renew(context, caller.name)),

  handler(publishTrust, async ({ body, caller, context }) => {
    const { document } = await context.trust.publish(body, caller.name, { rootKey: "offline" });
    return { kind: "published" as const, version: document.version };
  }),

  handler(exportRootKey, ({ caller, context }) => rootExport.start(context, caller.name)),

  handler(forgetRootKey, async ({ body, caller, context }) => {
    await rootExport.finish(context, { ...body, by: caller.name });
    return { keyid: body.keyid };
  }),
];
