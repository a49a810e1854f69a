// Builds a pinned Go program into the cache, through a small module of its own: `go install` asks for
// version lists that a module proxy may refuse, a build of a required version does not.

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
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
    );
    const built = join(directory, tool.name);
    await go("build", "-trimpath", "-ldflags", "-s -w", "-o", built, tool.package);
    mkdirSync(dirname(target), { recursive: true });
    // Within one directory, so that a half-built program is never found.
    await run("cp", [built, `${target}.new`]);
    renameSync(`${target}.new`, target);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
