// The object store that the environment names, if it does. Credentials come by the variables that other tools of AWS read.

import { createS3ObjectStore, readS3Settings, type S3ObjectStore } from "@exclave/oci/objects";

export const OBJECT_STORE_VARIABLE = "EXCLAVE_OBJECT_STORE";

export function readObjectStore(
  environment: Readonly<Record<string, string | undefined>>,
  { insecureHttp }: { readonly insecureHttp: boolean },
): S3ObjectStore | undefined {
  const address = environment[OBJECT_STORE_VARIABLE];
  if (address === undefined || address === "") return undefined;
  const settings = readS3Settings({
    address,
    region: environment["AWS_REGION"] ?? environment["AWS_DEFAULT_REGION"],
    accessKeyId: environment["AWS_ACCESS_KEY_ID"],
    secretAccessKey: environment["AWS_SECRET_ACCESS_KEY"],
    sessionToken: environment["AWS_SESSION_TOKEN"],
    insecureHttp,
  });
  return createS3ObjectStore({ settings });
}
