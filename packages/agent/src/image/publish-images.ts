// Brings the images this program was shipped with into the vendor's registry: the runner, the
// built-in plugins, the sandboxes. What is there already costs a question each.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Grant } from "@exclave/api";
import { Digest, Failure } from "@exclave/core";
import { copyArtifact, createLayoutStore, createRegistryClient } from "@exclave/oci";
import { z } from "zod";
import type { PublishedImages } from "../core/agent-state.ts";

const ShippedImages = z.array(
  z.object({
    name: z.string(),
    kind: z.enum(["runner", "plugin", "sandbox"]),
    repository: z.string(),
    digest: Digest,
    descriptor: z.unknown().optional(),
  }),
);

export async function publishImages(
  directory: string,
  grant: Grant,
  { origins, ca }: { readonly origins: readonly string[]; readonly ca?: string | undefined },
): Promise<PublishedImages> {
  const images = await readShippedImages(directory);
  const from = createLayoutStore({ directory });
  const to = createRegistryClient({ url: grant.registryUrl, token: grant.token, origins, ca });
  try {
    for (const { repository, digest } of images) {
      // Most of an image is the runner it stands on: that is mounted, not sent again.
      await copyArtifact({
        from,
        to,
        source: { repository, digest },
        target: { repository },
        mountFrom: images.filter(({ kind }) => kind === "runner").map((image) => image.repository),
      });
    }
  } finally {
    to.close();
  }
  return images;
}

export async function readShippedImages(directory: string): Promise<z.infer<typeof ShippedImages>> {
  const path = join(directory, "images.json");
  try {
    return ShippedImages.parse(JSON.parse(await readFile(path, "utf8")));
  } catch (cause) {
    throw new Failure("invalid", `${path} is no list of images`, { cause });
  }
}
