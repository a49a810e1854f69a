// What the server's one listener speaks, and with which certificate. Beyond loopback that is TLS 1.3,
// unless somebody said in so many words that a balancer in front of it does.

import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { Failure, isLoopback } from "@exclave/core";
import { caFingerprint } from "@exclave/machine";
import { type Authority, SERVER_CERTIFICATE_MS } from "./authority.ts";

export interface TlsSettings {
  /** TLS on loopback too. */
  readonly isForced?: boolean | undefined;
  /** A certificate that was brought, in PEM, with what it takes to lead to its authority. */
  readonly certificateFile?: string | undefined;
  readonly keyFile?: string | undefined;
  /** The authority that agents are to pin for it; the roots of their machines count otherwise. */
  readonly caFile?: string | undefined;
  /** Something in front of this server terminates TLS, and between the two is a network to be trusted. */
  readonly isBehindBalancer?: boolean | undefined;
}

export interface ListenerWish {
  readonly host: string;
  readonly publicUrl?: string | undefined;
  readonly tls?: TlsSettings | undefined;
  /** Plain HTTP beyond loopback was asked for in so many words. */
  readonly insecureHttp?: boolean | undefined;
}

export type ListenerPlan =
  | { readonly kind: "plain" }
  | { readonly kind: "own" }
  | { readonly kind: "files"; readonly files: CertificateFiles };

export interface CertificateFiles {
  readonly certificate: string;
  readonly key: string;
  readonly ca?: string | undefined;
}

export function planListener(wish: ListenerWish): ListenerPlan {
  const plan = plannedFor(wish);
  if (plan.kind === "plain" || !wish.publicUrl?.startsWith("http://")) return plan;
  const message = `--public-url ${wish.publicUrl} is plain HTTP, and this server speaks TLS`;
  throw new Failure("invalid", message);
}

function plannedFor({ host, publicUrl, tls = {}, insecureHttp }: ListenerWish): ListenerPlan {
  const { certificateFile: certificate, keyFile: key, caFile: ca, isForced } = tls;
  if (certificate !== undefined && key !== undefined) {
    if (tls.isBehindBalancer) throw balancerAndOwn();
    return { kind: "files", files: { certificate, key, ca } };
  }
  if (certificate !== undefined || key !== undefined || ca !== undefined) {
    const message = "--tls-certificate and --tls-key belong together; --tls-ca is said beside them";
    throw new Failure("invalid", message);
  }
  if (tls.isBehindBalancer) {
    if (isForced) throw balancerAndOwn();
    if (publicUrl?.startsWith("https://")) return { kind: "plain" };
    const message =
      "--behind-tls-balancer needs --public-url https://…: that is where the balancer is reached";
    throw new Failure("invalid", message);
  }
  if (isForced) return { kind: "own" };
  return insecureHttp || isLoopback(host) ? { kind: "plain" } : { kind: "own" };
}

function balancerAndOwn(): Failure {
  return new Failure(
    "invalid",
    "a server behind a balancer that terminates TLS has no TLS of its own",
  );
}

/** What a listener shows, and what those who dial it hold it against. */
export interface Shown {
  readonly context: { readonly cert: string; readonly key: string };
  readonly notAfter: number;
  /** Of the authority that is to be pinned; undefined where the roots of a machine count. */
  readonly fingerprint: string | undefined;
}

export function showOwn(authority: Authority, hosts: readonly string[]): Shown {
  const { certificate, privateKey } = authority.issueServer(hosts);
  return {
    context: {
      // The authority's own comes along: whoever pinned its fingerprint finds it there.
      cert: [certificate, ...authority.shown()].map((one) => one.toString()).join(""),
      key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    },
    notAfter: certificate.validToDate.getTime(),
    fingerprint: authority.fingerprint,
  };
}

/** A third of a certificate's life before its end there is another one. */
export function isDue({ notAfter }: Pick<Shown, "notAfter">, now: number): boolean {
  return notAfter - now < SERVER_CERTIFICATE_MS / 3;
}

export async function showFiles(files: CertificateFiles): Promise<Shown> {
  const chain = await readPem(files.certificate);
  const key = await readPem(files.key);
  const ca = files.ca === undefined ? undefined : await readPem(files.ca);
  const leaf = certificateIn(files.certificate, chain);
  if (!isKeyOf(leaf, key)) {
    throw new Failure("invalid", `${files.key} is not the key of ${files.certificate}`);
  }
  const authority = files.ca && ca !== undefined ? certificateIn(files.ca, ca) : undefined;
  return {
    context: { cert: `${chain.trimEnd()}\n${ca ?? ""}`, key },
    notAfter: leaf.validToDate.getTime(),
    fingerprint: authority && caFingerprint(authority),
  };
}

async function readPem(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    throw new Failure("invalid", `${file} cannot be read`, { cause });
  }
}

function certificateIn(file: string, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (cause) {
    throw new Failure("invalid", `${file} does not hold a certificate in PEM`, { cause });
  }
}

function isKeyOf(certificate: X509Certificate, key: string): boolean {
  try {
    return certificate.checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

/** The names a server's own certificate is for: what it listens on, and what it is called. */
export function hostsOf(host: string, publicUrl: string | undefined): string[] {
  const called =
    publicUrl === undefined ? [] : [new URL(publicUrl).hostname.replace(/^\[(.*)\]$/, "$1")];
  const isAny = host === "0.0.0.0" || host === "::";
  return [...new Set([...called, ...(isAny ? [] : [host]), "localhost", "127.0.0.1", "::1"])];
}
