// Other people's tools, unmodified, push to our registry, pull from it and check what they got.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { createLayoutStore, createRegistryClient, packImage } from "@exclave/oci";
import { ROOT } from "../testing/harness.ts";
import {
  startRegistry,
  temporaryPlace,
  toolsAt,
  unlessInstalled,
} from "./testing/registry-program.ts";

const OCI = join(ROOT, "packages/oci/src/programs/oci-main.ts");

async function world(t: TestContext) {
  const place = temporaryPlace(t);
  const { url, host } = await startRegistry(t, join(place, "registry"));
  const client = createRegistryClient({ url });
  t.after(() => client.close());
  mkdirSync(join(place, "files"));
  writeFileSync(join(place, "files", "hello"), "hello from an image\n");
  return { place, host, client, run: toolsAt(place) };
}

type World = Awaited<ReturnType<typeof world>>;

/** An image in our registry, made by our own hands. */
async function packed({ place, client }: World, repository: string) {
  const layers = [{ directory: join(place, "files") }];
  const config = { entrypoint: ["/hello"] };
  return packImage({ store: client, repository, layers, config, tag: "v1" });
}

describe("skopeo", { skip: unlessInstalled("skopeo") }, () => {
  test("pushes, lists, pulls and deletes an image", async (t) => {
    const { place, host, client, run } = await world(t);
    const store = createLayoutStore({ directory: join(place, "layout") });
    const layers = [{ directory: join(place, "files") }];
    const { digest } = await packImage({ store, repository: "a", layers, tag: "v1" });
    const skopeo = (...args: string[]) => run("skopeo", "--insecure-policy", ...args);
    const image = `docker://${host}/team/app:v1`;

    await skopeo("copy", "--dest-tls-verify=false", `oci:${join(place, "layout")}:a:v1`, image);
    const tags = await skopeo("list-tags", "--tls-verify=false", `docker://${host}/team/app`);
    await skopeo("copy", "--src-tls-verify=false", image, `oci:${join(place, "back")}:v1`);

    assert.equal((await client.readManifest("team/app", "v1")).digest, digest);
    assert.deepEqual(JSON.parse(tags).Tags, ["v1"]);
    const back = createLayoutStore({ directory: join(place, "back") });
    assert.equal((await back.readManifest("any", "v1")).digest, digest);
    await skopeo("delete", "--tls-verify=false", image);
    assert.equal(await client.headManifest("team/app", "v1"), undefined);
  });
});

describe("crane", { skip: unlessInstalled("crane") }, () => {
  test("makes an image in the registry, validates it, copies it and lists it", async (t) => {
    const { place, host, client, run } = await world(t);
    const layer = join(place, "layer.tar");
    await run("tar", "--create", "--file", layer, "--directory", join(place, "files"), "hello");

    const append = ["--oci-empty-base", "--new_layer", layer, "--new_tag", `${host}/team/app:v1`];
    await run("crane", "append", ...append);
    await run("crane", "validate", "--remote", `${host}/team/app:v1`);
    await run("crane", "copy", `${host}/team/app:v1`, `${host}/other/app:v2`);
    const digest = (await run("crane", "digest", `${host}/other/app:v2`)).trim();

    assert.equal((await client.readManifest("team/app", "v1")).digest, digest);
    assert.equal((await run("crane", "ls", `${host}/other/app`)).trim(), "v2");
    await run("crane", "delete", `${host}/other/app:v2`);
    assert.deepEqual(await client.tags("other/app"), []);
  });
});

