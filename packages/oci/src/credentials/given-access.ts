// Access that somebody else arranged: a token as it is, or a credential that is only good for getting
// tokens from the registry's token service, again whenever one has ended.

import type { Credentials } from "../client/auth/credential.ts";

export interface GivenAccess {
  readonly token?: string | undefined;
  readonly credential?: string | undefined;
}

/** As options of the registry client. */
export function givenAccess({ token, credential }: GivenAccess): {
  readonly token?: string;
  readonly credentials?: Credentials;
} {
  if (credential !== undefined) {
    return { credentials: async () => ({ kind: "refresh", token: credential }) };
  }
  return token === undefined ? {} : { token };
}
