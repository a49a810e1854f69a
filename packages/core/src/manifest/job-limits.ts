// How much one job may use. The vendor's component says what it needs, the manifest carries it, the
// customer's sandbox has the last word; the figures that a runtime gets are decided here and nowhere
// else.

import { z } from "zod";
import { LOG_BYTES_MAX } from "../job/output-limits.ts";
import type { Operation } from "./manifest.ts";

export const Limits = z.object({
  /** Of all processes of the job together. */
  memoryBytes: z.int().positive().optional(),
  processesMax: z.int().positive().optional(),
  cpus: z.number().positive().optional(),
  logBytesMax: z.int().positive().optional(),
  /** Of the job's own directory: what it unpacks, writes and prints. Not of what it leaves as state. */
  diskBytesMax: z.int().positive().optional(),
});
export type Limits = z.infer<typeof Limits>;

/** With no figure left open. */
export type AllLimits = { readonly [Name in keyof Limits]-?: number };

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

export const DEFAULT_LIMITS: AllLimits = {
  memoryBytes: 2 * GIB,
  processesMax: 512,
  cpus: 2,
  logBytesMax: LOG_BYTES_MAX,
  diskBytesMax: 10 * GIB,
};

/** Compilers and package managers need more than what runs their result. */
const BUILD_LIMITS = { memoryBytes: 4 * GIB, diskBytesMax: 20 * GIB };

/** What a manifest of this operation says: the component's own wish, and the default for the rest. */
export function limitsFor(operation: Operation, wanted: Limits = {}): AllLimits {
  const isBuild = operation === "build" || operation === "assemble";
  const usual = isBuild ? { ...DEFAULT_LIMITS, ...BUILD_LIMITS } : DEFAULT_LIMITS;
  return {
    memoryBytes: wanted.memoryBytes ?? usual.memoryBytes,
    processesMax: wanted.processesMax ?? usual.processesMax,
    cpus: wanted.cpus ?? usual.cpus,
    logBytesMax: wanted.logBytesMax ?? usual.logBytesMax,
    diskBytesMax: wanted.diskBytesMax ?? usual.diskBytesMax,
  };
}

/** What the runtime is told: nothing above what the sandbox allows, and no figure left open. */
export function enforcedLimits(
  operation: Operation,
  manifest: Limits,
  caps: Limits = {},
): AllLimits {
  const wanted = limitsFor(operation, manifest);
  const least = (name: keyof Limits) => Math.min(wanted[name], caps[name] ?? wanted[name]);
  return {
    memoryBytes: least("memoryBytes"),
    processesMax: least("processesMax"),
    cpus: least("cpus"),
    logBytesMax: least("logBytesMax"),
    diskBytesMax: least("diskBytesMax"),
  };
}

const Size = z
  .string()
  .regex(/^[1-9][0-9]{0,6}(KiB|MiB|GiB)$/, "must be a size such as 512MiB or 2GiB");

/** `limits` of a component in exclave.yaml. */
export const LimitsDeclaration = z.strictObject({
  memory: Size.optional().describe("Memory of a job's processes together, such as 512MiB"),
  processes: z.int().min(8).max(32_768).optional().describe("Processes at the same time"),
  cpus: z.number().min(0.1).max(256).optional().describe("Processors, where the runtime can"),
  log: Size.optional().describe("Log that is kept of a job, such as 32MiB"),
  disk: Size.optional().describe("What a job may write into its own directory"),
});
export type LimitsDeclaration = z.infer<typeof LimitsDeclaration>;

export function declaredLimits(declared: LimitsDeclaration): Limits {
  const { memory, processes, cpus, log, disk } = declared;
  return {
    ...(memory !== undefined && { memoryBytes: bytesOf(memory) }),
    ...(processes !== undefined && { processesMax: processes }),
    ...(cpus !== undefined && { cpus }),
    ...(log !== undefined && { logBytesMax: bytesOf(log) }),
    ...(disk !== undefined && { diskBytesMax: bytesOf(disk) }),
  };
}

function bytesOf(size: string): number {
  const units = { KiB: 1024, MiB: MIB, GiB: GIB } as const;
  return Number.parseInt(size, 10) * units[size.slice(-3) as keyof typeof units];
}
