import assert from "node:assert/strict";
import { test } from "node:test";
import { type Caller, type GateRules, isCallers, judgeRequest } from "./judge-request.ts";

const rules: GateRules = { owner: "exclave-i1", network: "exclave-i1" };
const agent = { kind: "agent" } as Caller;
const web = { kind: "job", component: "web" } as Caller;

const OWNER = { "dev.exclave.owner": "exclave-i1" };
const JOB = { ...OWNER, "dev.exclave.job": "j-a-1" };
const WEB = { ...OWNER, "dev.exclave.component": "web" };

function hostConfig(changes: object = {}): object {
  return {
    NetworkMode: "none",
    ReadonlyRootfs: true,
    CapDrop: ["ALL"],
    SecurityOpt: ["no-new-privileges"],
    Mounts: [{ Type: "volume", Source: "exclave-i1-j-a-1", Target: "/job" }],
    ...changes,
  };
}

function order(changes: object = {}, host: object = {}): object {
  const image = `sha256:${"a".repeat(64)}`;
  const plain = { Image: image, User: "65532:65532", Labels: JOB };
  return { ...plain, HostConfig: hostConfig(host), ...changes };
}

function create(body: unknown, caller = agent, name = "exclave-i1-j-a-1") {
  const url = `/v1.41/containers/create?name=${name}`;
  return judgeRequest({ method: "POST", url, body }, caller, rules);
}

function ask(method: string, path: string, caller = agent, body?: unknown) {
  return judgeRequest({ method, url: `/v1.41${path}`, body }, caller, rules).kind;
}

test("the agent makes a job's container as its driver orders it", () => {
  const image = `sha256:${"a".repeat(64)}`;

  assert.deepEqual(create(order()), { kind: "create", image });
});

for (const [what, changes] of Object.entries({
  "is privileged": { Privileged: true },
  "has a capability": { CapAdd: ["SYS_ADMIN"] },
  "keeps capabilities": { CapDrop: [] },
  "can be written to": { ReadonlyRootfs: false },
  "may gain privileges": { SecurityOpt: [] },
  "has no seccomp": { SecurityOpt: ["no-new-privileges", "seccomp=unconfined"] },
  "has a directory of the machine": { Binds: ["/:/host"] },
  "mounts a directory of the machine": { Mounts: [{ Type: "bind", Source: "/", Target: "/h" }] },
  "mounts what is named like a volume and is none": {
    Mounts: [{ Type: "bind", Source: "exclave-i1-j-a-1", Target: "/job" }],
  },
  "has a device": { Devices: [{ PathOnHost: "/dev/sda" }] },
  "sees the machine's processes": { PidMode: "host" },
  "shares the machine's memory": { IpcMode: "host" },
  "is on the machine's network": { NetworkMode: "host" },
  "is on another container's network": { NetworkMode: "container:exclave-i1-agent" },
  "has the machine's users": { UsernsMode: "host" },
  "takes another's volumes": { VolumesFrom: ["exclave-i1-agent"] },
  "has a cgroup of its choice": { CgroupParent: "/" },
  "sets the machine's kernel": { Sysctls: { "kernel.x": "1" } },
  "mounts the agent's home": { Mounts: [volume("exclave-i1-home")] },
  "mounts the registry": { Mounts: [volume("exclave-i1-registry")] },
  "mounts the gate": { Mounts: [volume("exclave-i1-gate")] },
  "writes where the sockets are": { Mounts: [volume("exclave-i1-sockets")] },
  "mounts another install's volume": { Mounts: [volume("exclave-i2-state-db")] },
})) {
  test(`a container that ${what} is refused`, () => {
    assert.equal(create(order({}, changes)).kind, "refuse");
  });
}

test("a container is refused that is root, of another owner, nobody's, or a part of the sandbox", () => {
  for (const changes of [
    { User: "0:0" },
    { User: "root" },
    { User: undefined },
    { Labels: { ...JOB, "dev.exclave.owner": "exclave-i2" } },
    { Labels: OWNER },
    { Labels: { ...JOB, "dev.exclave.system": "agent" } },
    { Volumes: { "/x": {} } },
  ]) {
    assert.equal(create(order(changes)).kind, "refuse", JSON.stringify(changes));
  }
  assert.equal(create(order(), agent, "exclave-i2-j-a-1").kind, "refuse");
  assert.equal(create(order(), agent, "exclave-i1-agent").kind, "refuse");
});

test("the sockets are for jobs to see, and not to write", () => {
  const Mounts = [{ ...volume("exclave-i1-sockets"), ReadOnly: true }];

  assert.equal(create(order({}, { Mounts })).kind, "create");
});

