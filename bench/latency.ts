/** The time from a 202 to the first SMTP command, on an otherwise idle service. */
import type { Sink } from './parts/children.ts';
import { DOMAINS, NEW_DOMAINS, type Rig } from './parts/rig.ts';

/** Long enough for an email to be settled before the next is posted. */
const PAUSE_MS = 40;
const HTML_BYTES = 2_048;

/**
 * From the moment the client has read the 202 until the sink has read the first SMTP command, per
 * email, in milliseconds. Negative when the command came before the 202.
 * `known`: to a receiver that was mailed before; `new`: its records are looked up and a connection
 * is opened.
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
