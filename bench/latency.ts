/** Measures the time from a 202 to the first SMTP command on an otherwise idle service. */
import type { Sink } from './parts/children.ts';
import { DOMAINS, NEW_DOMAINS, type Rig } from './parts/rig.ts';

/** Pause that is long enough for an email to be settled before the next one is posted. */
const PAUSE_MS = 40;
const HTML_BYTES = 2_048;

/**
 * Returns milliseconds per email, from the moment the client has read the 202 until the sink has read the first SMTP
 * command. A value is negative when the command arrived before the 202. With `known`, mail goes to a receiver with
 * earlier mail. With `new`, the service first looks up the records and opens a connection.
 */
export async function firstCommandLatencies(
  { rig, sink }: { rig: Rig; sink: Sink },
  { count, to }: { count: number; to: 'known' | 'new' },
): Promise<number[]> {
  const domains = to === 'known' ? DOMAINS.slice(0, 1) : NEW_DOMAINS;
  if (to === 'new' && count > domains.length) throw new Error('there are fewer new domains');
  const before = await sink.totals();
  const load = { htmlBytes: HTML_BYTES, connections: 1, domains, pauseMs: PAUSE_MS };
  if (to === 'known') await rig.post({ ...load, count: 10 });
  await sink.reached(before.messages + (to === 'known' ? 10 : 0));
  sink.noteCommands();
  const { answeredMs } = await rig.post({ ...load, count });
  await sink.reached(before.messages + count + (to === 'known' ? 10 : 0));
  const commandsMs = await sink.commands();
  if (commandsMs.length !== count) {
    throw new Error(`${count} emails, ${commandsMs.length} transactions`);
  }
  return commandsMs.map((atMs, index) => atMs - (answeredMs[index] ?? Number.NaN));
}
