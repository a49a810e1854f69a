/** A version may hold a plus sign, a tag may not; Helm and OpenTofu both write an underscore. */
export function tagOfVersion(version: string): string {
  return version.replaceAll("+", "_");
}
