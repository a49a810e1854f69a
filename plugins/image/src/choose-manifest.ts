// Picks the one image that is meant from the index of an OCI layout.

import { Failure, z } from "@exclave/plugin-sdk";

const REF_NAME = "org.opencontainers.image.ref.name";

const Index = z.object({
  manifests: z.array(
    z.object({ digest: z.string(), annotations: z.record(z.string(), z.string()).optional() }),
  ),
});

export function chooseManifest(index: string, reference: string | undefined): string {
  const entries = parseIndex(index).map(({ digest, annotations }) => ({
    digest,
    name: annotations?.[REF_NAME],
  }));
  const meant =
    reference === undefined
      ? entries
      : entries.filter(({ digest, name }) => digest === reference || name === reference);
  const digests = [...new Set(meant.map(({ digest }) => digest))];
  const [digest] = digests;
  if (digest !== undefined && digests.length === 1) return digest;

  const there = entries.map(({ digest, name }) => name ?? digest).join(", ") || "nothing";
  throw new Failure(
    "invalid",
    reference === undefined
      ? `say by \`reference\` which image is meant; the layout holds ${there}`
      : `the layout holds no single image ${JSON.stringify(reference)}; it holds ${there}`,
  );
}

function parseIndex(text: string): z.infer<typeof Index>["manifests"] {
  try {
    return Index.parse(JSON.parse(text)).manifests;
  } catch (cause) {
    throw new Failure("invalid", "index.json of the OCI layout is not an OCI index", { cause });
  }
}
