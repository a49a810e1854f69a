import assert from "node:assert/strict";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { Failure } from "@exclave/core";
import { temporaryDirectory } from "../testing/temporary-directory.ts";
import { createDockerCredentials, firstCredentials } from "./credentials.ts";

async function credentials(
  t: TestContext,
  config: unknown,
  runHelper?: (name: string, host: string) => Promise<string>,
) {
  const file = join(await temporaryDirectory(t), "config.json");
  await writeFile(file, typeof config === "string" ? config : JSON.stringify(config));
  return createDockerCredentials({ files: [file], ...(runHelper ? { runHelper } : {}) });
}

const base64 = (text: string) => Buffer.from(text).toString("base64");

describe("docker's configuration file", () => {
  test("has names and passwords, by host and by addresses of old", async (t) => {
    const find = await credentials(t, {
      auths: {
        "registry.example.com:5000": { auth: base64("me:a:colon") },
        "https://index.docker.io/v1/": { auth: base64("hub:secret") },
        "split.example.com": { username: "u", password: "p" },
      },
    });

    const basic = (username: string, password: string) => ({ kind: "basic", username, password });
    assert.deepEqual(await find("registry.example.com:5000"), basic("me", "a:colon"));
    assert.deepEqual(await find("registry-1.docker.io"), basic("hub", "secret"));
    assert.deepEqual(await find("split.example.com"), basic("u", "p"));
    assert.equal(await find("registry.example.com"), undefined);
  });

  test("has tokens of both kinds", async (t) => {
    const find = await credentials(t, {
      auths: { a: { identitytoken: "long" }, b: { registrytoken: "short" } },
    });

    assert.deepEqual(await find("a"), { kind: "refresh", token: "long" });
    assert.deepEqual(await find("b"), { kind: "bearer", token: "short" });
  });

  test("has accounts for parts of a registry, of which the nearest counts and no other is given", async (t) => {
    const auth = (name: string) => ({ auth: base64(`${name}:secret`) });
    const parts = {
      "quay.io/team-a": auth("a"),
      "quay.io/team-a/app": auth("app"),
      "docker.io/team-a": auth("hub-a"),
    };
    const find = await credentials(t, { auths: parts });
    const findAll = await credentials(t, {
      auths: { ...parts, "https://quay.io/v2/": auth("all") },
    });
    const name = (credential: Awaited<ReturnType<typeof find>>) =>
      credential?.kind === "basic" ? credential.username : undefined;

    assert.equal(name(await find("quay.io", "team-a/web")), "a");
    assert.equal(name(await find("quay.io", "team-a")), "a");
    assert.equal(name(await find("quay.io", "team-a/app/deep")), "app");
    assert.equal(name(await find("quay.io", "team-ab/web")), undefined);
    assert.equal(name(await find("quay.io")), undefined);
    assert.equal(name(await find("registry-1.docker.io", "team-a/web")), "hub-a");
    assert.equal(name(await findAll("quay.io", "team-b/web")), "all");
    assert.equal(name(await findAll("quay.io", "team-a/web")), "a");
  });

  test("is not there, and that is fine", async () => {
    const find = createDockerCredentials({ files: ["/nowhere/config.json"] });

    assert.equal(await find("a"), undefined);
  });

  test("is broken, and that is said with its name", async (t) => {
    const find = await credentials(t, "{");

    await assert.rejects(find("a"), /config\.json is not a docker configuration file/);
  });
});

describe("helpers", () => {
  test("are asked for their own registry, and the general one for all others", async (t) => {
    const asked: string[] = [];
    const answer = { ServerURL: "x", Username: "me", Secret: "s" };
    const find = await credentials(
      t,
      { credHelpers: { "ecr.example.com": "ecr-login" }, credsStore: "desktop" },
      async (name, host) => {
        asked.push(`${name} ${host}`);
        return JSON.stringify(answer);
      },
    );

    await find("ecr.example.com");
    await find("other.example.com");

    assert.deepEqual(asked, ["ecr-login ecr.example.com", "desktop other.example.com"]);
  });

  test("know Docker Hub by the address docker keeps it under", async (t) => {
    const asked: string[] = [];
    const runHelper = async (name: string, host: string) => {
      asked.push(`${name} ${host}`);
      return JSON.stringify({ Username: "me", Secret: "s" });
    };
    const stored = await credentials(t, { credsStore: "desktop" }, runHelper);
    const helped = await credentials(t, { credHelpers: { "docker.io": "hub" } }, runHelper);

    await stored("registry-1.docker.io", "library/alpine");
    await helped("registry-1.docker.io", "library/alpine");

    assert.deepEqual(asked, [
      "desktop https://index.docker.io/v1/",
      "hub https://index.docker.io/v1/",
    ]);
  });

  test("may have nothing, and then the file counts", async (t) => {
    const find = await credentials(
      t,
      { credsStore: "desktop", auths: { a: { auth: base64("me:secret") } } },
      async () => "credentials not found in native keychain\n",
    );

    assert.deepEqual(await find("a"), { kind: "basic", username: "me", password: "secret" });
    assert.equal(await find("b"), undefined);
  });

  test("say by a name that what they give is a refresh token", async (t) => {
    const find = await credentials(t, { credsStore: "acr" }, async () =>
      JSON.stringify({ Username: "<token>", Secret: "long" }),
    );

    assert.deepEqual(await find("a"), { kind: "refresh", token: "long" });
  });

  test("cannot be any program somebody wrote into the file", async (t) => {
    const find = await credentials(t, { credsStore: "../../bin/sh" });

    await assert.rejects(find("a"), (reason) => reason instanceof Failure);
  });

  test("are real programs, told the host on stdin", async (t) => {
    const directory = await temporaryDirectory(t);
    const program = join(directory, "docker-credential-test");
    const script = `#!/bin/sh
host=$(cat)
[ "$1" = get ] && [ "$host" = a ] && printf '{"Username":"me","Secret":"for-%s"}' "$host" && exit 0
echo "credentials not found in native keychain"; exit 1
`;
    await writeFile(program, script);
    await chmod(program, 0o755);
    const path = process.env["PATH"];
    process.env["PATH"] = `${directory}:${path}`;
    t.after(() => {
      process.env["PATH"] = path;
    });
    const find = await credentials(t, { credsStore: "test" });

    assert.deepEqual(await find("a"), { kind: "basic", username: "me", password: "for-a" });
    assert.equal(await find("b"), undefined);
  });

  test("that are missing are an error, not an anonymous pull", async (t) => {
    const find = await credentials(t, { credsStore: "is-not-installed" });

    await assert.rejects(find("a"), /docker-credential-is-not-installed failed/);
  });
});

test("the first source that knows a registry counts", async () => {
  const none = async () => undefined;
  const some = async (host: string, repository = "") =>
    ({ kind: "bearer", token: `${host}/${repository}` }) as const;

  const found = await firstCredentials(none, some)("a", "b");

  assert.deepEqual(found, { kind: "bearer", token: "a/b" });
});
