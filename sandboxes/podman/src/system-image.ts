// The image of gate, registry and agent: the runner's image, which the setup brought, with one more layer that holds
// the programs beside this plugin. Made here as the archive an engine loads, so that nothing is pulled.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure, z } from "@exclave/plugin-sdk";
import { type ArchivedFile, archive, archiveHeader, padding } from "@exclave/plugin-sdk/engine";

const PROGRAMS = ["agent.mjs", "registry.mjs", "gate.mjs"];

const Descriptor = z.object({ digest: z.string().regex(/^sha256:[0-9a-f]{64}$/), size: z.int() });
const Manifest = z.object({ config: Descriptor, layers: z.array(Descriptor) });
const ImageConfig = z.looseObject({
  rootfs: z.looseObject({ diff_ids: z.array(z.string()) }),
});

export interface SystemImage {
  /** The digest of its configuration, by which an engine knows it. */
  readonly id: string;
  read(tag: string): AsyncIterable<Uint8Array>;
}

export async function systemImage(options: {
  /** An OCI layout with the runner's image. */
  readonly layout: string;
  readonly runner: string;
  /** Where the programs lie. */
  readonly programs: string;
}): Promise<SystemImage> {
  const { layout } = options;
  const blobFile = (digest: string) => join(layout, "blobs", ...digest.split(":"));
  const readBlob = async (digest: string) => JSON.parse(await readFile(blobFile(digest), "utf8"));
  const manifest = Manifest.parse(await readBlob(options.runner));
  const below = ImageConfig.parse(await readBlob(manifest.config.digest));
  const layer = await programLayer(options.programs);
  const config = Buffer.from(
    JSON.stringify({
      ...below,
      rootfs: { ...below.rootfs, diff_ids: [...below.rootfs.diff_ids, sha256(layer)] },
    }),
  );
  return { id: sha256(config), read };

  async function* read(tag: string): AsyncIterable<Uint8Array> {
    const names = manifest.layers.map(({ digest }) => digest.replace(":", "-"));
    const list = [{ Config: "config.json", RepoTags: [tag], Layers: [...names, "programs.tar"] }];
    yield archive([
      { path: "manifest.json", mode: 0o644, content: Buffer.from(JSON.stringify(list)) },
      { path: "config.json", mode: 0o644, content: config },
      { path: "programs.tar", mode: 0o644, content: layer },
    ]).subarray(0, -1024);
    const unique = new Map(manifest.layers.map((one) => [one.digest, one.size]));
    for (const [digest, size] of unique) {
      yield archiveHeader({ path: digest.replace(":", "-"), mode: 0o644, size });
      yield* createReadStream(blobFile(digest));
      yield padding(size);
    }
    yield Buffer.alloc(1024);
  }
}

async function programLayer(directory: string): Promise<Buffer> {
  const files = await Promise.all(
    PROGRAMS.map(async (name): Promise<ArchivedFile> => {
      const content = await readFile(join(directory, name)).catch((cause: unknown) => {
        const message = `the sandbox image does not hold the program ${name}`;
        throw new Failure("plugin", message, { cause });
      });
      return { path: `exclave/${name}`, mode: 0o644, content };
    }),
  );
  return archive(files);
}

function sha256(bytes: Uint8Array): string {
  return `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
}
