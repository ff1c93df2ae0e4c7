/** The list of all targets of `npm run fuzz`: every parser of untrusted input. */
import type { Target } from './target.ts';
import { answers } from './targets/answers.ts';
import { bodies } from './targets/bodies.ts';
import { content } from './targets/content.ts';
import { dialogues } from './targets/dialogues.ts';
import { formats } from './targets/formats.ts';
import { headers } from './targets/headers.ts';
import { reports } from './targets/reports.ts';

export const TARGETS: readonly Target[] = [
  reports,
  headers,
  formats,
  content,
  dialogues,
  bodies,
  answers,
];
