/** Parses the server-sent events of the event stream. */
import type { StreamEvent } from '../../../../sdk/src/api.ts';

/** The part of a stream that has arrived. */
export type Arrived = {
  events: StreamEvent[];
  /** The position after them, also of heartbeats; null when no message named one. */
  cursor: string | null;
  /** The text after the last complete message. */
  rest: string;
};

/** @param text text that has arrived */
export function takeEvents(text: string): Arrived {
  const messages = text.split('\n\n');
  const rest = messages.pop() ?? '';
  const cursor = messages.flatMap((message) => linesOf(message, 'id: ')).at(-1) ?? null;
  return { events: messages.flatMap(eventIn), cursor, rest };
}

/** A message without data is a comment that keeps the connection open. */
function eventIn(message: string): StreamEvent[] {
  const data = linesOf(message, 'data: ');
  return data.length === 0 ? [] : [JSON.parse(data.join('\n')) as StreamEvent];
}

function linesOf(message: string, field: string): string[] {
  return message
    .split('\n')
    .filter((line) => line.startsWith(field))
    .map((line) => line.slice(field.length));
}
