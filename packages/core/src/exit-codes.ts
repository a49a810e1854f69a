// What a program for people ends with. Scripts lean on these numbers: they are documented and do not change.

import type { FailureCode } from "./failure.ts";

export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  unreachable: 3,
  notFound: 4,
  timeout: 5,
  conflict: 6,
  bug: 70,
  interrupted: 130,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

// biome-ignore format: a table reads as a table.
export const EXIT_MEANS: Record<keyof typeof EXIT, string> = {
  ok:          "done",
  failed:      "the operation was carried out and failed: a build, a job, a check, a broken audit chain",
  usage:       "wrong usage or wrong input: an unknown option, a missing argument, a value the server refuses",
  unreachable: "the server cannot be reached, or does not accept the token",
  notFound:    "there is no such thing",
  timeout:     "`--timeout` passed while waiting; that alone stops nothing",
  conflict:    "the thing is in a state that does not allow it",
  bug:         "a state that cannot happen; please report it",
  interrupted: "Ctrl-C",
};

// biome-ignore format: a table reads as a table.
const EXIT_OF: Record<FailureCode, keyof typeof EXIT> = {
  invalid:         "usage",
  unauthenticated: "unreachable",
  forbidden:       "unreachable",
  not_found:       "notFound",
  conflict:        "conflict",
  too_large:       "usage",
  rate_limited:    "unreachable",
  unavailable:     "unreachable",
  timeout:         "timeout",
  disk_full:       "failed",
  signature:       "failed",
  expired:         "failed",
  replayed:        "failed",
  unreleased:      "failed",
  downgrade:       "failed",
  wrong_install:   "failed",
  policy:          "failed",
  not_synced:      "failed",
  outputs_lost:    "failed",
  plugin:          "failed",
  tool:            "failed",
  lost:            "failed",
  killed:          "failed",
  out_of_memory:   "failed",
  poisoned:        "failed",
  cancelled:       "failed",
  bug:             "bug",
};

export function exitCodeOf(code: FailureCode): ExitCode {
  return EXIT[EXIT_OF[code]];
}
