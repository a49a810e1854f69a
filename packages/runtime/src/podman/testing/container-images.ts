// Images made from nothing for tests: one static busybox, and a program that does what a script says.

import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { Failure, type TarEntry, writeTar } from "@exclave/core";
import type { ImageRef } from "../../job-runtime.ts";
import { type JobScript, programText } from "../../testing/job-script.ts";
import type { ImageArchives } from "../engine-images.ts";

export interface ContainerImages extends ImageArchives {
  put(script: JobScript): ImageRef;
  /** How often an image was read, and not only looked up. */
  readonly reads: () => number;
}

const APPLETS =
  "awk cat grep dd echo env false head id kill ls mkdir mount nc ping printf pwd rm sh sleep stat tail touch tr true wget";

export function createContainerImages(): ContainerImages {
  const images = new Map<string, { id: string; config: Buffer; layer: Uint8Array }>();
  let reads = 0;
  return { put, open, reads: () => reads };

  function put(script: JobScript): ImageRef {
    const layer = writeTar([...busybox(), program(script)]);
    const rootfs = { type: "layers", diff_ids: [`sha256:${sha256(layer)}`] };
    const architecture = process.arch === "arm64" ? "arm64" : "amd64";
    const config = Buffer.from(
      JSON.stringify({ architecture, os: "linux", config: { Entrypoint: ["/program"] }, rootfs }),
    );
    const id = `sha256:${sha256(config)}`;
    const digest = `sha256:${sha256(Buffer.from(`manifest of ${id}`))}`;
    images.set(digest, { id, config, layer });
    return { registryUrl: "memory://", repository: "tests/script", digest };
  }

  async function open({ digest }: ImageRef) {
    const image = images.get(digest);
    if (!image) throw new Failure("not_synced", `${digest} is not in the store`);
    const { id, config, layer } = image;
    return {
      id,
      async *read(tag: string) {
        reads += 1;
        const manifest = [{ Config: "config.json", RepoTags: [tag], Layers: ["layer.tar"] }];
        yield writeTar([
          file("manifest.json", Buffer.from(JSON.stringify(manifest)), 0o644),
          file("config.json", config, 0o644),
          file("layer.tar", layer, 0o644),
        ]);
      },
      close() {},
    };
  }
}

function program(script: JobScript): TarEntry {
  return file("program", Buffer.from(programText(script)), 0o755);
}

function busybox(): TarEntry[] {
  const directories = (process.env.PATH ?? "").split(delimiter);
  const path = [...directories, "/usr/bin", "/bin"]
    .map((at) => join(at, "busybox"))
    .find(existsSync);
  if (path === undefined) throw new Error("there is no busybox on this machine");
  return [
    file("bin/busybox", readFileSync(path), 0o755),
    ...APPLETS.split(" ").map(
      (name): TarEntry => ({ type: "symlink", path: `bin/${name}`, target: "busybox" }),
    ),
  ];
}

function file(path: string, bytes: Uint8Array, mode: number): TarEntry {
  return { type: "file", path, mode, bytes };
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
