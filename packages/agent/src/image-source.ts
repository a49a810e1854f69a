// Images for the process runtime, unpacked from a registry by digest.

import { Digest, Failure } from "@exclave/core";
import { createRegistryClient, givenAccess, unpackImage } from "@exclave/oci";
import type { ImageConfig, ImageRef, ImageSource } from "@exclave/runtime";

/** `baseLayers` is a directory on the same disk as the images: base layers are linked from there. */
export function createRegistryImages({ baseLayers }: { readonly baseLayers: string }): ImageSource {
  return { unpack };

  async function unpack(
    { registryUrl, repository, digest, token, credential }: ImageRef,
    directory: string,
  ): Promise<ImageConfig> {
    const store = createRegistryClient({ url: registryUrl, ...givenAccess({ token, credential }) });
    try {
      const image = Digest.parse(digest);
      const { config } = await unpackImage(store, repository, image, directory, {
        baseLayers,
      });
      const { Entrypoint, Cmd, Env, WorkingDir } = config.config;
      return {
        entrypoint: Entrypoint ?? [],
        cmd: Cmd ?? [],
        env: Env ?? [],
        ...(WorkingDir ? { workingDir: WorkingDir } : {}),
      };
    } catch (cause) {
      if (cause instanceof Failure) throw cause;
      throw new Failure("unavailable", `cannot unpack ${repository}@${digest}`, { cause });
    } finally {
      store.close();
    }
  }
}
