// The page, and a door to the API behind it: the browser speaks to this program alone.
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { page } from "./page.mjs";

const { PORT, API_URL, TITLE, BANNER, ASSETS, INSTALL } = process.env;

createServer((request, response) => {
  answer(request, response).catch((reason) => {
    console.error(reason);
    response.writeHead(502, { "content-type": "application/json" });
    response.end(JSON.stringify({ error: "the API does not answer" }));
  });
}).listen(Number(PORT), "127.0.0.1", () => console.log(`the page is at http://127.0.0.1:${PORT}`));

async function answer(request, response) {
  if (request.url === "/healthz") {
    response.end("ok");
  } else if (request.url === "/") {
    response.setHeader("content-type", "text/html; charset=utf-8");
    response.end(page({ title: TITLE, banner: BANNER, assets: ASSETS, install: INSTALL }));
  } else if (request.url === "/contacts") {
    const isPost = request.method === "POST";
    const answered = await fetch(`${API_URL}/contacts`, {
      method: isPost ? "POST" : "GET",
      ...(isPost ? { body: Readable.toWeb(request), duplex: "half" } : {}),
    });
    response.writeHead(answered.status, { "content-type": "application/json" });
    response.end(await answered.text());
  } else {
    response.writeHead(404).end("there is nothing here");
  }
}
