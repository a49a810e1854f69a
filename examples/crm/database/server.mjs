// A store in one JSON file: GET /rows/<table>, POST /rows/<table>. A row is durable before it is
// answered, and nobody without the token reads or writes.
import { timingSafeEqual } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

const { PORT, STORE_TOKEN, EXCLAVE_DATA_DIR = "." } = process.env;
const FILE = `${EXCLAVE_DATA_DIR}/store.json`;
const BODY_MAX = 64 * 1024;

const tables = read();

createServer((request, response) => {
  answer(request).then(
    ([status, body]) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    },
    (reason) => {
      console.error(reason);
      response.writeHead(500).end();
    },
  );
}).listen(Number(PORT), "127.0.0.1", () => console.log(`the store listens on ${PORT}`));

async function answer(request) {
  if (request.url === "/healthz") return [200, { ok: true }];
  if (!isAllowed(request.headers.authorization)) return [401, { error: "wrong token" }];
  const table = /^\/rows\/([a-z]+)$/.exec(request.url)?.[1];
  if (!table) return [404, { error: "no such table" }];
  if (request.method === "GET") return [200, tables[table] ?? []];
  if (request.method !== "POST") return [405, { error: "GET or POST" }];

  if (Number(request.headers["content-length"] ?? 0) > BODY_MAX)
    return [413, { error: "too large" }];
  const row = { id: Date.now().toString(36), ...JSON.parse(await text(request)) };
  tables[table] = [...(tables[table] ?? []), row];
  write(tables);
  console.log(`a row in ${table}`);
  return [201, row];
}

function isAllowed(header = "") {
  const given = Buffer.from(header);
  const wanted = Buffer.from(`Bearer ${STORE_TOKEN}`);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

function read() {
  try {
    return JSON.parse(readFileSync(FILE, "utf8"));
  } catch (reason) {
    if (reason.code !== "ENOENT") throw reason;
    return {};
  }
}

function write(content) {
  const file = openSync(`${FILE}.new`, "w", 0o600);
  writeSync(file, JSON.stringify(content));
  fsyncSync(file);
  closeSync(file);
  renameSync(`${FILE}.new`, FILE);
}
