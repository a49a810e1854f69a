import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { generateKeyPairSync, type X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { type CertificateKind, type Issuer, makeCertificate } from "./certificate.ts";

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2030, 0, 1);
const KEYS = {
  "P-256": () => generateKeyPairSync("ec", { namedCurve: "P-256" }),
  Ed25519: () => generateKeyPairSync("ed25519"),
  RSA: () => generateKeyPairSync("rsa", { modulusLength: 2048 }),
};
const hasNoOpenssl = spawnSync("openssl", ["version"]).status !== 0;

function made(about: CertificateKind, pair = KEYS["P-256"](), issuer?: Issuer): X509Certificate {
  const wish = {
    about,
    name: about.kind,
    key: pair.publicKey,
    notBefore: NOW,
    serial: Buffer.alloc(16, 0x41),
  };
  return makeCertificate({ ...wish, notAfter: NOW + DAY_MS }, issuer ?? pair);
}

for (const [name, pair] of Object.entries(KEYS)) {
  test(`an authority with a key of ${name} vouches for servers and agents`, () => {
    const keys = pair();
    const authority = made({ kind: "authority" }, keys);
    const issuer = { privateKey: keys.privateKey, certificate: authority };

    const server = made({ kind: "server", hosts: ["a.example"] }, undefined, issuer);
    const agent = made({ kind: "agent", uri: "spiffe://exclave/agent/a" }, KEYS.Ed25519(), issuer);

    assert.deepEqual([authority.ca, server.ca, agent.ca], [true, false, false]);
    for (const certificate of [authority, server, agent]) {
      assert.ok(certificate.checkIssued(authority));
      assert.ok(certificate.verify(keys.publicKey));
    }
  });
}

test("a server's certificate is for the names it was given, whatever form they have", () => {
  const hosts = ["exclave.example", "192.0.2.1", "2001:db8::1", "::1", "::ffff:192.0.2.2"];

  const certificate = made({ kind: "server", hosts });

  assert.equal(certificate.checkHost("exclave.example"), "exclave.example");
  assert.equal(certificate.checkHost("other.example"), undefined);
  for (const address of hosts.slice(1)) assert.ok(certificate.checkIP(address), address);
  assert.equal(certificate.checkIP("192.0.2.9"), undefined);
});

test("times on both sides of 2050 are read as they were meant", () => {
  for (const year of [2026, 2049, 2050, 2061]) {
    const at = Date.UTC(year, 5, 7, 8, 9, 10);
    const pair = KEYS["P-256"]();
    const wish = {
      about: { kind: "authority" },
      name: "a",
      key: pair.publicKey,
      serial: Buffer.from([1]),
    } as const;
    const certificate = makeCertificate({ ...wish, notBefore: at, notAfter: at + DAY_MS }, pair);

    assert.equal(certificate.validFromDate.getTime(), at);
    assert.equal(certificate.validToDate.getTime(), at + DAY_MS);
  }
});

test("OpenSSL finds nothing to object to, each for its own purpose", {
  skip: hasNoOpenssl && "openssl is not installed",
}, async (t) => {
  const directory = await temporaryDirectory(t);
  const keys = KEYS["P-256"]();
  const authority = made({ kind: "authority" }, keys);
  const issuer = { privateKey: keys.privateKey, certificate: authority };
  await writeFile(join(directory, "ca"), authority.toString());
  const leaves = {
    sslserver: made({ kind: "server", hosts: ["a.example"] }, undefined, issuer),
    sslclient: made({ kind: "agent", uri: "spiffe://exclave/agent/a" }, KEYS.Ed25519(), issuer),
  };

  for (const [purpose, leaf] of Object.entries(leaves)) {
    const file = join(directory, purpose);
    await writeFile(file, leaf.toString());
    for (const asked of Object.keys(leaves)) {
      const at = ["-attime", String(NOW / 1_000 + 60)];
      const args = [
        "verify",
        "-x509_strict",
        "-purpose",
        asked,
        ...at,
        "-CAfile",
        join(directory, "ca"),
        file,
      ];
      assert.equal(
        spawnSync("openssl", args).status === 0,
        asked === purpose,
        `${purpose} as ${asked}`,
      );
    }
  }
});
