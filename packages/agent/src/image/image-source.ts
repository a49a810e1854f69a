// Images for the process runtime, unpacked from a registry by digest.

import { Digest, Failure } from "@exclave/core";
import { createRegistryClient, givenAccess, unpackImage } from "@exclave/oci";
import type { ImageConfig, ImageRef, ImageSource, TreeSeals } from "@exclave/runtime";

export interface RegistryImages {
  /** A directory on the same disk as the images: base layers are linked from there. */
  readonly baseLayers: string;
  readonly seals: TreeSeals;
  /** Told before a base layer that somebody changed is unpacked again. */
  readonly onImageChanged?: ((because: string) => Promise<void>) | undefined;
  /** Where the registry may send us, beside its own origin; anywhere when there are none. */
  readonly origins?: (() => readonly string[]) | undefined;
  /** In PEM: who vouches for it; the machine's roots unless given. */
  readonly ca?: (() => string | undefined) | undefined;
}

export function createRegistryImages(options: RegistryImages): ImageSource {
  const { baseLayers, seals, origins, ca: vendorCa, onImageChanged: onChanged } = options;
  return { unpack };

  async function unpack(
    { registryUrl, repository, digest, token, credential, socket, ca = vendorCa?.() }: ImageRef,
    directory: string,
  ): Promise<ImageConfig> {
    const store = createRegistryClient({
      url: registryUrl,
      origins: origins?.(),
      ca,
      socket,
      ...givenAccess({ token, credential }),
    });
    try {
      const image = Digest.parse(digest);
      const { config } = await unpackImage(store, repository, image, directory, {
        baseLayers: { directory: baseLayers, seals, onChanged },
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
