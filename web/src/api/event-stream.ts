/** Parses the server-sent events of the event stream. */
import type { StreamEvent } from '../../../sdk/src/api.ts';

/**
 * @param text text that has arrived
 * @returns its complete events, and the remaining text
 */
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
