import { z } from "@exclave/plugin-sdk";

const Command = z.array(z.string()).min(1);

export const Config = z.strictObject({
  command: Command.describe("The program to keep up, run in the artifact's files"),
  environment: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).default({}),
  port: z
    .union([z.literal("auto"), z.int().min(1).max(65_535)])
    .default("auto")
    .describe("Given to the program as PORT; auto picks a free one and keeps it"),
  health: z
    .strictObject({
      path: z.string().startsWith("/").optional().describe("Must answer 2xx or 3xx"),
      timeoutSeconds: z.int().positive().max(3_600).default(30),
    })
    .default({ timeoutSeconds: 30 }),
  workingDirectory: z.string().default(".").describe("Inside the artifact's files"),
  stopSeconds: z.int().positive().max(600).default(10).describe("Between SIGTERM and SIGKILL"),
  build: Command.optional().describe("Run in the source before it is packed"),
  include: z.array(z.string()).optional().describe("Paths to pack; all of the source if absent"),
});
export type Config = z.infer<typeof Config>;
