// Images for the process runtime, unpacked from a registry by digest.

import { Digest, Failure } from "@exclave/core";
import { createRegistryClient, unpackImage } from "@exclave/oci";
import type { ImageSource } from "@exclave/runtime";

export const registryImages: ImageSource = {
  async unpack({ registryUrl, repository, digest, token }, directory) {
    const store = createRegistryClient({ url: registryUrl, token });
    try {
      const image = Digest.parse(digest);
      const { config } = await unpackImage(store, repository, image, directory);
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
  },
};
