// Every listener of the product is made in one place, which gives it its limits.

import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const ROOT = join(import.meta.dirname, "..");

/** Ask the system for a free port on loopback and close at once. */
const PORT_PROBES = ["packages/cli/src/up/port.ts", "packages/plugin-sdk/src/kept-port.ts"];
/** Text of an app a vendor begins with, not a listener of ours. */
const TEMPLATES = ["packages/cli/src/app/scaffold.ts"];
/** Where an agent in a cluster hands jobs their files, and the gate before an engine: they cannot import the registry's listener, and have limits of their own. */
const OWN_LIMITS = [
  "packages/runtime/src/kubernetes/document-server.ts",
  "sandboxes/podman/src/gate/gate.ts",
];
/** Sockets in the file system, which the owner alone can open. */
const LOCAL_SOCKETS = ["packages/server/src/signer/main.ts"];

test("no product code makes a listener but the one with limits", () => {
  const product = globSync("{packages,plugins,sandboxes}/*/src/**/*.ts", { cwd: ROOT }).filter(
    (path) => !/\.(test|testing|e2e|fixture)\.ts$|\/testing\//.test(path),
  );
  const makers = product.filter((path) =>
    /\bcreate(Secure)?Server\b|\bnew (Http|Net)?Server\(|WebSocketServer\(\{\s*port/.test(
      readFileSync(join(ROOT, path), "utf8"),
    ),
  );

  assert.deepEqual(
    makers.filter(
      (path) => ![...PORT_PROBES, ...TEMPLATES, ...LOCAL_SOCKETS, ...OWN_LIMITS].includes(path),
    ),
    ["packages/oci/src/listener/listen-limits.ts"],
  );
});
