// The keys and certificates of one test cluster, made with openssl. They die with its directory.

import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

export interface ClusterPki {
  readonly ca: string;
  readonly api: KeyPair;
  /** Of a member of system:masters. */
  readonly admin: KeyPair;
  /** Signs the tokens of service accounts. */
  readonly accountKey: string;
  readonly accountPublicKey: string;
}

interface KeyPair {
  readonly key: string;
  readonly certificate: string;
}

const API_NAMES = [
  "IP:127.0.0.1",
  "IP:10.96.0.1",
  "DNS:localhost",
  "DNS:kubernetes",
  "DNS:kubernetes.default",
  "DNS:kubernetes.default.svc",
];

export async function createClusterPki(directory: string): Promise<ClusterPki> {
  const at = (name: string) => join(directory, name);
  const openssl = (...args: readonly string[]) => run("openssl", [...args], { cwd: directory });
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

  const ca = { key: at("ca.key"), certificate: at("ca.crt") };
  await openssl(
    "req",
    "-x509",
    ...key,
    "-days",
    "2",
    "-subj",
    "/CN=test-cluster",
    "-keyout",
    ca.key,
    "-out",
    ca.certificate,
  );
  const issue = async (name: string, subject: string, extensions: string): Promise<KeyPair> => {
    const made = { key: at(`${name}.key`), certificate: at(`${name}.crt`) };
    await writeFile(at(`${name}.ext`), extensions);
    await openssl("req", ...key, "-subj", subject, "-keyout", made.key, "-out", at(`${name}.csr`));
    await openssl(
      "x509",
      "-req",
      "-in",
      at(`${name}.csr`),
      "-CA",
      ca.certificate,
      "-CAkey",
      ca.key,
      "-CAcreateserial",
      "-days",
      "2",
      "-extfile",
      at(`${name}.ext`),
      "-out",
      made.certificate,
    );
    return made;
  };

  const names = `subjectAltName=${API_NAMES.join(",")}\nextendedKeyUsage=serverAuth\n`;
  const api = await issue("api", "/CN=kube-apiserver", names);
  const admin = await issue("admin", "/O=system:masters/CN=admin", "extendedKeyUsage=clientAuth\n");

  const accountKey = at("account.key");
  const accountPublicKey = at("account.pub");
  await openssl("genrsa", "-out", accountKey, "2048");
  await openssl("rsa", "-in", accountKey, "-pubout", "-out", accountPublicKey);
  return { ca: ca.certificate, api, admin, accountKey, accountPublicKey };
}

/** A kubeconfig; JSON is YAML. */
export async function writeKubeconfig(
  path: string,
  server: string,
  { ca, admin }: Pick<ClusterPki, "ca" | "admin">,
): Promise<string> {
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "test", cluster: { server, "certificate-authority": ca } }],
    users: [
      { name: "admin", user: { "client-certificate": admin.certificate, "client-key": admin.key } },
    ],
    contexts: [{ name: "test", context: { cluster: "test", user: "admin" } }],
    "current-context": "test",
  };
  await writeFile(path, JSON.stringify(config), { mode: 0o600 });
  return path;
}
