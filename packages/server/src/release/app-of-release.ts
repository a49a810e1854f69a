// An app's configuration as a checked value, or every problem in it at once.

import { type AppConfig, Failure, type PluginDescriptor, parseApp } from "@exclave/core";
import type { ReleaseRow } from "../store/rows.ts";

export function checkedApp(
  text: string,
  { file, plugins }: { readonly file: string; readonly plugins: readonly PluginDescriptor[] },
): AppConfig {
  const { app, problems } = parseApp(text, { file, plugins });
  if (app && problems.length === 0) return app;
  const [first] = problems;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  const place = first ? `${first.file}:${first.line}:${first.column}: ${first.message}` : file;
  throw new Failure("invalid", `${place}${more}`, { details: { problems } });
}

/** A release never changes, so it is read once. */
export function createAppReader(): (release: ReleaseRow) => AppConfig {
  const known = new Map<string, AppConfig>();
  return (release) => {
    const app =
      known.get(release.id) ??
      checkedApp(release.config, {
        file: release.file,
        plugins: release.plugins.map(({ descriptor }) => descriptor),
      });
    known.set(release.id, app);
    return app;
  };
}
