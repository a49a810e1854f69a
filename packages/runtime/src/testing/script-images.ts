// A store of images on disk, each one executable file: enough to hand a runtime something to run.

import { createHash } from "node:crypto";
import { chmod, copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "@exclave/core";
import type { ImageRef } from "../job-runtime.ts";
import type { ImageConfig, ImageSource } from "../process/image-cache.ts";
import { type JobScript, programText } from "./job-script.ts";

export interface ScriptImages extends ImageSource {
  put(script: JobScript): Promise<ImageRef>;
}

export function createScriptImages(directory: string): ScriptImages {
  return { put, unpack };

  async function put(script: JobScript): Promise<ImageRef> {
    const text = programText(script);
    const hex = createHash("sha256").update(text).digest("hex");
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, hex), text);
    return { registryUrl: "memory://", repository: "tests/script", digest: `sha256:${hex}` };
  }

  async function unpack(ref: ImageRef, root: string): Promise<ImageConfig> {
    const program = join(root, "program");
    try {
      await copyFile(join(directory, ref.digest.slice("sha256:".length)), program);
    } catch (cause) {
      throw new Failure("not_synced", `${ref.digest} is not in the store`, { cause });
    }
    await chmod(program, 0o755);
    return { entrypoint: ["/program"], cmd: [], env: [] };
  }
}
