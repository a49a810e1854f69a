// A vendor, a setup agent and an install that does as it is told, over real sockets.

import type { TestContext } from "node:test";
import { createInstall, getInstall, type InstallView } from "@exclave/api";
import { type ScriptedInstall, scriptedInstall } from "./scripted-install.ts";
import { buildAgent, release } from "./scripted-vendor.ts";
import { type TestServer, testServer, until } from "./test-server.ts";

export const CRM = `app: crm
inputs:
  - { name: title, required: true }
  - { name: size, type: number, default: 2 }
secrets:
  - { name: session, generate: { bytes: 16 } }
components:
  - { name: database, type: terraform, source: ./database }
  - name: api
    type: command
    source: ./api
    statusEverySeconds: 5
    environment: { URL: "\${{ components.database.outputs.url }}", KEY: "\${{ secrets.session }}" }
  - name: web
    type: command
    source: ./web
    environment: { TITLE: "\${{ inputs.title }}", API: "\${{ components.api.outputs.url }}" }
`;
export const SOURCES = { database: "tf", api: "api", web: "web" };
export const WITHOUT_WEB = CRM.slice(0, CRM.indexOf("  - name: web"));

export interface World {
  readonly server: TestServer;
  readonly install: ScriptedInstall;
}

export async function world(
  t: TestContext,
  options: Parameters<typeof testServer>[1] = {},
): Promise<World> {
  const server = await testServer(t, options);
  await buildAgent(server);
  const install = await scriptedInstall(server);
  return { server, install };
}

export async function create(
  { server }: World,
  inputs: Record<string, unknown> = { title: "Acme" },
): Promise<InstallView> {
  return server.client.call(createInstall, { body: { name: "acme", app: "crm", inputs } });
}

export function show({ server }: Pick<World, "server">): Promise<InstallView> {
  return server.client.call(getInstall, { params: { install: "acme" } });
}

export function settled(
  at: Pick<World, "server">,
  phase: InstallView["phase"] = "settled",
): Promise<InstallView> {
  return until(
    () => show(at),
    (view) => view.phase === phase,
    `acme is ${phase}`,
  );
}

export async function deployedWorld(
  t: TestContext,
  options: Parameters<typeof testServer>[1] = {},
): Promise<World> {
  const at = await world(t, options);
  await release(at.server, CRM, SOURCES, { channel: "stable" });
  await create(at);
  await settled(at);
  return at;
}
