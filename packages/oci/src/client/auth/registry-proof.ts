// Who asks, as a header of each request. It is for the registry alone, not for the storage it may send us to.

import type { IncomingMessage } from "node:http";
import { createRegistryAuthorizer, type RegistryAuthorizerOptions } from "./registry-auth.ts";
import { scopeOf } from "./scope.ts";

/** The header that says who asks, if any. */
export type Proof = { readonly authorization?: string };

export interface RegistryProofs {
  of(url: URL, method: string): Promise<Proof>;
  /** After a 401: whether there is another proof to send. */
  renew(refused: Refused): Promise<boolean>;
}

interface Refused {
  readonly response: IncomingMessage;
  readonly url: URL;
  readonly method: string;
  readonly proof: Proof;
  readonly signal?: AbortSignal | undefined;
}

export function createRegistryProofs(options: RegistryAuthorizerOptions): RegistryProofs {
  const { base } = options;
  const authorizer = createRegistryAuthorizer(options);

  return {
    async of(url, method) {
      if (url.origin !== base.origin) return {};
      const header = await authorizer.header(scopeOf(method, url));
      return header === undefined ? {} : { authorization: header };
    },

    async renew({ response, url, method, proof, signal }) {
      if (url.origin !== base.origin) return false;
      const wanted = response.headers["www-authenticate"];
      const sent = proof.authorization;
      return authorizer.challenged({ wanted, scope: scopeOf(method, url), sent, signal });
    },
  };
}
