// What a plugin asks of the machine it runs on: files that survive, and whether a process on record is
// still the one that is meant.

import { z } from "zod";

export {
  claimForProcess,
  createDurablySync,
  identifyProcess,
  isMissing,
  isRunning,
  readHolder,
  readIfThere,
  signalProcess,
  writeDurably,
  writeDurablySync,
} from "@exclave/machine";

export const ProcessIdentity = z.object({
  pid: z.int().positive(),
  /** Opaque: ticks since the boot on Linux, a date elsewhere. Only equality means something. */
  startTime: z.coerce.string(),
  bootId: z.string().optional(),
});
export type ProcessIdentity = z.infer<typeof ProcessIdentity>;
