// Certificates of three kinds and no others (RFC 5280): of the authority itself, of the server, of an
// agent. What is not needed for those cannot be said here, so nobody can have it signed.

import { createHash, createPublicKey, type KeyObject, sign, X509Certificate } from "node:crypto";
import { isIPv4, isIPv6 } from "node:net";
import { Failure, unreachable } from "@exclave/core";
import {
  bitString,
  boolean,
  integer,
  octetString,
  oid,
  readValues,
  sequence,
  set,
  tagged,
  time,
  utf8,
} from "./der.ts";

export type CertificateKind =
  | { readonly kind: "authority" }
  /** Host names and addresses it is reached by. */
  | { readonly kind: "server"; readonly hosts: readonly string[] }
  /** Whose it is, as a URI. */
  | { readonly kind: "agent"; readonly uri: string };

export interface CertificateWish {
  readonly about: CertificateKind;
  /** Common name, for people to read; nothing is decided by it. */
  readonly name: string;
  readonly key: KeyObject;
  readonly notBefore: number;
  readonly notAfter: number;
  /** 16 random bytes. */
  readonly serial: Uint8Array;
}

export interface Issuer {
  readonly privateKey: KeyObject;
  /** None for one that signs itself. */
  readonly certificate?: X509Certificate | undefined;
}

const OID = {
  commonName: "2.5.4.3",
  subjectKeyId: "2.5.29.14",
  keyUsage: "2.5.29.15",
  altName: "2.5.29.17",
  basicConstraints: "2.5.29.19",
  authorityKeyId: "2.5.29.35",
  extendedKeyUsage: "2.5.29.37",
  serverAuth: "1.3.6.1.5.5.7.3.1",
  clientAuth: "1.3.6.1.5.5.7.3.2",
} as const;

/** Bits from the left: digitalSignature; keyCertSign and cRLSign. */
const USAGE = {
  leaf: bitString(Buffer.from([0x80]), 7),
  authority: bitString(Buffer.from([0x06]), 1),
};

export function makeCertificate(wish: CertificateWish, issuer: Issuer): X509Certificate {
  const algorithm = algorithmOf(issuer.privateKey);
  const subject = nameOf(wish.name);
  const body = sequence(
    tagged(0xa0, integer(Buffer.from([2]))),
    // Never with its first bit: a serial number is 20 bytes at most, and positive.
    integer(wish.serial),
    algorithm.identifier,
    issuer.certificate ? subjectOf(issuer.certificate) : subject,
    sequence(time(wish.notBefore), time(wish.notAfter)),
    subject,
    spkiOf(wish.key),
    tagged(0xa3, sequence(...extensionsOf(wish, issuer))),
  );
  const signature = sign(algorithm.hash, body, issuer.privateKey);
  return new X509Certificate(sequence(body, algorithm.identifier, bitString(signature)));
}

function extensionsOf({ about, key }: CertificateWish, { certificate }: Issuer): Buffer[] {
  const isAuthority = about.kind === "authority";
  const constraints = isAuthority ? sequence(boolean(true), integer(Buffer.from([1]))) : sequence();
  const signer = certificate ? keyIdIn(certificate) : keyIdOf(key);
  return [
    extension(OID.basicConstraints, constraints, { isCritical: true }),
    extension(OID.keyUsage, isAuthority ? USAGE.authority : USAGE.leaf, { isCritical: true }),
    ...purposeOf(about),
    extension(OID.subjectKeyId, octetString(keyIdOf(key))),
    ...(signer ? [extension(OID.authorityKeyId, sequence(tagged(0x80, signer)))] : []),
  ];
}

function purposeOf(about: CertificateKind): Buffer[] {
  switch (about.kind) {
    case "authority":
      return [];
    case "server":
      return [
        extension(OID.extendedKeyUsage, sequence(oid(OID.serverAuth))),
        extension(OID.altName, sequence(...about.hosts.map(hostName))),
      ];
    case "agent":
      return [
        extension(OID.extendedKeyUsage, sequence(oid(OID.clientAuth))),
        extension(OID.altName, sequence(tagged(0x86, Buffer.from(about.uri, "latin1")))),
      ];
    default:
      return unreachable(about);
  }
}

