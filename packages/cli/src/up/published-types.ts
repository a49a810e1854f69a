// The build agent brings the component types this program was shipped with. Until the server has
// them nothing can be released, so `up` does not call itself running before.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Client, listPlugins, type PluginView } from "@exclave/api";
import { z } from "zod";
import { listAll } from "../connection/pages.ts";

const ShippedImages = z.array(
  z.looseObject({ name: z.string(), kind: z.string(), digest: z.string() }),
);

export interface WaitForTypes {
  readonly client: Client;
  /** Where the images lie that were shipped. */
  readonly images: string;
  readonly say: (line: string) => void;
  readonly now: () => number;
  readonly signal: AbortSignal;
  readonly patienceMs?: number;
}

/** True once all are there; false, with a remark, when that takes too long. */
export async function waitForTypes(options: WaitForTypes): Promise<boolean> {
  const { client, say, now, signal, patienceMs = 60_000 } = options;
  const text = await readFile(join(options.images, "images.json"), "utf8");
  const shipped = ShippedImages.parse(JSON.parse(text)).filter(({ kind }) => kind === "plugin");
  const endsAt = now() + patienceMs;
  for (let isTold = false; ; isTold = true) {
    const known = await listAll<PluginView>(client, listPlugins);
    const missing = shipped.filter(
      ({ digest }) => !known.some((plugin) => plugin.digest === digest),
    );
    if (missing.length === 0) return true;
    const names = missing.map(({ name }) => name).join(", ");
    if (!isTold) say(`types   waiting for the build agent to publish ${names}`);
    if (now() >= endsAt) {
      say(`types   ${names} could not be published yet; releases that use them have to wait`);
      return false;
    }
    await sleep(200, undefined, { signal });
  }
}
