// A server that lies: forged, for another install, out of date, or an old manifest under a new name.

import { type Envelope, MANIFEST_PAYLOAD_TYPE, type Manifest, manifestBytes } from "@exclave/core";
import { seal } from "./vendor.ts";
import { note, type World } from "./world.ts";

export interface Lies {
  /** Jobs it lies about, and how. Once a lie about a job, always a lie about it. */
  readonly told: Map<string, Envelope>;
  /** And once the truth, always the truth. */
  readonly truths: Map<string, Envelope>;
}

/** The job a manifest is of: no other id in it begins like this. */
const ID = /(?<="id":")j[a-z2-7]{16}(?=")/;

export function sealOrLie(
  world: World,
  { told, truths }: Lies,
  type: string,
  payload: Uint8Array,
): Envelope {
  if (type !== MANIFEST_PAYLOAD_TYPE) return seal(type, payload);
  const text = Buffer.from(payload).toString();
  const id = ID.exec(text)?.[0] ?? "";
  const before = told.get(id) ?? truths.get(id);
  if (before) return before;
  const truth = seal(type, payload);
  if (!world.strikes("lie")) {
    truths.set(id, truth);
    return truth;
  }
  note(world, `server lies about ${id}`);
  const manifest = JSON.parse(text) as Manifest;
  const lie = lieAbout(world, manifest, [...truths.values()]) ?? seal(type, payload, true);
  told.set(id, lie);
  return lie;
}

function lieAbout(
  { dice }: World,
  manifest: Manifest,
  truths: readonly Envelope[],
): Envelope | undefined {
  const kind = dice.below(4);
  if (kind === 0) return undefined;
  if (kind === 1) return dice.pick(truths);
  const { notBefore } = manifest;
  const said =
    kind === 2
      ? { ...manifest, audience: "ianotheraaaaaaaaa" }
      : { ...manifest, notBefore: notBefore - 9_000_000, notAfter: notBefore - 8_000_000 };
  return seal(MANIFEST_PAYLOAD_TYPE, manifestBytes(said as Manifest));
}
