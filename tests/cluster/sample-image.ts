// An image made here, because a test cluster can pull none: one static program on an empty root. It is the
// image of every test pod and of the container that holds a pod's namespaces.

import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, copyFile, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { createLayoutStore, packImage, writeLayoutArchive } from "@exclave/oci";
import { TOOLS_CACHE } from "../../tools/test-tools/provide.ts";

const run = promisify(execFile);
const SOURCE = join(import.meta.dirname, "sample/main.go");

const REPOSITORY = "exclave.test/sample";
/** As pods name it. Two tags of one image, so that a change of image needs no second one. */
export const SAMPLE_TAGS = ["1", "2"] as const;
export const SAMPLE_IMAGE = `${REPOSITORY}:1`;

/** An archive that `ctr images import` reads. */
export async function writeSampleImage(directory: string): Promise<string> {
  const layers = join(directory, "sample-root");
  await mkdir(layers, { recursive: true });
  await copyFile(await buildSample(), join(layers, "sample"));
  await chmod(join(layers, "sample"), 0o755);

  const layout = join(directory, "sample-layout");
  const store = createLayoutStore({ directory: layout });
  for (const tag of SAMPLE_TAGS) {
    await packImage({
      store,
      repository: REPOSITORY,
      tag,
      layers: [{ directory: layers }],
      config: {
        entrypoint: ["/sample"],
        user: "65532",
        labels: { tag },
        os: "linux",
        architecture: process.arch === "x64" ? "amd64" : process.arch,
      },
    });
  }
  const archive = join(directory, "sample.tar");
  await writeLayoutArchive(layout, archive);
  return archive;
}

/** Built once for each state of its source. */
async function buildSample(): Promise<string> {
  const source = await readFile(SOURCE);
  const name = createHash("sha256").update(source).digest("hex").slice(0, 16);
  const target = join(TOOLS_CACHE, "cluster", `sample-${name}`);
  if (existsSync(target)) return target;

  const directory = await mkdtemp(join(tmpdir(), "exclave-sample-"));
  try {
    await writeFile(join(directory, "main.go"), source);
    await writeFile(join(directory, "go.mod"), "module sample\n\ngo 1.21\n");
    const env = { ...process.env, CGO_ENABLED: "0", GOFLAGS: "-buildvcs=false" };
    const args = ["build", "-trimpath", "-ldflags", "-s -w", "-o", "sample", "."];
    await run("go", args, { cwd: directory, env });
    await mkdir(join(TOOLS_CACHE, "cluster"), { recursive: true });
    await copyFile(join(directory, "sample"), `${target}.${process.pid}`);
    await rename(`${target}.${process.pid}`, target);
    return target;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
