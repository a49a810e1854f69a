// What a person can do about a failure of `exclave oci`: the second line of an error.

import type { Failure } from "@exclave/core";

export interface HintFacts {
  /** Files that were looked into for credentials. */
  readonly credentialFiles: readonly string[];
  /** Where temporary files go. */
  readonly temporaryDirectory: string;
}

export function hintFor(failure: Failure, facts: HintFacts): string | undefined {
  switch (failure.code) {
    case "unauthenticated":
    case "forbidden": {
      const files = facts.credentialFiles.join(", ");
      return `credentials were looked for in ${files}; \`docker login\` or \`skopeo login\` leaves them there`;
    }
    case "unavailable":
      return hintForNetwork(codeOf(failure.cause));
    case "invalid":
      return isPlainAnswer(failure) ? hintForNetwork("ECONNRESET") : undefined;
    case "disk_full":
      // The registry's own disk is not for us to tell about.
      if (failure.details["status"] !== undefined) return undefined;
      return `make room where it goes, or in ${facts.temporaryDirectory}, where it is put together; TMPDIR names another place`;
    default:
      return undefined;
  }
}

function hintForNetwork(code: string): string | undefined {
  if (UNKNOWN_ISSUER.test(code)) {
    return "--ca FILE names certificates that vouch for the registry";
  }
  if (NO_TLS.test(code)) {
    return "if the registry speaks plain HTTP, write http:// before its name, or --plain-http for all of them";
  }
  if (code === "ECONNRESET") {
    return "if this was plain HTTP and the registry wants TLS, write https:// before its name";
  }
  return undefined;
}

const UNKNOWN_ISSUER = /SELF_SIGNED_CERT|UNABLE_TO_(?:VERIFY|GET_ISSUER)|CERT_UNTRUSTED/;
const NO_TLS = /^EPROTO$|^ERR_SSL_/;

/** Servers with TLS say 400 to what is not TLS, and not in the words of a registry. */
function isPlainAnswer({ details }: Failure): boolean {
  return details["status"] === 400 && details["registryCode"] === undefined;
}

function codeOf(cause: unknown): string {
  return (cause as NodeJS.ErrnoException | undefined)?.code ?? "";
}
