// What programs of an install see of the environment they are started from: how to find programs,
// how to get out of the network, and nothing that says anything about who started them.

const PASSED_ON = [
  "PATH",
  "LANG",
  "TZ",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "NO_PROXY",
  "NODE_EXTRA_CA_CERTS",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "EXCLAVE_INSECURE_HTTP",
  "EXCLAVE_TEST_CLOCK",
];

export function programEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
  directory: string,
): Record<string, string> {
  const passed = PASSED_ON.flatMap((name) => {
    const value = environment[name];
    return value === undefined ? [] : [[name, value]];
  });
  // The home of whoever set the install up, and a job's own TMPDIR, are not the install's.
  return { ...Object.fromEntries(passed), HOME: directory };
}
