/** The search for the emails behind a figure, in the grammar of `GET /v1/emails?q=`. */
import type { Part } from '../periods/periods.ts';

/** @param filter more filters, like `status:bounced` */
export function emailsIn(parts: readonly Part[], filter = ''): string {
  const [first, last] = [parts[0]!, parts.at(-1)!];
  return `${filter} after:${timeText(first.startMs)} before:${timeText(last.endMs)}`.trim();
}

/** Without the seconds, which the search does not need. */
function timeText(ms: number): string {
  return new Date(ms).toISOString().replace(/:00\.000Z$/, 'Z');
}