function extension(id: string, value: Buffer, { isCritical = false } = {}): Buffer {
  return sequence(oid(id), ...(isCritical ? [boolean(true)] : []), octetString(value));
}

function hostName(host: string): Buffer {
  if (isIPv4(host)) return tagged(0x87, Buffer.from(host.split(".").map(Number)));
  if (isIPv6(host)) return tagged(0x87, ipv6Bytes(host));
  return tagged(0x82, Buffer.from(host, "latin1"));
}

function ipv6Bytes(host: string): Buffer {
  // The URL parser writes it without a mixed IPv4 part and without a zone.
  const text = new URL(`http://[${host}]`).hostname.slice(1, -1);
  const [head = "", tail] = text.split("::");
  const groups = (part: string) => (part === "" ? [] : part.split(":"));
  const after = tail === undefined ? [] : groups(tail);
  const before = groups(head);
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => "0");
  const bytes = [...before, ...zeros, ...after].map((group) => group.padStart(4, "0")).join("");
  return Buffer.from(bytes, "hex");
}

function nameOf(commonName: string): Buffer {
  return sequence(set(sequence(oid(OID.commonName), utf8(commonName))));
}

function spkiOf(key: KeyObject): Buffer {
  const publicKey = key.type === "public" ? key : createPublicKey(key);
  return publicKey.export({ type: "spki", format: "der" });
}

/** RFC 5280 4.2.1.2, method 1. */
function keyIdOf(key: KeyObject): Buffer {
  const [whole] = readValues(spkiOf(key));
  const bits = readValues(whole?.body ?? Buffer.alloc(0))[1];
  // Its first byte says how many bits are unused: none.
  return createHash("sha1")
    .update(bits?.body.subarray(1) ?? "")
    .digest();
}

/** The issuer's own words, byte for byte: another spelling of the same name is another name. */
function subjectOf(certificate: X509Certificate): Buffer {
  const subject = fieldsOf(certificate)[4];
  if (!subject) throw new Failure("invalid", "the authority's certificate names no subject");
  return subject.whole;
}

/** The key id that a certificate says it has; one that was brought may have made its own. */
function keyIdIn(certificate: X509Certificate): Buffer | undefined {
  const extensions = fieldsOf(certificate).find(({ tag }) => tag === 0xa3);
  const [list] = readValues(extensions?.body ?? Buffer.alloc(0));
  for (const { body } of readValues(list?.body ?? Buffer.alloc(0))) {
    const parts = readValues(body);
    if (!parts[0]?.whole.equals(oid(OID.subjectKeyId))) continue;
    return readValues(parts.at(-1)?.body ?? Buffer.alloc(0))[0]?.body;
  }
  return undefined;
}

/** Serial number, algorithm, issuer, validity, subject, key, and what follows. */
function fieldsOf({ raw }: X509Certificate) {
  const [whole] = readValues(raw);
  const [body] = readValues(whole?.body ?? Buffer.alloc(0));
  return readValues(body?.body ?? Buffer.alloc(0)).filter(({ tag }) => tag !== 0xa0);
}

function algorithmOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject) {
  if (asymmetricKeyType === "ed25519") {
    return { hash: null, identifier: sequence(oid("1.3.101.112")) };
  }
  if (asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === "prime256v1") {
    return { hash: "sha256", identifier: sequence(oid("1.2.840.10045.4.3.2")) };
  }
  if (asymmetricKeyType === "rsa") {
    const none = Buffer.from([0x05, 0x00]);
    return { hash: "sha256", identifier: sequence(oid("1.2.840.113549.1.1.11"), none) };
  }
  const message = "the authority's key has to be of P-256, Ed25519 or RSA";
  throw new Failure("invalid", message);
}
