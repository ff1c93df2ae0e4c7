/** Server-sent events, as far as the stream of events uses them. */
import type { StreamEvent } from '../../../sdk/src/api.ts';

/** @param text what has arrived @returns the complete events in it, and the text after them */
export function takeEvents(text: string): { events: StreamEvent[]; rest: string } {
  const messages = text.split('\n\n');
  const rest = messages.pop() ?? '';
  return { events: messages.flatMap(eventIn), rest };
}

/** A message without data is a comment that keeps the connection open. */
function eventIn(message: string): StreamEvent[] {
  const data = message
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => line.slice('data: '.length));
  return data.length === 0 ? [] : [JSON.parse(data.join('\n')) as StreamEvent];
}
