/** A client of the event stream: the received events, and whether the stream has ended. */
import { waitFor } from './wait.ts';

export type StreamedEvent = {
  /** The cursor. An event without data only moves the cursor. */
  id: string;
  type: string;
  // oxlint-disable-next-line typescript/no-explicit-any
  data: any;
};

export type StreamReader = AsyncDisposable & {
  status: number;
  headers: Headers;
  /** Events with data. */
  events: StreamedEvent[];
  /** The cursor of the last event with or without data, for resuming. */
  readonly lastId: string;
  /** Comments; the whole text when the response is not a stream. */
  readonly text: string;
  /** Whether the response has ended or the connection was lost. */
  readonly hasEnded: boolean;
  waitForCount(count: number): Promise<StreamedEvent[]>;
  waitForEnd(): Promise<void>;
};

/** Uses a key, or the cookie of a session. */
type StreamOptions = {
  key?: string;
  cookie?: string;
  lastEventId?: string;
  path?: string;
  /** Ends the stream, or the wait for its response. */
  signal?: AbortSignal;
};

export async function openEventStream(
  url: string,
  { key, cookie, lastEventId, path = '/v1/events', signal }: StreamOptions,
): Promise<StreamReader> {
  const abort = new AbortController();
  const response = await fetch(url + path, {
    signal: signal === undefined ? abort.signal : AbortSignal.any([abort.signal, signal]),
    headers: {
      accept: 'text/event-stream',
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(cookie !== undefined && { cookie }),
      ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
    },
  });
  let [text, rest, lastId, hasEnded] = ['', '', lastEventId ?? '', false];
  const events: StreamedEvent[] = [];
  const take = (block: string): void => {
    const fields = block.split('\n').map((line) => line.split(/: ?(.*)/s));
    const valueOf = (name: string) => fields.find(([field]) => field === name)?.[1];
    lastId = valueOf('id') ?? lastId;
    const data = valueOf('data');
    if (data === undefined) return;
    events.push({ id: lastId, type: valueOf('event') ?? '', data: JSON.parse(data) });
  };
  const reading = (async () => {
    for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
      text += piece;
      const blocks = (rest + piece).split('\n\n');
      rest = blocks.pop()!;
      blocks.forEach(take);
    }
  })()
    .catch(() => {})
    .then(() => (hasEnded = true));
  return {
    status: response.status,
    headers: response.headers,
    events,
    get lastId() {
      return lastId;
    },
    get text() {
      return text;
    },
    get hasEnded() {
      return hasEnded;
    },
    waitForCount: (count) =>
      waitFor(() => events.length >= count && events, {
        what: `${count} events in the stream (${events.length} came)`,
      }),
    waitForEnd: async () => void (await waitFor(() => hasEnded, { what: 'the end of the stream' })),
    async [Symbol.asyncDispose]() {
      abort.abort();
      await reading;
    },
  };
}
