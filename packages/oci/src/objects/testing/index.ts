export * from "./describe-object-store.ts";
export * from "./fake-s3.ts";
export * from "./versitygw.ts";
