// The first app of a vendor: one command, one service that uses what the command said, one input.

export interface ScaffoldFile {
  readonly path: string;
  readonly text: string;
  readonly isProgram?: boolean;
}

/** `schema` is for editors: it completes and checks exclave.yaml while it is written. */
export function scaffold(app: string, schema: Readonly<Record<string, unknown>>): ScaffoldFile[] {
  return [
    { path: "exclave.schema.json", text: `${JSON.stringify(schema, null, 2)}\n` },
    { path: "exclave.yaml", text: configText(app) },
    { path: "settings/apply.mjs", text: SETTINGS },
    { path: "web/server.mjs", text: WEB },
    { path: "README.md", text: readmeText(app) },
  ];
}

function configText(app: string): string {
  return `# yaml-language-server: $schema=./exclave.schema.json
app: ${app}
description: A first app

inputs:
  - name: greeting
    description: What the page says
    default: Hello

components:
  # Runs once per change and says what it found out.
  - name: settings
    type: command
    source: ./settings
    apply: [node, apply.mjs]
    environment:
      GREETING: \${{ inputs.greeting }}

  # A program that is kept up in the install.
  - name: web
    type: service
    source: ./web
    command: [node, server.mjs]
    port: auto
    health: { path: /healthz }
    environment:
      MESSAGE: \${{ components.settings.outputs.message }}
`;
}

const SETTINGS = `// Runs in the install. What it writes to EXCLAVE_OUTPUTS is what other components can refer to.
import { writeFileSync } from "node:fs";
import { hostname } from "node:os";

const message = \`\${process.env.GREETING} from \${hostname()}\`;
writeFileSync(process.env.EXCLAVE_OUTPUTS, JSON.stringify({ message }));
console.log("settings written");
`;

const WEB = `// A web server without any dependency; PORT is chosen by the install.
import { createServer } from "node:http";

createServer((request, response) => {
  if (request.url === "/healthz") return response.end("ok");
  response.setHeader("content-type", "text/html; charset=utf-8");
  response.end(\`<!doctype html><title>It works</title><h1>\${process.env.MESSAGE}</h1>\`);
}).listen(Number(process.env.PORT), "127.0.0.1", () => console.log("listening"));
`;

function readmeText(app: string): string {
  return `# ${app}

    exclave check .                                # every problem, with file and line
    exclave release . --channel stable             # build what changed, sign, move the channel
    exclave install create first --app ${app} --wait
    exclave install show first                     # the address of the page is web's output \`url\`
`;
}
