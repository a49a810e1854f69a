// Builds a pinned Go program into the cache, through a small module of its own: `go install` asks for
// version lists that a module proxy may refuse, a build of a required version does not.

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export interface GoTool {
  readonly name: string;
  readonly module: string;
  readonly version: string;
  readonly package: string;
  readonly replace?: readonly string[];
  /** The version under which parts that the module replaces by folders of its own are published. */
  readonly partsVersion?: string;
  /** Variables set when it is linked, such as the version it reports. */
  readonly linkValues?: Readonly<Record<string, string>>;
}

export async function buildGoTool(tool: GoTool, target: string): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "exclave-go-"));
  const go = (...args: readonly string[]) =>
    run("go", [...args], {
      cwd: directory,
      env: {
        ...process.env,
        GOFLAGS: "-mod=mod -buildvcs=false",
        GOTOOLCHAIN: "auto",
        CGO_ENABLED: "0",
      },
      maxBuffer: 64 * 1024 * 1024,
      timeout: 20 * 60_000,
    });
  try {
    await go("mod", "init", "tools.invalid/build");
    await go(
      "mod",
      "edit",
      `-require=${tool.module}@${tool.version}`,
      ...(tool.replace ?? []).map((one) => `-replace=${one}`),
      ...(await publishedParts(tool, go)).map((one) => `-replace=${one}`),
    );
    const built = join(directory, tool.name);
    await go("build", "-trimpath", "-ldflags", linkFlags(tool), "-o", built, tool.package);
    mkdirSync(dirname(target), { recursive: true });
    // Within one directory, so that a half-built program is never found.
    await run("cp", [built, `${target}.new`]);
    renameSync(`${target}.new`, target);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function linkFlags({ linkValues = {} }: GoTool): string {
  const values = Object.entries(linkValues).map(([name, value]) => `-X ${name}=${value}`);
  return ["-s -w", ...values].join(" ");
}

/**
 * Replacements by a module's own folders hold only in its repository. Kubernetes publishes each such folder as a
 * module of its own, in a version that belongs to its own.
 */
async function publishedParts(
  { module, version, partsVersion }: GoTool,
  go: (...args: readonly string[]) => Promise<{ readonly stdout: string }>,
): Promise<string[]> {
  if (partsVersion === undefined) return [];
  const { stdout } = await go("mod", "download", "-json", `${module}@${version}`);
  const { GoMod } = JSON.parse(stdout) as { readonly GoMod: string };
  const folders = readFileSync(GoMod, "utf8").matchAll(/^\s*(\S+) => \.\/\S+$/gm);
  return [...folders].map(([, part]) => `${part}=${part}@${partsVersion}`);
}
