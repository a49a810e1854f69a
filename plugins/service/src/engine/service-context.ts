// What the operations of a service in a container are handed, and what they agree on.

import type { OperationContext } from "@exclave/plugin-sdk";
import type { Config } from "../config.ts";

export type Context = OperationContext<Config> & {
  readonly engine: NonNullable<OperationContext<Config>["engine"]>;
};

/** Nobody on the machine, and the same nobody as the component's jobs. */
export const JOB_USER = { uid: 65_532, gid: 65_532 };
export const FILES_PATH = "/app";
