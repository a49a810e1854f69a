// The server as its own certificate authority. Its key is made when TLS is first asked for, beside the
// other keys, or was put there before: `keys/ca.pem` and `keys/ca.crt`.

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  X509Certificate,
} from "node:crypto";
import { join } from "node:path";
import { Failure } from "@exclave/core";
import { caFingerprint, makeCertificate, readIfThere, writeDurably } from "@exclave/machine";
import {
  finishRotation,
  type NextAuthority,
  openOld,
  removeOld,
  writeRotation,
} from "./authority-files.ts";

const DAY_MS = 86_400_000;
const AUTHORITY_DAYS = 3_650;
export const SERVER_CERTIFICATE_MS = 90 * DAY_MS;
/** The other side's clock may be behind ours by so much. */
const BACKDATED_MS = 5 * 60_000;

export interface IssuedServer {
  readonly certificate: X509Certificate;
  readonly privateKey: KeyObject;
}

export interface Authority {
  readonly certificate: X509Certificate;
  /** The one it replaces, while agents and people learn of this one. */
  readonly old: X509Certificate | undefined;
  /** Shown beside the server's certificate, so that whoever pinned either of them finds a way to it. */
  shown(): X509Certificate[];
  /** Those whose certificates count. */
  trusted(): X509Certificate[];
  /** Makes one to take the place of this one; nothing is written yet. */
  makeNext(): NextAuthority;
  /** From now on that one issues, and this one is the old one. */
  take(next: NextAuthority): Promise<void>;
  /** The old one counts no more. */
  retireOld(): Promise<void>;
  /** Reads what another server has changed; whether it did. */
  refresh(): Promise<boolean>;
  /** What a join string pins: sha256 of its public key. */
  readonly fingerprint: string;
  /** A certificate of a new key, for these host names and addresses. */
  issueServer(hosts: readonly string[]): IssuedServer;
  /** A certificate of the agent's own key, which says whose it is. */
  issueAgent(about: AgentOfCertificate, until: number): X509Certificate;
}

export interface AgentOfCertificate {
  /** For people to read. */
  readonly name: string;
  /** Whose it is: `agentUri`. */
  readonly uri: string;
  readonly key: KeyObject;
}

export interface AuthorityOptions {
  /** The directory of the server's keys. */
  readonly keys: string;
  readonly now: () => number;
}

export async function openAuthority({ keys, now }: AuthorityOptions): Promise<Authority> {
  const files = { key: join(keys, "ca.pem"), certificate: join(keys, "ca.crt") };
  await finishRotation(keys);
  let held = await openFiles(files, now());
  let old = await openOld(keys);
  return {
    get certificate() {
      return held.certificate;
    },
    get fingerprint() {
      return caFingerprint(held.certificate);
    },
    get old() {
      return old?.certificate;
    },
    // The cross certificate first: it is the one that leads to the old authority.
    shown: () => [...(old ? [old.cross] : []), held.certificate, ...(old ? [old.certificate] : [])],
    trusted: () => [held.certificate, ...(old ? [old.certificate] : [])],
    makeNext: () => makeNext(held, now()),
    async take(next) {
      await writeRotation(keys, next);
      old = { cross: next.cross, certificate: held.certificate };
      held = next;
    },
    async retireOld() {
      await removeOld(keys);
      old = undefined;
    },
    async refresh() {
      const before = [held.certificate.fingerprint256, old?.certificate.fingerprint256].join();
      const read = { held: await openFiles(files, now()), old: await openOld(keys) };
      const after = [read.held.certificate.fingerprint256, read.old?.certificate.fingerprint256];
      if (before === after.join()) return false;
      ({ held, old } = read);
      return true;
    },
    issueServer(hosts) {
      const pair = generateKeyPairSync("ec", { namedCurve: "P-256" });
      const wish = {
        about: { kind: "server", hosts },
        name: "Exclave server",
        key: pair.publicKey,
        ...validity(now(), SERVER_CERTIFICATE_MS),
      } as const;
      const issued = makeCertificate(wish, held);
      return { certificate: issued, privateKey: pair.privateKey };
    },
    issueAgent({ name, uri, key }, until) {
      const lengthMs = until - now();
      const wish = {
        about: { kind: "agent", uri },
        name,
        key,
        ...validity(now(), lengthMs),
      } as const;
      return makeCertificate(wish, held);
    },
  };
}

interface AuthorityFiles {
  readonly key: string;
  readonly certificate: string;
}

export interface HeldAuthority {
  readonly privateKey: KeyObject;
  readonly certificate: X509Certificate;
}

async function openFiles(files: AuthorityFiles, now: number): Promise<HeldAuthority> {
  const [key, text] = await Promise.all([readIfThere(files.key), readIfThere(files.certificate)]);
  // The key is written first: a crash in between leaves one that has yet to get its certificate.
  if (text === undefined) return makeAuthority(files, key, now);
  if (key === undefined) {
    throw new Failure("invalid", `${files.certificate} is there and its key ${files.key} is not`);
  }
  const held = parseAuthority(files, key, text);
  if (!held.certificate.ca) {
    throw new Failure("invalid", `${files.certificate} is not the certificate of an authority`);
  }
  if (!held.certificate.checkPrivateKey(held.privateKey)) {
    throw new Failure("invalid", `${files.key} is not the key of ${files.certificate}`);
  }
  return held;
}

function parseKey(file: string, key: string): KeyObject {
  try {
    return createPrivateKey(key);
  } catch (cause) {
    throw new Failure("invalid", `${file} does not hold a private key`, { cause });
  }
}

function parseAuthority(files: AuthorityFiles, key: string, text: string): HeldAuthority {
  try {
    return { privateKey: createPrivateKey(key), certificate: new X509Certificate(text) };
  } catch (cause) {
    const message = `${files.key} and ${files.certificate} are not a key and its certificate in PEM`;
    throw new Failure("invalid", message, { cause });
  }
}

/** A new key with a certificate of its own, and one by the authority before it. */
function makeNext(before: HeldAuthority, now: number): NextAuthority {
  const privateKey = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
  const wish = { ...authorityWish(privateKey), ...validity(now, AUTHORITY_DAYS * DAY_MS) };
  const leftMs = before.certificate.validToDate.getTime() - now;
  const crossed = { ...wish, ...validity(now, Math.min(leftMs, AUTHORITY_DAYS * DAY_MS)) };
  return {
    privateKey,
    certificate: makeCertificate(wish, { privateKey }),
    cross: makeCertificate(crossed, before),
  };
}

function authorityWish(privateKey: KeyObject) {
  return {
    about: { kind: "authority" },
    // Two authorities of one name could not be told apart in a list of them.
    name: `Exclave CA ${randomBytes(4).toString("hex")}`,
    key: createPublicKey(privateKey),
  } as const;
}

async function makeAuthority(
  files: AuthorityFiles,
  key: string | undefined,
  now: number,
): Promise<HeldAuthority> {
  const privateKey =
    key === undefined
      ? generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey
      : parseKey(files.key, key);
  const wish = { ...authorityWish(privateKey), ...validity(now, AUTHORITY_DAYS * DAY_MS) };
  const certificate = makeCertificate(wish, { privateKey });
  await writeDurably(files.key, privateKey.export({ type: "pkcs8", format: "pem" }).toString());
  await writeDurably(files.certificate, certificate.toString());
  return { privateKey, certificate };
}

function validity(now: number, lengthMs: number) {
  const serial = randomBytes(16);
  // Positive and never zero in front, so that it has one length for everybody.
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40;
  return { notBefore: now - BACKDATED_MS, notAfter: now + lengthMs, serial };
}
