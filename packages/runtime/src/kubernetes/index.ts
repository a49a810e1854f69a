export { createDocumentDesk, type DocumentDesk } from "./document-desk.ts";
export {
  DOCUMENT_PATH,
  type DocumentServer,
  openDocumentCertificate,
  serveDocuments,
} from "./document-server.ts";
export { type JobPlace, jobOrder } from "./job-order.ts";
export { createKubeClient, type KubeClient } from "./kube-client.ts";
export { connectionInCluster, connectionOf, type KubeConnection } from "./kube-connection.ts";
export { createKubernetesRuntime, type KubernetesRuntimeOptions } from "./kubernetes-runtime.ts";
export { type HeldLease, holdLease, type LeaseOptions } from "./lease.ts";
