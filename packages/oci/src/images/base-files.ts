// What the lowest layer of every shipped image holds, so that it stands in a container of its own: Node, the C
// library and the others it is linked to, a shell with the usual small programs, certificates, and names for the
// users jobs run as. Programs and libraries are the machine's that packs the image; nothing is fetched.

import { createHash } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { rootCertificates } from "node:tls";
import type { LayerFile } from "../layer/layer.ts";
import { readElfNeeds } from "./elf-needs.ts";

const PROGRAMS =
  "sh cat cp mv rm mkdir rmdir ls ln chmod env sleep date head tail cut tr sort uniq wc grep sed awk find xargs expr dirname basename touch tar gzip id mktemp uname tee sha256sum printf test true false";
const PROGRAM_PLACES = ["/bin", "/usr/bin"];
const TRIPLES: Partial<Record<NodeJS.Architecture, string>> = {
  x64: "x86_64-linux-gnu",
  arm64: "aarch64-linux-gnu",
};
/** Opened by the C library itself, in versions that have them apart. */
const NAME_LIBRARIES = ["libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"];

const PASSWD = `root:x:0:0:root:/:/bin/sh
exclave-agent:x:65530:65530:agent:/:/bin/sh
exclave-sync:x:65531:65531:sync:/:/bin/sh
exclave-job:x:65532:65532:job:/:/bin/sh
`;
const GROUP = PASSWD.replace(/^([a-z-]+):x:[0-9]+:([0-9]+):.*$/gm, "$1:x:$2:");

/** A Node that is no program of Linux has nothing beside it: there is nothing to run it in. */
export async function gatherBase(nodePath: string): Promise<readonly LayerFile[]> {
  const node: LayerFile = { path: "exclave/bin/node", from: nodePath, executable: true };
  if ((await readElfNeeds(nodePath))?.loader === undefined) return [node];
  const programs = PROGRAMS.split(" ").flatMap((name) => {
    const from = findIn(PROGRAM_PLACES, name);
    return from === undefined ? [] : [{ path: `bin/${name}`, from, executable: true }];
  });
  const libraries = await librariesOf([nodePath, ...programs.map(({ from }) => from)]);
  return [
    node,
    { path: "bin/node", target: "../exclave/bin/node" },
    // Where the first line of a script looks for it.
    { path: "usr/bin/env", target: "../../bin/env" },
    ...programs,
    ...[...libraries].toSorted().map((from) => ({ path: from.slice(1), from, executable: true })),
    { path: "etc/passwd", text: PASSWD },
    { path: "etc/group", text: GROUP },
    { path: "etc/nsswitch.conf", text: "hosts: files dns\n" },
    // Node's own list: what else this machine trusts is not for others to trust.
    { path: "etc/ssl/certs/ca-certificates.crt", text: `${rootCertificates.join("\n")}\n` },
  ];
}

/** Programs and everything they are linked to, as further files of a layer. */
export async function withLibraries(
  programs: readonly { readonly path: string; readonly from: string }[],
): Promise<LayerFile[]> {
  const libraries = await librariesOf(programs.map(({ from }) => from));
  return [
    ...programs.map((program) => ({ ...program, executable: true })),
    ...[...libraries].toSorted().map((from) => ({ path: from.slice(1), from, executable: true })),
  ];
}

/** By what its files are, not by when they were written: equal files give an equal layer. */
export async function digestBase(files: readonly LayerFile[]): Promise<string> {
  const hash = createHash("sha256");
  for (const file of files) {
    const content = "from" in file ? await digestFile(file.from) : JSON.stringify(file);
    hash.update(`${file.path}\0${content}\0`);
  }
  return hash.digest("hex");
}

/** Reading every byte takes a good part of a second; sizes and times tell a replaced file as well. */
export async function stampBase(nodePath: string): Promise<string> {
  const files = await gatherBase(nodePath);
  const stamps = files.map(async (file) => {
    if (!("from" in file)) return JSON.stringify(file);
    const { size, mtimeMs } = await stat(file.from);
    return `${file.path} ${size} ${mtimeMs}`;
  });
  return [process.version, process.arch, ...(await Promise.all(stamps))].join("\n");
}

async function librariesOf(programs: readonly string[]): Promise<Set<string>> {
  const found = new Set<string>();
  const seen = new Set<string>();
  const waiting = [...programs];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (seen.has(path)) continue;
    seen.add(path);
    const needs = await readElfNeeds(path);
    if (!needs) continue;
    const own = needs.searchPath.map((place) => place.replace("$ORIGIN", dirname(path)));
    const places = [...own, ...libraryPlaces()];
    const loader = needs.loader === undefined ? [] : [needs.loader];
    const named = [...needs.libraries, ...(needs.loader ? NAME_LIBRARIES : [])];
    const libraries = named.flatMap((name) => findIn(places, name) ?? []);
    for (const library of [...loader, ...libraries]) {
      // The loader is linked against by name, too; it is where the program says, and only there.
      if (needs.loader !== library && basename(needs.loader ?? "") === basename(library)) continue;
      found.add(library);
      waiting.push(library);
    }
  }
  return found;
}

function libraryPlaces(): string[] {
  const triple = TRIPLES[process.arch];
  const own = triple === undefined ? [] : [`/lib/${triple}`, `/usr/lib/${triple}`];
  return [...own, "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"];
}

function findIn(places: readonly string[], name: string): string | undefined {
  return places.map((place) => join(place, name)).find((path) => existsSync(path));
}

export async function digestFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash);
  return hash.digest("hex");
}
