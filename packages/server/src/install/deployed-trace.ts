// What an apply of a known release would have left, for one whose record was lost with a backup.

import { type AppConfig, type Deployed, deployedBy, deployKey } from "@exclave/core";
import type { InstallRow, ReleaseRow } from "../store/rows.ts";
import { wantedComponents } from "./gather-install.ts";

export function traceFromRelease(
  install: InstallRow,
  release: ReleaseRow,
  app: AppConfig,
  component: string,
): Deployed | undefined {
  const want = wantedComponents(install, release, app).find(({ name }) => name === component);
  if (!want) return undefined;
  const { repair: _, ...there } = want;
  const key = deployKey(want, new Map());
  const because = "its agent applied it";
  const step = { ...there, kind: "apply", component: want.name, deployKey: key, because } as const;
  return deployedBy(step, { there: null, release, app, inputs: install.inputs });
}
