// Pushes a small artifact that came whole with the job, byte by byte as it is: the statement of a
// release, made by whoever holds the key and attached by whoever may push.

import { Digest, digestOfBytes, Failure, type JobLine } from "@exclave/core";
import { type ContentStore, writeBlobBytes } from "@exclave/oci";
import { z } from "zod";

const AttachedArtifact = z.object({
  digest: Digest,
  mediaType: z.string(),
  /** As the text they are: a statement is JSON, and twice base64 is much longer. */
  manifest: z.string(),
  blobs: z.array(z.object({ mediaType: z.string(), content: z.string() })),
});

export interface AttachArtifact {
  readonly to: ContentStore;
  readonly repository: string;
  readonly artifact: unknown;
  readonly signal: AbortSignal;
  readonly write: (line: JobLine) => void;
}

export async function attachArtifact(options: AttachArtifact): Promise<void> {
  const { to, repository, signal, write } = options;
  const parsed = AttachedArtifact.safeParse(options.artifact);
  if (!parsed.success) {
    throw new Failure("invalid", "what is to be attached is no artifact", { cause: parsed.error });
  }
  const { digest, mediaType, manifest, blobs } = parsed.data;
  const bytes = Buffer.from(manifest, "utf8");
  if (digestOfBytes(bytes) !== digest) {
    throw new Failure("invalid", `what is to be attached is not ${digest}`);
  }
  for (const { mediaType: type, content } of blobs) {
    await writeBlobBytes(to, repository, type, Buffer.from(content, "utf8"));
  }
  await to.writeManifest(repository, bytes, mediaType, undefined, { signal });
  write({ type: "artifact", name: "statement", repository, digest, sizeBytes: bytes.length });
}
