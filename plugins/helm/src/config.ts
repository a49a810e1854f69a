// What a helm component can say of itself in exclave.yaml.

import { z } from "@exclave/plugin-sdk";

const LABEL = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/;

export const Config = z.strictObject({
  release: z
    .string()
    .regex(LABEL)
    .max(53)
    .optional()
    .describe("The name of the release; the component's own name if not given."),
  namespace: z
    .string()
    .regex(LABEL)
    .max(63)
    .default("default")
    .describe("Where the release lives. It is made if it is not there."),
  values: z
    .record(z.string(), z.unknown())
    .default({})
    .describe("Values for the chart, of any shape."),
  timeoutSeconds: z
    .int()
    .positive()
    .max(3_600)
    .default(300)
    .describe("How long to wait until what was applied is ready, and for each hook."),
  historyMax: z
    .int()
    .positive()
    .max(100)
    .default(10)
    .describe("How many revisions of the release are kept in the cluster."),
  kubeconfig: z
    .string()
    .optional()
    .describe(
      "The path of a kubeconfig file on the install's machine, where the sandbox gives jobs no access to a cluster.",
    ),
});
export type Config = z.infer<typeof Config>;
