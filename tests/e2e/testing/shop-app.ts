// A small app for the end-to-end tests: scripts whose every run leaves a line on disk, so that what
// ran, how often and in which order can be counted.

import type { TestContext } from "node:test";
import { createWorld, untilHealthy, type World, type WorldOptions } from "./harness.ts";

export interface ShopOptions {
  readonly colour?: string;
  readonly applySeconds?: number;
  readonly withReports?: boolean;
}

/** database → api → web, and reports beside them (depends on database only). */
export function writeShop(
  world: World,
  { colour = "blue", applySeconds = 0, withReports = true }: ShopOptions = {},
): string {
  const trail = `${world.place}/trail.txt`;
  const script = (name: string, outputs: string) => `#!/bin/sh
set -eu
echo "${name} apply $EXCLAVE_JOB-$EXCLAVE_ATTEMPT" >> ${trail}
echo "applying ${name}"
sleep ${applySeconds}
printf '%s' '${outputs}' > "$EXCLAVE_OUTPUTS"
echo "${name} done $EXCLAVE_JOB-$EXCLAVE_ATTEMPT" >> ${trail}
`;
  const end = (name: string) =>
    `#!/bin/sh\necho "${name} destroy $EXCLAVE_JOB-$EXCLAVE_ATTEMPT" >> ${trail}\n`;

  for (const [name, outputs] of [
    ["database", '{"url":"db://one"}'],
    ["api", `{"url":"api://${colour}"}`],
    ["reports", '{"ready":true}'],
  ] as const) {
    world.write(`shop/${name}/apply.sh`, script(name, outputs));
    world.write(`shop/${name}/destroy.sh`, end(name));
  }
  world.write(
    "shop/web/server.mjs",
    `import { createServer } from "node:http";
createServer((_, response) => {
  response.end(JSON.stringify({ colour: "${colour}", api: process.env.API_URL, title: process.env.TITLE, keyLength: process.env.SESSION_KEY.length }));
}).listen(Number(process.env.PORT), "127.0.0.1");
console.log("web is up in ${colour}");
console.log("the key is " + process.env.SESSION_KEY);
`,
  );
  const reports = `
  - name: reports
    type: command
    source: ./reports
    apply: [./apply.sh]
    destroy: [./destroy.sh]
    environment: { DATABASE: "\${{ components.database.outputs.url }}" }
`;
  world.write(
    "shop/exclave.yaml",
    `app: shop
inputs:
  - { name: title, description: What the page calls itself, required: true }
secrets:
  - { name: session_key, generate: { bytes: 24, encoding: hex } }
components:
  - name: database
    type: command
    source: ./database
    apply: [./apply.sh]
    destroy: [./destroy.sh]
    statusEverySeconds: 5
  - name: api
    type: command
    source: ./api
    apply: [./apply.sh]
    destroy: [./destroy.sh]
    environment: { DATABASE: "\${{ components.database.outputs.url }}" }
    statusEverySeconds: 5
  - name: web
    type: service
    source: ./web
    command: [node, server.mjs]
    port: auto
    health: { path: / }
    environment:
      API_URL: "\${{ components.api.outputs.url }}"
      TITLE: "\${{ inputs.title }}"
      SESSION_KEY: "\${{ secrets.session_key }}"
    statusEverySeconds: 5
${withReports ? reports : ""}`,
  );
  return "shop";
}

/** A world in which release one of the shop is up and healthy as `acme`. */
export async function createShopWorld(
  t: TestContext,
  { prepare, ...options }: WorldOptions & { readonly prepare?: (world: World) => void } = {},
): Promise<World> {
  const world = await createWorld(t, options);
  await world.up();
  const app = writeShop(world);
  prepare?.(world);
  await world.exclave("release", app, "--channel", "stable", "--wait");
  const input = ["--input", "title=Acme"];
  await world.exclave("install", "create", "acme", "--app", "shop", ...input, "--wait");
  await untilHealthy(world, "acme");
  return world;
}

export function trail(world: World): string[] {
  return world.read("trail.txt").split("\n").filter(Boolean);
}
