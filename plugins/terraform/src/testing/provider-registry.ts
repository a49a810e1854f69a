// A provider registry with one signed provider, on this machine, and the configuration that makes the tools
// ask it. Terraform takes nothing that is not signed, so it needs gpg.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { ownPlatform } from "../bundle-providers.ts";
import { PROGRAM, VERSION } from "./sample-provider.ts";

export const HOST = "registry.example.invalid";

export interface ProviderRegistry {
  readonly address: string;
  readonly configFile: string;
  /** As a lock file lists the archive. */
  readonly hash: string;
  readonly requests: readonly string[];
}

export async function startProviderRegistry(
  t: TestContext,
  directory: string,
): Promise<ProviderRegistry> {
  const [os = "", arch = ""] = ownPlatform().split("_");
  const filename = `terraform-provider-thing_${VERSION}_${os}_${arch}.zip`;
  await writeFile(join(directory, PROGRAM), "fetched", { mode: 0o755 });
  execFileSync("zip", ["-q", filename, PROGRAM], { cwd: directory });
  const archive = await readFile(join(directory, filename));
  const shasum = createHash("sha256").update(archive).digest("hex");
  const shasums = `${shasum}  ${filename}\n`;
  const { signature, publicKey } = await sign(directory, shasums);

  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? "");
    const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const answers: Record<string, unknown> = {
      "/acme/thing/versions": {
        versions: [{ version: VERSION, protocols: ["5.0"], platforms: [{ os, arch }] }],
      },
      [`/acme/thing/${VERSION}/download/${os}/${arch}`]: {
        protocols: ["5.0"],
        os,
        arch,
        filename,
        download_url: `${base}/archive`,
        shasums_url: `${base}/shasums`,
        shasums_signature_url: `${base}/signature`,
        shasum,
        signing_keys: { gpg_public_keys: [publicKey] },
      },
    };
    const files: Record<string, Buffer | string> = {
      "/archive": archive,
      "/shasums": shasums,
      "/signature": signature,
    };
    const answer = answers[request.url ?? ""];
    const file = files[request.url ?? ""];
    if (answer) response.setHeader("content-type", "application/json").end(JSON.stringify(answer));
    else if (file) response.end(file);
    else response.writeHead(404).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const configFile = join(directory, "registry.rc");
  await writeFile(
    configFile,
    `host "${HOST}" {\n  services = {\n    "providers.v1" = "${url}"\n  }\n}\n`,
  );
  return { address: `${HOST}/acme/thing`, configFile, hash: `zh:${shasum}`, requests };
}

async function sign(directory: string, text: string) {
  const home = join(directory, "gnupg");
  await mkdir(home, { mode: 0o700 });
  const gpg = (args: readonly string[], input = "") =>
    execFileSync("gpg", ["--homedir", home, "--batch", "--quiet", "--passphrase", "", ...args], {
      input,
      stdio: ["pipe", "pipe", "ignore"],
    });
  gpg(["--quick-generate-key", "test@example.invalid", "rsa2048", "sign", "never"]);
  const signature = gpg(["--pinentry-mode", "loopback", "--detach-sign"], text);
  const armor = gpg(["--armor", "--export"]).toString();
  const listed = gpg(["--list-keys", "--with-colons"]).toString();
  const keyId = /^pub:[^:]*:[^:]*:[^:]*:([0-9A-F]+)/m.exec(listed)?.[1];
  // The agent that gpg started would outlive the directory.
  execFileSync("gpgconf", ["--homedir", home, "--kill", "gpg-agent"], { stdio: "ignore" });
  return { signature, publicKey: { key_id: keyId, ascii_armor: armor } };
}