describe("oras", { skip: unlessInstalled("oras") }, () => {
  test("pushes files, attaches to them, discovers, copies all and pulls", async (t) => {
    const { place, host, run } = await world(t);
    const oras = (verb: string, ...args: string[]) => run("oras", verb, "--plain-http", ...args);
    writeFileSync(join(place, "notes.txt"), "notes\n");
    writeFileSync(join(place, "bill.json"), "{}\n");
    const artifact = `${host}/team/notes:v1`;

    const type = "application/vnd.example.notes";
    await oras("push", "--artifact-type", type, artifact, "notes.txt:text/plain");
    await oras("attach", "--artifact-type", "application/vnd.example.bill", artifact, "bill.json");
    const found = await oras("discover", "--format", "json", artifact);
    const copy = `${host}/other/notes:v1`;
    await run("oras", "cp", "-r", "--from-plain-http", "--to-plain-http", artifact, copy);
    await oras("pull", "--output", join(place, "pulled"), copy);

    assert.match(found, /application\/vnd\.example\.bill/);
    assert.match(
      await oras("discover", "--format", "json", copy),
      /application\/vnd\.example\.bill/,
    );
    assert.equal(readFileSync(join(place, "pulled", "notes.txt"), "utf8"), "notes\n");
  });

  test("gets a directory from us as it was, and we get its files and directories", async (t) => {
    const { place, host, run } = await world(t);
    const oras = (verb: string, ...args: string[]) => run("oras", verb, "--plain-http", ...args);
    const oci = (...args: string[]) => run(process.execPath, OCI, ...args);
    const read = (...names: string[]) => readFileSync(join(place, ...names), "utf8");
    writeFileSync(join(place, "notes.txt"), "notes\n");

    await oci("push", `${host}/team/ours:v1`, "files");
    await oras("pull", "--output", "theirs", `${host}/team/ours:v1`);
    await oras("push", `${host}/team/theirs:v1`, "notes.txt", "files");
    await oci("pull", `${host}/team/theirs:v1`, "ours");
    await oci("copy", `${host}/team/theirs:v1`, "oci:layout:v1");
    await run("oras", "pull", "--oci-layout", "layout:v1", "--output", "again");

    assert.equal(read("theirs", "hello"), "hello from an image\n");
    assert.equal(read("ours", "notes.txt"), "notes\n");
    assert.equal(read("ours", "files", "hello"), "hello from an image\n");
    assert.equal(read("again", "files", "hello"), "hello from an image\n");
  });
});

describe("helm", { skip: unlessInstalled("helm") }, () => {
  test("pushes a chart, pulls it and renders it from the registry", async (t) => {
    const { place, host, run } = await world(t);
    const chart = join(place, "web");
    mkdirSync(join(chart, "templates"), { recursive: true });
    writeFileSync(join(chart, "Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.2.3+build.4\n");
    const template =
      "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  greeting: {{ .Values.greeting }}\n";
    writeFileSync(join(chart, "templates", "map.yaml"), template);
    writeFileSync(join(chart, "values.yaml"), "greeting: hello\n");

    await run("helm", "package", chart, "--destination", place);
    const archive = join(place, "web-1.2.3+build.4.tgz");
    await run("helm", "push", archive, `oci://${host}/charts`, "--plain-http");
    const from = [`oci://${host}/charts/web`, "--version", "1.2.3+build.4", "--plain-http"];
    mkdirSync(join(place, "pulled"));
    await run("helm", "pull", ...from, "--destination", join(place, "pulled"));
    const rendered = await run("helm", "template", "acme", ...from);

    const pulled = readFileSync(join(place, "pulled", "web-1.2.3+build.4.tgz"));
    assert.deepEqual(pulled, readFileSync(archive));
    assert.match(rendered, /name: acme/);
    assert.match(rendered, /greeting: hello/);
  });
});

describe("podman", { skip: unlessInstalled("podman") }, () => {
  test("pulls an image by digest and pushes it under another name", async (t) => {
    const its = await world(t);
    const { place, host, client, run } = its;
    const { digest } = await packed(its, "team/app");
    const storage = ["--root", join(place, "storage"), "--runroot", join(place, "run")];
    const podman = (...args: string[]) =>
      run("podman", "--runtime", "runc", "--storage-driver", "vfs", ...storage, ...args);
    const image = `${host}/team/app@${digest}`;

    await podman("pull", "--tls-verify=false", image);
    const seen = await podman("image", "inspect", "--format", "{{.Digest}}", image);
    await podman("push", "--tls-verify=false", image, `docker://${host}/other/app:v2`);

    assert.equal(seen.trim(), digest);
    assert.deepEqual(await client.tags("other/app"), ["v2"]);
  });
});

describe("cosign", { skip: unlessInstalled("cosign") }, () => {
  test("signs an image in the registry and verifies it, by the right key alone", async (t) => {
    const its = await world(t);
    const { host, client, run } = its;
    const { digest } = await packed(its, "team/app");
    const image = `${host}/team/app@${digest}`;
    await run("cosign", "generate-key-pair", "--output-key-prefix", "ours");
    await run("cosign", "generate-key-pair", "--output-key-prefix", "theirs");
    const open = ["--allow-http-registry", "--allow-insecure-registry"];
    const local = ["--tlog-upload=false", "--use-signing-config=false", "--yes"];
    const verify = (key: string) =>
      run("cosign", "verify", "--key", key, "--insecure-ignore-tlog", ...open, image);

    await run("cosign", "sign", "--key", "ours.key", ...local, ...open, image);

    assert.ok((await verify("ours.pub")).includes(digest));
    await assert.rejects(verify("theirs.pub"));
    assert.equal((await client.referrers("team/app", digest)).length, 1);
  });
});
