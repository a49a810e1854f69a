// Terraform's dependency lock file: which version of each provider, and the hashes its packages may
// have. Written by the tool in one narrow form of its language, which is all that is read here.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Failure } from "@exclave/plugin-sdk";

export const LOCK_FILE = ".terraform.lock.hcl";

export interface LockedProvider {
  /** `registry.terraform.io/hashicorp/aws` */
  readonly address: string;
  readonly version: string;
  readonly constraints?: string;
  /** `h1:…` of a package's files, `zh:…` of its archive; of any platform. */
  readonly hashes: readonly string[];
}

/** Undefined where there is none. */
export async function readLockFile(
  directory: string,
): Promise<readonly LockedProvider[] | undefined> {
  const text = await readFile(join(directory, LOCK_FILE), "utf8").catch(() => undefined);
  return text === undefined ? undefined : parseLockFile(text);
}

const TOKEN = /\s+|#[^\n]*|\/\/[^\n]*|"((?:[^"\\]|\\.)*)"|([A-Za-z_][\w-]*)|([{}[\]=,])/y;

type Token = { readonly kind: "string" | "word" | "sign"; readonly text: string };

export function parseLockFile(text: string): LockedProvider[] {
  const tokens = tokenise(text);
  let at = 0;
  const providers: LockedProvider[] = [];
  while (at < tokens.length) {
    take("word", "provider");
    const address = take("string");
    take("sign", "{");
    providers.push({ address, ...parseBody(address) });
  }
  return providers;

  function parseBody(address: string): Omit<LockedProvider, "address"> {
    const found: { version?: string; constraints?: string; hashes: string[] } = { hashes: [] };
    while (tokens[at]?.text !== "}" || tokens[at]?.kind !== "sign") {
      const key = take("word");
      take("sign", "=");
      if (key === "version" || key === "constraints") found[key] = take("string");
      else if (key === "hashes") found.hashes = parseList();
      else throw broken(`${address} has ${JSON.stringify(key)}, which is not known`);
    }
    take("sign", "}");
    const { version, ...others } = found;
    if (version === undefined) throw broken(`${address} has no version`);
    return { version, ...others };
  }

  function parseList(): string[] {
    const items: string[] = [];
    take("sign", "[");
    while (tokens[at]?.kind === "string") {
      items.push(take("string"));
      if (tokens[at]?.text === ",") at++;
    }
    take("sign", "]");
    return items;
  }

  function take(kind: Token["kind"], text?: string): string {
    const token = tokens[at++];
    if (token?.kind !== kind || (text !== undefined && token.text !== text)) {
      throw broken(`${text ?? `a ${kind}`} was expected, not ${token?.text ?? "the end"}`);
    }
    return token.text;
  }
}

function tokenise(text: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const start = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (!match)
      throw broken(`it cannot be read at ${JSON.stringify(text.slice(start, start + 20))}`);
    const [, string, word, sign] = match;
    if (string !== undefined) tokens.push({ kind: "string", text: string });
    else if (word !== undefined) tokens.push({ kind: "word", text: word });
    else if (sign !== undefined) tokens.push({ kind: "sign", text: sign });
  }
  return tokens;
}

/** As the tool writes it, so that it finds nothing to change. */
export function renderLockFile(providers: readonly LockedProvider[]): string {
  const blocks = providers
    .toSorted((a, b) => (a.address < b.address ? -1 : 1))
    .map(({ address, version, constraints, hashes }) =>
      [
        `provider "${address}" {`,
        `  version     = "${version}"`,
        ...(constraints === undefined ? [] : [`  constraints = "${constraints}"`]),
        "  hashes = [",
        ...[...new Set(hashes)].toSorted().map((hash) => `    "${hash}",`),
        "  ]",
        "}\n",
      ].join("\n"),
    );
  return ["# Written by the build: what it checked and brought along.\n", ...blocks].join("\n");
}

function broken(because: string): Failure {
  return new Failure("invalid", `${LOCK_FILE}: ${because}`);
}
