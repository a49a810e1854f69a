// Plain HTTP shows tokens, join secrets and everything else to whoever is on the way. On loopback
// nobody is; anywhere else it needs to be asked for in so many words.

import { Failure } from "../failure.ts";

/** The one name of the wish, as an option (`--insecure-http`) and in the environment. */
export const INSECURE_HTTP_OPTION = "--insecure-http";
export const INSECURE_HTTP_VARIABLE = "EXCLAVE_INSECURE_HTTP";

/** Also a host name as it stands in a URL: `localhost`, `127.0.0.1`, `[::1]`. */
export function isLoopback(host: string): boolean {
  const bare = host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/^::ffff:(?=\d+\.)/, "");
  if (bare === "localhost" || bare.endsWith(".localhost") || bare === "::1") return true;
  return /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(bare);
}

/** Whether talking to this address shows what is said to others. What cannot be read does. */
export function isInTheClear(url: string): boolean {
  if (/^(https|wss):\/\//i.test(url)) return false;
  // A name before an @ is no host, so it is not taken for one.
  const [, host = ""] =
    /^(?:http|ws):\/\/(\[[^\]]*\]|[^/:?#@\\]*)(?::\d*)?(?:[/?#]|$)/i.exec(url) ?? [];
  return !isLoopback(host);
}

/** The variable as people write it. */
export function wantsInsecureHttp(value: string | undefined): boolean {
  return value !== undefined && /^(1|true|yes)$/i.test(value);
}

export function refusePlainHttp(url: string, isAllowed: boolean): void {
  if (isAllowed || !isInTheClear(url)) return;
  throw new Failure(
    "forbidden",
    `${url} is plain HTTP beyond this machine, so tokens and secrets would be sent in the clear; ` +
      `use https, or allow it with ${INSECURE_HTTP_OPTION} (${INSECURE_HTTP_VARIABLE}=1)`,
  );
}

/** For a listener that has no TLS of its own. */
export function refusePlainListener(host: string, isAllowed: boolean): void {
  if (isAllowed || isLoopback(host)) return;
  throw new Failure(
    "forbidden",
    `listening on ${host} would take tokens and secrets in the clear from the network; listen on ` +
      `127.0.0.1 behind a proxy that terminates TLS, or allow it with ${INSECURE_HTTP_OPTION} ` +
      `(${INSECURE_HTTP_VARIABLE}=1)`,
  );
}
