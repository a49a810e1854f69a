// Each format we write, read by the tool it is meant for, unmodified: crane, oras, skopeo, helm, tofu and
// cosign against our own registry. What this machine lacks is skipped, with the reason.

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import {
  AppId,
  ComponentName,
  ComponentType,
  Instant,
  RELEASE_PREDICATE_TYPE,
  statementFor,
} from "@exclave/core";
import {
  createRegistry,
  createRegistryClient,
  createSigner,
  packChart,
  packImage,
  packIndex,
  packManifests,
  RELEASE_TYPE,
  signStatement,
  writeStatement,
} from "@exclave/oci";
import { packModule, packProviderIndex } from "@exclave/runner";
import { terraformProviderLocal } from "../../../tools/test-tools/terraform-provider-local.ts";
import { has } from "../testing/harness.ts";

const run = promisify(execFile);
const PLATFORM = `${process.platform}_${process.arch === "x64" ? "amd64" : process.arch}`;
const ADDRESS = "registry.opentofu.org/hashicorp/local";

function needs(...programs: string[]): { skip: string | false } {
  const missing = programs.find((program) => !has(program));
  return { skip: missing ? `${missing} is not on PATH: reading with it was not tried` : false };
}

async function createPlace(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), "exclave-formats-"));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const registry = createRegistry({
    directory: join(directory, "registry"),
    auth: { kind: "anonymous" },
  });
  const server = createServer((request, response) => void registry.handle(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const store = createRegistryClient({ url: `http://${host}` });
  t.after(async () => {
    store.close();
    server.close();
    server.closeAllConnections();
    await registry.close();
  });

  return { directory, host, store, write, tool, serveTls };

  async function write(files: Record<string, string>): Promise<string> {
    const place = await mkdtemp(join(directory, "files-"));
    for (const [name, content] of Object.entries(files)) {
      await mkdir(dirname(join(place, name)), { recursive: true });
      await writeFile(join(place, name), content);
    }
    return place;
  }

  /** Runs a tool with a home of its own, so that nobody's settings count. */
  async function tool(
    program: string,
    args: readonly string[],
    { cwd = directory, env = {} }: { cwd?: string; env?: Record<string, string> } = {},
  ): Promise<string> {
    const { stdout } = await run(program, [...args], {
      cwd,
      env: { PATH: process.env["PATH"] ?? "", HOME: directory, TMPDIR: directory, ...env },
      maxBuffer: 16 * 1024 * 1024,
    });
    return stdout;
  }

  /** The same registry over TLS, which OpenTofu insists on; its certificate is its own authority. */
  async function serveTls(): Promise<{ host: string; authority: string }> {
    const [key, cert] = [join(directory, "tls.key"), join(directory, "tls.crt")];
    const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
    const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    execFileSync(
      "openssl",
      ["req", "-x509", "-days", "2", ...curve, ...subject, "-keyout", key, "-out", cert],
      { stdio: "ignore" },
    );
    const tls = createTlsServer(
      { key: await readFile(key), cert: await readFile(cert) },
      (request, response) => void registry.handle(request, response),
    );
    tls.listen(0, "127.0.0.1");
    await once(tls, "listening");
    t.after(() => {
      tls.close();
      tls.closeAllConnections();
    });
    return { host: `localhost:${(tls.address() as AddressInfo).port}`, authority: cert };
  }
}

type Place = Awaited<ReturnType<typeof createPlace>>;

test("crane and skopeo read an image", needs("crane", "skopeo"), async (t) => {
  const { directory, host, store, write, tool } = await createPlace(t);
  const layers = [{ directory: await write({ "etc/hello": "hello" }) }];
  const { digest } = await packImage({ store, repository: "apps/crm/api", layers, tag: "v1" });
  const image = `${host}/apps/crm/api`;

  assert.equal((await tool("crane", ["digest", "--insecure", `${image}:v1`])).trim(), digest);
  await tool("crane", ["validate", "--insecure", "--remote", `${image}@${digest}`]);
  const listed = await tool("crane", ["export", "--insecure", `${image}:v1`, "files.tar"]);
  assert.equal(listed, "");
  assert.match(execFileSync("tar", ["-tf", join(directory, "files.tar")]).toString(), /etc\/hello/);

  const seen = await tool("skopeo", ["inspect", "--tls-verify=false", `docker://${image}:v1`]);
  assert.equal(JSON.parse(seen).Digest, digest);
});

const CHART =
  "apiVersion: v2\nname: api\nversion: 1.2.3+four\ndescription: An API\nappVersion: '7'\n";
const TEMPLATE =
  "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  hello: {{ .Values.hello }}\n";

test("helm pulls, shows and renders a chart", needs("helm"), async (t) => {
  const { directory, host, store, write, tool } = await createPlace(t);
  const files = {
    "Chart.yaml": CHART,
    "values.yaml": "hello: world\n",
    "templates/a.yaml": TEMPLATE,
  };
  await packChart({ store, repository: "charts/api", directory: await write(files) });
  const chart = [`oci://${host}/charts/api`, "--version", "1.2.3+four", "--plain-http"];

  assert.match(await tool("helm", ["show", "chart", ...chart]), /^name: api$/m);
  assert.match(
    await tool("helm", ["template", "mine", ...chart]),
    /name: mine\ndata:\n {2}hello: world/,
  );
  await tool("helm", ["pull", ...chart]);
  assert.ok((await stat(join(directory, "api-1.2.3+four.tgz"))).isFile());
  await tool("helm", ["lint", join(directory, "api-1.2.3+four.tgz")]);
});

test("a chart of helm's own making is one of ours", needs("helm"), async (t) => {
  const { directory, host, store, write, tool } = await createPlace(t);
  const files = { "Chart.yaml": CHART, "values.yaml": "", "templates/a.yaml": TEMPLATE };
  const source = await write(files);
  await tool("helm", ["package", source, "--destination", directory]);
  await tool("helm", ["push", "api-1.2.3+four.tgz", `oci://${host}/theirs`, "--plain-http"]);
  await packChart({ store, repository: "ours/api", directory: source });

  const [ours, theirs] = await Promise.all(
    ["ours/api", "theirs/api"].map(async (repository) => {
      const { bytes } = await store.readManifest(repository, "1.2.3_four");
      const { config, layers } = JSON.parse(Buffer.from(bytes).toString());
      const types = layers.map(({ mediaType }: { mediaType: string }) => mediaType);
      return { config: config.mediaType, types };
    }),
  );

  assert.deepEqual(ours, theirs);
});

test("oras and crane take manifests in Flux's format", needs("oras", "crane"), async (t) => {
  const { directory, host, store, write, tool } = await createPlace(t);
  const source = await write({ "deploy/a.yaml": "kind: ConfigMap\n" });
  const { digest } = await packManifests({ store, repository: "manifests/api", directory: source });
  const artifact = `${host}/manifests/api@${digest}`;

  const manifest = JSON.parse(await tool("oras", ["manifest", "fetch", "--plain-http", artifact]));
  assert.equal(manifest.config.mediaType, "application/vnd.cncf.flux.config.v1+json");
  await tool("crane", ["blob", "--insecure", `${host}/manifests/api@${manifest.layers[0].digest}`]);
  await tool("crane", ["export", "--insecure", artifact, "manifests.tar"]);
  const listed = execFileSync("tar", ["-tf", join(directory, "manifests.tar")]).toString();
  assert.match(listed, /deploy\/a\.yaml/);
});

test(
  "oras and skopeo carry a module with its providers, layer by layer",
  needs("oras", "skopeo"),
  async (t) => {
    const { directory, host, store, write, tool } = await createPlace(t);
    const path = await write({ "terraform-provider-local_v1.4.0": "program" });
    const providers = [{ address: ADDRESS, version: "1.4.0", platform: "linux_arm64", path }];
    const source = await write({ "main.tf": "# main\n" });
    const packed = await packModule({
      store,
      repository: "modules/a",
      directory: source,
      providers,
      tag: "v1",
    });

    await tool("oras", ["pull", "--plain-http", "-o", "pulled", `${host}/modules/a:v1`]);
    assert.deepEqual((await readdir(join(directory, "pulled"))).toSorted(), [
      "module.zip",
      "terraform-provider-local_1.4.0_linux_arm64.zip",
    ]);

    const copy = ["copy", "--src-tls-verify=false", "--dest-tls-verify=false"];
    const [from, to] = [`docker://${host}/modules/a:v1`, `docker://${host}/modules/b:v1`];
    await tool("skopeo", ["--insecure-policy", ...copy, from, to]);
    assert.equal((await store.headManifest("modules/b", "v1"))?.digest, packed.digest);
  },
);

test(
  "tofu uses a module and its provider straight from the registry",
  needs("tofu", "openssl"),
  async (t) => {
    const provider = await terraformProviderLocal();
    if (provider.kind === "unavailable") return t.skip(provider.because);
    const place = await createPlace(t);
    const { directory, store, write, tool } = place;
    const { host, authority } = await place.serveTls();
    const path = join(provider.mirror, ADDRESS, "1.4.0", PLATFORM);
    const packages = [{ address: ADDRESS, version: "1.4.0", platform: PLATFORM, path }];
    const source = await write({
      "main.tf":
        'variable "file" {}\nresource "local_file" "made" {\n  filename = var.file\n  content = "made"\n}\n',
      "unused/link.txt": "x",
    });
    // The provider's layer beside the module must not confuse it.
    const { digest } = await packModule({
      store,
      repository: "modules/file",
      directory: source,
      providers: packages,
    });
    await packProviderIndex({ store, repository: "providers/hashicorp/local", packages });
    const made = join(directory, "made.txt");
    const root = await write({
      "main.tf": `module "file" {\n  source = "oci://${host}/modules/file?digest=${digest}"\n  file = ${JSON.stringify(made)}\n}\n`,
    });
    const rc = join(directory, "tofu.rc");
    await writeFile(
      rc,
      `provider_installation {\n  oci_mirror {\n    repository_template = "${host}/providers/\${namespace}/\${type}"\n    include = ["registry.opentofu.org/*/*"]\n  }\n}\n`,
    );
    const options = { cwd: root, env: { TF_CLI_CONFIG_FILE: rc, SSL_CERT_FILE: authority } };

    await tool("tofu", ["init", "-no-color", "-input=false"], options);
    await tool("tofu", ["apply", "-no-color", "-auto-approve"], options);

    assert.equal(await readFile(made, "utf8"), "made");
  },
);

for (const kind of ["P-256", "Ed25519"] as const) {
  test(
    `cosign verifies the statement of a release, signed with a ${kind} key, and not with another key`,
    needs("cosign"),
    async (t) => {
      const place = await createPlace(t);
      const { host, store } = place;
      const [ours, theirs] = [newKeys(kind), newKeys(kind)];
      const { repository, image, index, statement } = await packRelease(place);

      const artifact = await signStatement(statement, [createSigner(ours.privateKey)]);
      await writeStatement(store, repository, artifact);

      const release = `${host}/${repository}@${index.digest}`;
      const shown = await cosignVerify(place, release, ours.publicKey);
      const { payload } = JSON.parse(shown.split("\n").find((line) => line.startsWith("{")) ?? "");
      const inToto = JSON.parse(Buffer.from(payload, "base64").toString());
      assert.deepEqual(inToto.predicate, statement);
      await assert.rejects(cosignVerify(place, release, theirs.publicKey));
      const unsigned = `${host}/${repository}@${image.digest}`;
      await assert.rejects(cosignVerify(place, unsigned, ours.publicKey));
    },
  );
}

test("oras finds the statement where referrers are listed", needs("oras"), async (t) => {
  const place = await createPlace(t);
  const { host, store, tool } = place;
  const { repository, index, statement } = await packRelease(place);
  const signer = createSigner(newKeys("P-256").privateKey);
  const signed = await signStatement(statement, [signer]);
  const artifact = await writeStatement(store, repository, signed);

  const found = await tool("oras", [
    "discover",
    "--plain-http",
    "--format",
    "json",
    `${host}/${repository}@${index.digest}`,
  ]);

  assert.ok(found.includes(artifact), found);
});

/** A release of one component, and what the release role says of it. */
async function packRelease({ store, write }: Place) {
  const repository = "releases/crm";
  const layers = [{ directory: await write({ hello: "hello" }) }];
  const image = await packImage({ store, repository, layers });
  const index = await packIndex({
    store,
    repository,
    manifests: [image],
    artifactType: RELEASE_TYPE,
  });
  const statement = statementFor({
    app: AppId.parse("pcrmaaaaaaaaaaaaa"),
    appName: "crm",
    release: "r1",
    number: 1,
    versionName: "1.0",
    index: { repository, digest: index.digest, sizeBytes: index.size },
    components: [
      {
        name: ComponentName.parse("api"),
        type: ComponentType.parse("image"),
        plugin: { repository: "exclave/plugins/image", digest: image.digest },
        artifact: { repository: "apps/crm/api", digest: image.digest },
        config: {},
        effects: { apply: "idempotent" },
      },
    ],
    runner: { repository: "exclave/runner", digest: image.digest },
    sandboxes: [],
    rollbackTo: { numberMin: 1 },
    createdAt: Instant.parse(0),
  });
  return { repository, image, index, statement };
}

function newKeys(kind: "P-256" | "Ed25519"): { privateKey: KeyObject; publicKey: KeyObject } {
  return kind === "P-256"
    ? generateKeyPairSync("ec", { namedCurve: "P-256" })
    : generateKeyPairSync("ed25519");
}

async function cosignVerify({ directory, tool }: Place, artifact: string, publicKey: KeyObject) {
  const file = join(directory, "key.pub");
  await writeFile(file, publicKey.export({ type: "spki", format: "pem" }));
  await chmod(file, 0o600);
  const offline = ["--insecure-ignore-tlog", "--allow-http-registry"];
  const about = ["--type", RELEASE_PREDICATE_TYPE];
  return tool("cosign", ["verify-attestation", "--key", file, ...about, ...offline, artifact]);
}
