// Where things lie in the vendor's registry, and by the same names in every install's own.

/** The index of each release of an app. */
export function releaseRepository(app: string): string {
  return `releases/${app}`;
}

/** What was built of a component. */
export function componentRepository(app: string, component: string): string {
  return `apps/${app}/${component}`;
}
