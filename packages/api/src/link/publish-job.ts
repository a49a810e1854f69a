import { JobId } from "@exclave/core";

/** No job has this id: with it a build agent asks for access to push its own images. */
export const PUBLISH_JOB = { job: JobId.parse("jaaaaaaaaaaaaaaaa"), attempt: 1 } as const;
