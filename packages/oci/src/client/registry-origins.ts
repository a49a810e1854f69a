// Where a registry may send us, for content and for tokens: to its own origin and to those that were named.

import { Failure } from "@exclave/core";

/** Anywhere when no origins were named. */
export function mayGoTo(url: URL, base: URL, origins: readonly string[] | undefined): boolean {
  return origins === undefined || url.origin === base.origin || origins.includes(url.origin);
}

/** The address an answer names, if this registry may send us there. */
export function followLocation(
  location: string,
  from: URL,
  { base, origins }: { readonly base: URL; readonly origins: readonly string[] | undefined },
): URL {
  const url = redirected(location, from);
  if (mayGoTo(url, base, origins)) return url;
  throw new Failure(
    "forbidden",
    `${base.host} sends us to ${url.origin}, which is not the vendor's`,
  );
}

/** An address that HTTP can be spoken to, or the answer is a broken one. */
function redirected(location: string, from: URL): URL {
  const url = URL.canParse(location, from.href) ? new URL(location, from) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  throw new Failure("unavailable", `${from.host} names an address that is none`);
}
