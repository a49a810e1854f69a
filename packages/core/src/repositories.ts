// Where things lie in the vendor's registry, and by the same names in every install's own. Apps are
// told apart by id: a name that is used again finds nothing of the app that had it before.

import { z } from "zod";
import type { AppId } from "./ids.ts";

/** Path components as the distribution specification has them. */
const REPOSITORY =
  /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$/;
export const RepositoryName = z.string().max(255).regex(REPOSITORY);

/** The index of each release of an app. */
export function releaseRepository(app: AppId): string {
  return `releases/${app}`;
}

/** What was built of a component. */
export function componentRepository(app: AppId, component: string): string {
  return `apps/${app}/${component}`;
}

/** A plugin the app brings itself. */
export function ownPluginRepository(app: AppId, type: string): string {
  return `plugins/${app}/${type}`;
}
