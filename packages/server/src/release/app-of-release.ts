// An app's configuration as a checked value, or every problem in it at once.

import { type AppConfig, Failure, type ParsedApp, parseApp } from "@exclave/core";
import type { ReleaseRow } from "../store/rows.ts";

/** The app, if nothing is wrong with it; `file` is how problems name it. */
export function checkedApp({ app, problems }: ParsedApp, file: string): AppConfig {
  if (app && problems.length === 0) return app;
  const [first] = problems;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  const place = first ? `${first.file}:${first.line}:${first.column}: ${first.message}` : file;
  throw new Failure("invalid", `${place}${more}`, { details: { problems } });
}

/** Those that installs are on and go to; older ones are read again when somebody asks. */
const KNOWN_MAX = 200;

/** A release never changes, so it is read once. */
export function createAppReader(): (release: ReleaseRow) => AppConfig {
  const known = new Map<string, AppConfig>();
  return (release) => {
    const { id, config, file } = release;
    const plugins = release.plugins.map(({ descriptor }) => descriptor);
    const app = known.get(id) ?? checkedApp(parseApp(config, { file, plugins }), file);
    known.delete(id);
    known.set(id, app);
    const [oldest] = known.keys();
    if (known.size > KNOWN_MAX && oldest !== undefined) known.delete(oldest);
    return app;
  };
}
