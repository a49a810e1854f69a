// What a kubernetes component can say of itself in exclave.yaml.

import { z } from "@exclave/plugin-sdk";

export const Config = z.strictObject({
  namespace: z
    .string()
    .regex(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/)
    .max(63)
    .default("default")
    .describe("Where objects go that name no namespace. It is made if it is not there."),
  path: z
    .string()
    .optional()
    .describe(
      "A directory in the source with the manifests or the kustomization; its top if not given.",
    ),
  variables: z
    .record(
      z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/),
      z.union([z.string(), z.number(), z.boolean()]),
    )
    .default({})
    .describe("Values for ${NAME} in the texts of the manifests."),
  adopt: z
    .boolean()
    .default(false)
    .describe("Whether objects that are in the cluster already become this component's own."),
  timeoutSeconds: z
    .int()
    .positive()
    .max(3_600)
    .default(300)
    .describe("How long to wait until what was applied is ready."),
  kubeconfig: z
    .string()
    .optional()
    .describe(
      "The path of a kubeconfig file on the install's machine, where the sandbox gives jobs no access to a cluster.",
    ),
});
export type Config = z.infer<typeof Config>;
