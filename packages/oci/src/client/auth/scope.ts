// What a request needs to be allowed to do.

export interface Scope {
  readonly repository: string;
  readonly action: "pull" | "push";
  /** A second repository, from which a blob is mounted. */
  readonly mountFrom?: string | undefined;
}

/** Undefined for a path that is about no repository. */
export function scopeOf(method: string, url: URL): Scope | undefined {
  const repository = /^\/v2\/(.+)\/(?:blobs|manifests|tags|referrers)\//.exec(url.pathname)?.[1];
  if (repository === undefined) return undefined;
  const action = method === "GET" || method === "HEAD" ? "pull" : "push";
  const isUpload = url.pathname.includes("/blobs/uploads/");
  const mountFrom = url.searchParams.get("from") ?? undefined;
  return { repository, action: isUpload ? "push" : action, mountFrom };
}
