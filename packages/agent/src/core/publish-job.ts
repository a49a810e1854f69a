import { JobId } from "@exclave/core";

/** No job has this id: a build agent asks by it for access to bring its own images. */
export const PUBLISH_JOB = { job: JobId.parse("jaaaaaaaaaaaaaaaa"), attempt: 1 } as const;