test("a job makes its own component's service, and no job and no other's", () => {
  const Mounts = [volume("exclave-i1-service-web.k1"), volume("exclave-i1-state-web")];
  const body = order({ Labels: WEB }, { Mounts });

  assert.equal(create(body, web, "exclave-i1-service-web.k1").kind, "create");
  assert.equal(create(body, web, "exclave-i1-service-web-admin.k1").kind, "refuse");
  assert.equal(create(order(), web).kind, "refuse");
  assert.equal(create(body, agent, "exclave-i1-j-a-1").kind, "refuse");
  for (const name of ["exclave-i1-state-api", "exclave-i1-service-web-admin.k1"]) {
    const other = order({ Labels: WEB }, { Mounts: [volume(name)] });
    assert.equal(create(other, web, "exclave-i1-service-web.k1").kind, "refuse", name);
  }
});

test("a container is touched by whom it belongs to", () => {
  assert.equal(isCallers(JOB, agent, rules), true);
  assert.equal(isCallers(WEB, web, rules), true);
  assert.equal(isCallers(JOB, web, rules), false);
  assert.equal(isCallers(WEB, agent, rules), false);
  assert.equal(isCallers({ ...OWNER, "dev.exclave.system": "gate" }, agent, rules), false);
  assert.equal(isCallers({ ...JOB, "dev.exclave.system": "gate" }, agent, rules), false);
  assert.equal(isCallers({ ...JOB, "dev.exclave.owner": "exclave-i2" }, agent, rules), false);
  assert.equal(isCallers({ ...WEB, "dev.exclave.component": "api" }, web, rules), false);
  assert.equal(isCallers({}, agent, rules), false);
});

test("a volume is plain, and its caller's by name and label", () => {
  const made = (body: unknown, caller = agent) => ask("POST", "/volumes/create", caller, body);
  const Name = "exclave-i1-state-db";

  assert.equal(made({ Name, Labels: OWNER }), "pass");
  assert.equal(made({ Name, Labels: OWNER }, web), "refuse");
  assert.equal(made({ Name, Labels: {} }), "refuse");
  assert.equal(made({ Name: "exclave-i1-home", Labels: OWNER }), "refuse");
  const DriverOpts = { type: "none", o: "bind", device: "/" };
  assert.equal(made({ Name, Labels: OWNER, DriverOpts }), "refuse");
  assert.equal(ask("DELETE", "/volumes/exclave-i1-home"), "refuse");
  assert.equal(ask("DELETE", "/volumes/exclave-i1-j-a-1"), "pass");
});

test("a list has to be the caller's own", () => {
  const list = (filters: object | undefined, caller = agent) => {
    const query = filters ? `?filters=${encodeURIComponent(JSON.stringify(filters))}` : "";
    return ask("GET", `/containers/json${query}`, caller);
  };
  const mine = "dev.exclave.owner=exclave-i1";

  assert.equal(list({ label: [mine] }), "pass");
  assert.equal(list({ label: [mine] }, web), "refuse");
  assert.equal(list({ label: [mine, "dev.exclave.component=web"] }, web), "pass");
  assert.equal(list({ label: ["dev.exclave.owner=exclave-i2"] }), "refuse");
  assert.equal(list(undefined), "refuse");
});

test("what is not named is refused: other paths, versions, methods and bodies", () => {
  for (const [method, path] of [
    ["POST", "/build"],
    ["POST", "/images/create?fromImage=alpine"],
    ["DELETE", "/images/alpine"],
    ["GET", "/images/docker.io%2Flibrary%2Falpine/json"],
    ["POST", "/containers/prune"],
    ["POST", "/containers/x/update"],
    ["POST", "/containers/x/rename"],
    ["GET", "/containers/x/archive"],
    ["POST", "/containers/x/exec"],
    ["POST", "/containers/../x/start"],
    ["GET", "/networks"],
    ["POST", "/networks/create"],
    ["POST", "/plugins/pull"],
    ["GET", "/secrets"],
    ["POST", `/exec/${"a".repeat(64)}/start`],
  ] as const) {
    assert.equal(ask(method, path), "refuse", `${method} ${path}`);
  }
  assert.equal(ask("POST", "/containers/x/start", agent, { HostConfig: {} }), "refuse");
  const libpod = { method: "GET", url: "/v4.0.0/libpod/containers/json" };
  assert.equal(judgeRequest(libpod, agent, rules).kind, "refuse");
  assert.equal(ask("POST", "/images/load", web), "refuse");
});

test("a command runs as its container's user, in a container of the caller's", () => {
  const Cmd = ["env"];
  const plain = { AttachStdout: true, AttachStderr: true, Cmd };
  const run = (body: object) => ask("POST", "/containers/x/exec", web, body);

  assert.equal(run(plain), "container");
  assert.equal(run({ ...plain, Privileged: true }), "refuse");
  assert.equal(run({ ...plain, User: "0" }), "refuse");
});

function volume(Source: string) {
  return { Type: "volume", Source, Target: "/x" };
}
