// An install by the name or the id somebody gave.

import { Failure } from "@exclave/core";
import type { InstallRow } from "../store/rows.ts";
import { type Readers } from "../store/store.ts";

/** People say an install's name, or its id where they want to be exact. */
export async function knownInstall(
  { installs }: Pick<Readers, "installs">,
  ref: string,
): Promise<InstallRow> {
  const install = (await installs.get(ref)) ?? (await installs.byName(ref));
  if (!install) throw new Failure("not_found", `there is no install ${ref}`);
  return install;
}
