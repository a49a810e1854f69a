// What the engine is asked to make of a service.

import { posix } from "node:path";
import { Failure } from "@exclave/plugin-sdk";
import { type Context, FILES_PATH, JOB_USER } from "./service-context.ts";

const DATA_PATH = "/state/data";
const MIB = 1024 ** 2;

export function serviceOrder(
  context: Context,
  made: {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly port: number;
  },
): object {
  const { config, engine, component } = context;
  return {
    Image: engine.image,
    User: `${JOB_USER.uid}:${JOB_USER.gid}`,
    WorkingDir: workingDirectory(config.workingDirectory),
    // Its own program, not the plugin's that the image starts with.
    Entrypoint: [config.command[0]],
    Cmd: config.command.slice(1),
    Env: environmentOf(context, made.port),
    Labels: made.labels,
    StopTimeout: config.stopSeconds,
    HostConfig: {
      NetworkMode: engine.network,
      ReadonlyRootfs: true,
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      Init: true,
      RestartPolicy: { Name: "always" },
      PidsLimit: 1_024,
      Ulimits: [
        { Name: "nofile", Soft: 16_384, Hard: 16_384 },
        { Name: "nproc", Soft: 32_768, Hard: 32_768 },
      ],
      Tmpfs: { "/tmp": `rw,nosuid,nodev,mode=1777,size=${64 * MIB}` },
      Mounts: [
        { Type: "volume", Source: made.name, Target: FILES_PATH, ReadOnly: true },
        { Type: "volume", Source: `${engine.owner}-state-${component}`, Target: "/state" },
      ],
    },
  };
}

function workingDirectory(inside: string): string {
  const path = posix.join(FILES_PATH, inside);
  if (path === FILES_PATH || path.startsWith(`${FILES_PATH}/`)) return path;
  throw new Failure("invalid", "workingDirectory is outside the component's files");
}

function environmentOf({ config, install, component }: Context, port: number): string[] {
  const given = Object.entries(config.environment).map(([key, value]) => [key, String(value)]);
  const all = {
    HOME: DATA_PATH,
    TMPDIR: "/tmp",
    EXCLAVE_INSTALL: install,
    EXCLAVE_COMPONENT: component,
    EXCLAVE_DATA_DIR: DATA_PATH,
    ...Object.fromEntries(given),
    PORT: String(port),
  };
  return Object.entries(all).map(([key, value]) => `${key}=${String(value)}`);
}
