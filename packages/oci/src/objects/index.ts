export { createMemoryObjectStore } from "./memory-object-store.ts";
export * from "./object-store.ts";
export { createS3ObjectStore, type S3ObjectStore } from "./s3/s3-object-store.ts";
export { readS3Settings, type S3Environment, type S3Settings } from "./s3/s3-settings.ts";
