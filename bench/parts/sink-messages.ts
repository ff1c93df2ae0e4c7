/** Requests of a measurement to its sink (sink.ts), and the responses. */

export type ToSink =
  | { type: 'totals' }
  /** Once this many messages have come since its start; one goal at a time. */
  | { type: 'tell_when'; messages: number }
  /** From now on, note when the first command of each transaction comes; `commands` ends it. */
  | { type: 'note_commands' }
  | { type: 'commands' };

export type SinkTotals = {
  messages: number;
  bytes: number;
  connections: number;
  webhooks: number;
};

export type FromSink =
  | ({ type: 'totals' } & SinkTotals)
  /** Times are those of machine-clock.ts. */
  | { type: 'reached'; atMs: number }
  | { type: 'commands'; atMs: number[] };
