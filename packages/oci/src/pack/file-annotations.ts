// What layers say about the files in them, in the words of oras.

import type { Digest } from "@exclave/core";
import type { Annotations } from "../content/descriptor.ts";

export const TITLE = "org.opencontainers.image.title";
/** "true" on a layer that is an archive of a directory; without it a layer with a title is a file. */
export const UNPACK = "io.deis.oras.content.unpack";
/** Of the archive before it was compressed. */
const UNPACK_DIGEST = "io.deis.oras.content.digest";

/** A directory without a name of its own: what is in it goes where it is pulled to. */
export function directoryAnnotations(diffId: Digest): Annotations {
  return { [TITLE]: ".", [UNPACK]: "true", [UNPACK_DIGEST]: diffId };
}
