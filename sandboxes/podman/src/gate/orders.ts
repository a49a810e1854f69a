// What a container, a volume and a command may look like that somebody of an install has made. Strict: a key that is
// not listed is one the engine might obey, so it is refused, whatever it says.

import { z } from "@exclave/plugin-sdk";

const NOT_ROOT = /^[1-9][0-9]{0,9}:[1-9][0-9]{0,9}$/;
const Text = z.string().max(131_072);

const Mount = z.strictObject({
  // A volume of the engine: nothing of the machine's own files.
  Type: z.literal("volume"),
  Source: z.string(),
  Target: z.string(),
  ReadOnly: z.boolean().default(false),
});

const Port = z.strictObject({ HostIp: z.literal("127.0.0.1"), HostPort: z.string() });

export function containerOrder({ network }: { readonly network: string }) {
  return z.strictObject({
    Image: z.string(),
    User: z.string().regex(NOT_ROOT, "has to be UID:GID, and not root's"),
    WorkingDir: z.string().optional(),
    Env: z.array(Text).max(1_024).optional(),
    Labels: z.record(z.string(), Text),
    Entrypoint: z.array(Text).max(1_024).optional(),
    Cmd: z.array(Text).max(1_024).optional(),
    AttachStdin: z.literal(false).optional(),
    OpenStdin: z.literal(false).optional(),
    Tty: z.literal(false).optional(),
    NetworkDisabled: z.boolean().optional(),
    StopTimeout: z.int().optional(),
    ExposedPorts: z.record(z.string(), z.strictObject({})).optional(),
    HostConfig: z.strictObject({
      NetworkMode: z.enum(["none", network]),
      ReadonlyRootfs: z.literal(true),
      CapDrop: z.tuple([z.literal("ALL")]),
      SecurityOpt: z.tuple([z.literal("no-new-privileges")]),
      Privileged: z.literal(false).optional(),
      UsernsMode: z.literal("auto").optional(),
      Init: z.boolean().optional(),
      RestartPolicy: z.strictObject({ Name: z.enum(["no", "always"]) }).optional(),
      AutoRemove: z.literal(false).optional(),
      Memory: z.number().optional(),
      MemorySwap: z.number().optional(),
      PidsLimit: z.number().optional(),
      NanoCpus: z.number().optional(),
      Ulimits: z
        .array(z.strictObject({ Name: z.string(), Soft: z.number(), Hard: z.number() }))
        .optional(),
      Tmpfs: z.strictObject({ "/tmp": z.string() }).optional(),
      PortBindings: z.record(z.string(), z.array(Port)).optional(),
      Mounts: z.array(Mount).max(8).default([]),
    }),
  });
}

/** No driver and no options: those can make a volume of any directory of the machine. */
export const volumeOrder = z.strictObject({
  Name: z.string(),
  Labels: z.record(z.string(), Text),
});

export const execOrder = z.strictObject({
  AttachStdout: z.boolean(),
  AttachStderr: z.boolean(),
  Cmd: z.array(Text).min(1).max(1_024),
  Env: z.array(Text).max(1_024).optional(),
  WorkingDir: z.string().optional(),
});
