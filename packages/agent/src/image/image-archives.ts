// Images for a container engine, read from the install's registry and streamed as the archive that `docker load`
// reads. Every blob is checked against its digest on the way: an engine that is handed a damaged one is cut off
// before it has all of it.

import { Digest, Failure } from "@exclave/core";
import {
  createRegistryClient,
  givenAccess,
  readImage,
  type TarEntry,
  verified,
  writeTar,
} from "@exclave/oci";
import type { ImageRef } from "@exclave/runtime";
import type { ImageArchive, ImageArchives } from "@exclave/runtime/podman";

export function createImageArchives(): ImageArchives {
  return { open };

  async function open(ref: ImageRef): Promise<ImageArchive> {
    const { registryUrl: url, repository, token, credential, ca, socket } = ref;
    const store = createRegistryClient({ url, ca, socket, ...givenAccess({ token, credential }) });
    try {
      const { manifest } = await readImage(store, repository, Digest.parse(ref.digest));
      return {
        id: manifest.config.digest,
        read: (tag) => writeTar(archiveOf(manifest, tag)),
        close: () => store.close(),
      };
    } catch (cause) {
      store.close();
      if (cause instanceof Failure) throw cause;
      throw new Failure("unavailable", `cannot read ${repository}@${ref.digest}`, { cause });
    }

    function archiveOf({ config, layers }: Manifest, tag: string): TarEntry[] {
      const unique = new Map(layers.map((layer) => [layer.digest, layer]));
      const list = Buffer.from(
        JSON.stringify([{ Config: nameOf(config), RepoTags: [tag], Layers: layers.map(nameOf) }]),
      );
      return [
        file("manifest.json", list.length, async function* () {
          yield list;
        }),
        blob(config),
        ...[...unique.values()].map(blob),
      ];
    }

    function blob(descriptor: Descriptor): TarEntry {
      return file(nameOf(descriptor), descriptor.size, () =>
        verified(store.readBlob(repository, descriptor.digest), descriptor),
      );
    }
  }
}

type Manifest = Awaited<ReturnType<typeof readImage>>["manifest"];
type Descriptor = Manifest["config"];

function file(path: string, size: number, open: () => AsyncIterable<Uint8Array>): TarEntry {
  return { type: "file", path, mode: 0o644, size, open };
}

/** By digest and with no folder: both engines take layers as they were compressed. */
function nameOf({ digest }: Pick<Descriptor, "digest">): string {
  return digest.replace(":", "-");
}
