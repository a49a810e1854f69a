// The files of a change of authority, beside `ca.pem` and `ca.crt`: `ca-old.crt`, the authority before, and
// `ca-cross.crt`, the current one's key signed by it. A crash at any moment leaves the old pair or the new one.

import { type KeyObject, X509Certificate } from "node:crypto";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "@exclave/core";
import { readIfThere, syncDirectory, writeDurably } from "@exclave/machine";

export interface NextAuthority {
  readonly privateKey: KeyObject;
  /** By itself. */
  readonly certificate: X509Certificate;
  /** Of the same key, by the authority before it. */
  readonly cross: X509Certificate;
}

export interface OldAuthority {
  readonly certificate: X509Certificate;
  readonly cross: X509Certificate;
}

const filesIn = (keys: string) => ({
  key: join(keys, "ca.pem"),
  certificate: join(keys, "ca.crt"),
  nextKey: join(keys, "ca-next.pem"),
  nextCertificate: join(keys, "ca-next.crt"),
  old: join(keys, "ca-old.crt"),
  cross: join(keys, "ca-cross.crt"),
});

export async function writeRotation(keys: string, next: NextAuthority): Promise<void> {
  const files = filesIn(keys);
  const key = next.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  await writeDurably(files.nextKey, key);
  await writeDurably(files.cross, next.cross.toString());
  // From here on the new one is meant: whatever follows is done again at the next start.
  await writeDurably(files.nextCertificate, next.certificate.toString());
  await finishRotation(keys);
}

export async function finishRotation(keys: string): Promise<void> {
  const files = filesIn(keys);
  const next = await readIfThere(files.nextCertificate);
  if (next === undefined) return rm(files.nextKey, { force: true });
  const before = await readIfThere(files.certificate);
  if (before !== undefined && before !== next) await writeDurably(files.old, before);
  if ((await readIfThere(files.nextKey)) !== undefined) {
    // The key of the old one goes here: nothing is issued by it any more.
    await rename(files.nextKey, files.key);
    await syncDirectory(keys);
  }
  await writeDurably(files.certificate, next);
  await rm(files.nextCertificate);
}

export async function openOld(keys: string): Promise<OldAuthority | undefined> {
  const files = filesIn(keys);
  const [old, cross] = await Promise.all([readIfThere(files.old), readIfThere(files.cross)]);
  if (old === undefined || cross === undefined) return undefined;
  try {
    return { certificate: new X509Certificate(old), cross: new X509Certificate(cross) };
  } catch (cause) {
    const message = `${files.old} and ${files.cross} are not certificates in PEM`;
    throw new Failure("invalid", message, { cause });
  }
}

export async function removeOld(keys: string): Promise<void> {
  const files = filesIn(keys);
  // Without the cross certificate the old one is not looked at.
  await rm(files.cross, { force: true });
  await rm(files.old, { force: true });
}
