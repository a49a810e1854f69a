// Asks a running service whether it works.

import { request } from "node:http";

export type Probe = { readonly ok: true } | { readonly ok: false; readonly because: string };

export function probeHttp(port: number, path: string, timeoutMs: number): Promise<Probe> {
  const { promise, resolve } = Promise.withResolvers<Probe>();
  const asked = request(
    { host: "127.0.0.1", port, path, agent: false, timeout: timeoutMs },
    (response) => {
      const { statusCode = 0 } = response;
      response.resume();
      if (statusCode >= 200 && statusCode < 400) resolve({ ok: true });
      else resolve({ ok: false, because: `${path} answers ${statusCode}` });
    },
  );
  asked.on("timeout", () => asked.destroy(new Error(`no answer within ${timeoutMs} ms`)));
  asked.on("error", (reason: NodeJS.ErrnoException) => {
    const why = reason.code === "ECONNREFUSED" ? "nothing listens there" : reason.message;
    resolve({ ok: false, because: `cannot reach port ${port}: ${why}` });
  });
  asked.end();
  return promise;
}
