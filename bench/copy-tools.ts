// Tools that copy an image from registry to registry: ours and its peers, each as a process of its
// own, so that starting is part of the time for all of them.

import { join } from "node:path";
import { build } from "esbuild";
import { findProgram, versionOf } from "./programs.ts";

export interface CopyTool {
  readonly name: string;
  readonly version: string;
  readonly file: string;
  args(from: string, to: string, access: { readonly ca?: string | undefined }): readonly string[];
}

const ROOT = join(import.meta.dirname, "..");

/** Bundled the way programs are shipped. */
export async function ourCopyTool(directory: string): Promise<CopyTool> {
  const bundle = join(directory, "oci.mjs");
  await build({
    entryPoints: [join(ROOT, "packages/oci/src/programs/oci-main.ts")],
    outfile: bundle,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node24",
    minify: true,
    logLevel: "error",
  });
  return {
    name: "exclave",
    version: "",
    file: process.execPath,
    args: (from, to, { ca }) => [
      bundle,
      "copy",
      // On loopback it speaks plain HTTP unless told otherwise.
      ...[from, to].map((reference) => (ca === undefined ? reference : `https://${reference}`)),
      "--no-referrers",
      "-o",
      "json",
      ...(ca === undefined ? [] : ["--ca", ca]),
    ],
  };
}

export function peerCopyTools(): CopyTool[] {
  return [
    peer("skopeo", ["--version"], (from, to) => [
      "--insecure-policy",
      "copy",
      "--src-tls-verify=false",
      "--dest-tls-verify=false",
      "--quiet",
      `docker://${from}`,
      `docker://${to}`,
    ]),
    peer("crane", ["version"], (from, to) => ["copy", "--insecure", from, to]),
    peer("oras", ["version"], (from, to, { ca }) => [
      "cp",
      "--no-tty",
      // As many at once as the others; it leaves checking the bytes to the destination.
      "--concurrency=6",
      ...(ca === undefined
        ? ["--from-plain-http", "--to-plain-http"]
        : ["--from-ca-file", ca, "--to-ca-file", ca]),
      from,
      to,
    ]),
  ].filter((tool) => tool !== undefined);
}

function peer(
  name: string,
  versionArgs: readonly string[],
  args: CopyTool["args"],
): CopyTool | undefined {
  const file = findProgram(name);
  return file === undefined
    ? undefined
    : { name, version: versionOf(file, versionArgs), file, args };
}
