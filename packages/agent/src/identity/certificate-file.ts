// The client certificate this agent shows on the link, as a file of its own: the newest it was given, durable
// before it is used. It is of the identity's key, so there is nothing secret in it.

import { createPrivateKey, X509Certificate } from "node:crypto";
import { Failure } from "@exclave/core";
import { readIfThere, writeDurablySync } from "@exclave/machine";

export interface CertificateFile {
  /** In PEM; undefined while there is none of this agent's key. */
  current(): string | undefined;
  /** Durable when it returns; says when it ends. Throws for one that is not of this agent's key. */
  keep(certificate: string): number;
}

export async function openCertificateFile(
  path: string,
  identityKey: string,
): Promise<CertificateFile> {
  const privateKey = createPrivateKey(identityKey);
  const isMine = (pem: string) => read(pem)?.checkPrivateKey(privateKey) === true;
  const kept = await readIfThere(path);
  // One of an earlier key, or a torn file: the server gives another for the key itself.
  let current = kept !== undefined && isMine(kept) ? kept : undefined;
  return {
    current: () => current,
    keep(pem) {
      const certificate = read(pem);
      if (!certificate || !isMine(pem)) {
        throw new Failure(
          "invalid",
          "the server sent a certificate that is not of this agent's key",
        );
      }
      writeDurablySync(path, pem);
      current = pem;
      return certificate.validToDate.getTime();
    },
  };
}

function read(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}
