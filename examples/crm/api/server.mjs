// Contacts and deals over the store. It alone holds the store's token.
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

const { PORT, DATABASE_URL, STORE_TOKEN, CURRENCY } = process.env;
const BODY_MAX = 16 * 1024;

createServer((request, response) => {
  answer(request).then(
    ([status, body]) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(body));
    },
    (reason) => {
      console.error(reason);
      response.writeHead(502, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: "the store does not answer" }));
    },
  );
}).listen(Number(PORT), "127.0.0.1", () => console.log(`the API listens on ${PORT}`));

async function answer(request) {
  if (request.url === "/healthz") {
    const { ok } = await fetch(`${DATABASE_URL}/healthz`);
    return [ok ? 200 : 503, { ok }];
  }
  if (request.url !== "/contacts") return [404, { error: "there is /contacts" }];
  if (request.method === "GET") {
    const contacts = await store("GET", "contacts");
    return [200, { currency: CURRENCY, total: sum(contacts), contacts }];
  }
  if (request.method !== "POST") return [405, { error: "GET or POST" }];

  if (Number(request.headers["content-length"] ?? 0) > BODY_MAX)
    return [413, { error: "too large" }];
  const { name, deal } = JSON.parse(await text(request));
  if (typeof name !== "string" || name.trim() === "" || !(Number(deal) >= 0)) {
    return [400, { error: "a contact has a name and a deal of zero or more" }];
  }
  const contact = { name: name.trim().slice(0, 80), deal: Math.round(Number(deal)) };
  console.log("a new contact");
  return [201, await store("POST", "contacts", contact)];
}

async function store(method, table, row) {
  const response = await fetch(`${DATABASE_URL}/rows/${table}`, {
    method,
    headers: { authorization: `Bearer ${STORE_TOKEN}` },
    ...(row ? { body: JSON.stringify(row) } : {}),
  });
  if (!response.ok) throw new Error(`the store answered ${response.status}`);
  return response.json();
}

function sum(contacts) {
  return contacts.reduce((total, { deal }) => total + deal, 0);
}
