/**
 * The event stream (text/event-stream) as an endless iterable. After a lost connection it continues after the last
 * event, so each event arrives once and in order.
 */
import { ConnectionError, LetterhausError } from './errors.ts';
import type { StreamEvent } from './events.ts';
import { pause, type Query, type Transport } from './transport.ts';

export type StreamOptions = Pick<Query<'listEvents'>, 'after' | 'types' | 'email_id'> & {
  /** Ends the stream without an error. */
  signal?: AbortSignal | undefined;
};

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;
/** Milliseconds. The service writes at least every 15 s, so a connection that is silent for longer is dead. */
const SILENCE_MS = 45_000;

/** @throws LetterhausError when repeating is useless: a wrong key, or an expired cursor */
export async function* streamEvents(
  transport: Transport,
  { signal, after, ...query }: StreamOptions,
): AsyncGenerator<StreamEvent, void, undefined> {
  const isEnded = () => signal?.aborted === true;
  let cursor = after;
  for (let failures = 0; !isEnded(); failures += 1) {
    try {
      for await (const { id, events } of messages(transport, { ...query, after: cursor }, signal)) {
        failures = 0;
        yield* events;
        // Only now: an event that the caller has not taken is read again. A heartbeat moves the cursor, too.
        cursor = id ?? cursor;
      }
    } catch (error) {
      if (isEnded()) return;
      if (!isTemporary(error)) throw error;
    }
    await pause(Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** failures), signal).catch(() => {});
  }
}

function isTemporary(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  return error instanceof LetterhausError && (error.status === 429 || error.status >= 500);
}

/** `events` has one event, or none for a heartbeat. */
type Message = { id: string | null; events: StreamEvent[] };

async function* messages(
  transport: Transport,
  query: Query<'listEvents'>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Message, void, undefined> {
  const silence = new AbortController();
  const watch = () => setTimeout(() => silence.abort(), SILENCE_MS);
  let timer = watch();
  try {
    const response = await transport.stream('listEvents', {
      query,
      headers: { accept: 'text/event-stream' },
      signal: signal ? AbortSignal.any([signal, silence.signal]) : silence.signal,
    });
    for await (const lines of paragraphs(response)) {
      clearTimeout(timer);
      timer = watch();
      yield messageOf(lines);
    }
  } catch (error) {
    if (error instanceof LetterhausError || error instanceof ConnectionError) throw error;
    throw new ConnectionError('The event stream was interrupted.', { cause: error });
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

function messageOf(lines: readonly string[]): Message {
  const data = field(lines, 'data');
  const events = data === null ? [] : [JSON.parse(data) as StreamEvent];
  return { id: field(lines, 'id'), events };
}

/** Yields complete messages only. The rest after the last empty line is discarded. */
async function* paragraphs(response: Response): AsyncGenerator<string[], void, undefined> {
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
    const parts = (rest + decoder.decode(chunk.value, { stream: true })).split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts) yield part.split('\n');
  }
}

function field(lines: readonly string[], name: string): string | null {
  const line = lines.find((one) => one.startsWith(`${name}: `));
  return line === undefined ? null : line.slice(name.length + 2);
}
