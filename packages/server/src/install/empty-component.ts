import { emptyComponentRecord, type InstallId } from "@exclave/core";
import type { ComponentRow } from "../store/rows.ts";

export function emptyComponent(install: InstallId, name: string, type: string): ComponentRow {
  return { ...emptyComponentRecord(type), install, name, watchAskedAt: null };
}
