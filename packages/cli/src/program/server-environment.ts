// What the server alone reads of this shell's environment. Some of it holds passwords and keys, which no agent and no
// job is to see.

const NAMES = ["EXCLAVE_DATABASE_URL", "EXCLAVE_SIGNER_SOCKET", "EXCLAVE_OBJECT_STORE"];
const FAMILIES = /^(EXCLAVE_KEEP|OTEL)_/;

const OBJECT_STORE = [
  "AWS_ACCESS_KEY_ID",
  "AWS_SECRET_ACCESS_KEY",
  "AWS_SESSION_TOKEN",
  "AWS_REGION",
  "AWS_DEFAULT_REGION",
];

/** Keys of a store are handed on only where one is named. */
export function serverEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const store = environment["EXCLAVE_OBJECT_STORE"] === undefined ? [] : OBJECT_STORE;
  const names = [...NAMES, ...store];
  return Object.fromEntries(
    Object.entries(environment).filter(
      (entry): entry is [string, string] =>
        entry[1] !== undefined && (names.includes(entry[0]) || FAMILIES.test(entry[0])),
    ),
  );
}
