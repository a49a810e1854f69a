// Where an entry of an archive may lie, and where a link in it may lead.

import { Failure } from "../failure.ts";

/** The path without `./` and trailing slash; empty for the root. Throws for what leads outside. */
export function checkedPath(path: string): string {
  if (path.startsWith("/") || path.includes("\0") || path.includes("\\")) {
    throw new Failure("invalid", `the archive has an entry at ${JSON.stringify(path)}`);
  }
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) {
    throw new Failure("invalid", `the archive has an entry at ${JSON.stringify(path)}`);
  }
  return parts.join("/");
}

/**
 * A link may climb only before it descends, and not above the root. `a/..` is refused even where it
 * looks harmless: `a` may be a link itself, and then `..` is not where the letters say.
 */
export function checkLink(path: string, target: string): void {
  const parts = target.split("/").filter((part) => part !== "" && part !== ".");
  const climbs = parts.findIndex((part) => part !== "..");
  const up = climbs < 0 ? parts.length : climbs;
  const depth = path.split("/").length - 1;
  const isTrick =
    target === "" ||
    target.startsWith("/") ||
    target.includes("\0") ||
    parts.slice(up).includes("..");
  if (isTrick || up > depth) {
    throw new Failure("invalid", `the archive's link ${path} leads to ${JSON.stringify(target)}`);
  }
}
