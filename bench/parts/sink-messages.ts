/** Requests of a measurement to its sink (sink.ts), and the responses. */

export type ToSink =
  | { type: 'totals' }
  /** Asks for `reached` once this many messages have arrived since the start. One goal at a time. */
  | { type: 'tell_when'; messages: number }
  /** Asks the sink to record the time of each transaction's first command, until `commands`. */
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
