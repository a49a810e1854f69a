export * from "./ca-fingerprint.ts";
export {
  type CertificateKind,
  type CertificateWish,
  type Issuer,
  makeCertificate,
} from "./certificate/certificate.ts";
export * from "./durable-files.ts";
export * from "./durable-files-sync.ts";
export * from "./file-lock.ts";
export * from "./learn-authority.ts";
export * from "./machine-coders.ts";
export * from "./private-files.ts";
export * from "./process-claim.ts";
export * from "./process-identity.ts";
export * from "./server-door.ts";
export * from "./verify-signature.ts";
