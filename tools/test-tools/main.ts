// Fetches what the end-to-end tests can use, ahead of them: `npm run test:tools`.

import { provideTestTools } from "./provide.ts";

await provideTestTools((line) => console.log(line));
