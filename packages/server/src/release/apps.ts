// Apps: a name for people, an id for everything else. An app comes into being with its first release.

import { AppId, Failure } from "@exclave/core";
import { audit, type ServerContext } from "../context.ts";
import { newAppId } from "../identifiers.ts";
import type { AppRow } from "../store/rows.ts";
import type { Readers, Tables } from "../store/store.ts";

/** The app of that name or id. */
export async function knownApp({ apps }: Pick<Readers, "apps">, ref: string): Promise<AppRow> {
  const app = (await apps.get(ref)) ?? (await apps.byName(ref));
  if (app) return app;
  const known = (await apps.all()).map(({ name }) => name);
  const have = known.length > 0 ? `; there are ${known.join(", ")}` : "; release one first";
  throw new Failure("not_found", `there is no app ${ref} here${have}`);
}

/** The app of that name, made if this is the first that is heard of it. */
export async function appNamed(
  tx: Tables,
  context: Pick<ServerContext, "now">,
  { name, by }: { readonly name: string; readonly by: string },
): Promise<AppRow> {
  const known = await tx.apps.byName(name);
  if (known) return known;
  if (AppId.safeParse(name).success) {
    throw new Failure("invalid", `an app cannot be called ${name}: that is the form of an id`);
  }
  const app: AppRow = { id: newAppId(), name, createdAt: context.now() };
  await tx.apps.put(app);
  await audit(tx, context, {
    actor: by,
    action: "app.created",
    subject: app.id,
    details: { name },
  });
  return app;
}
