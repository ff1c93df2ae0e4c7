/**
 * Ids: UUIDv7, sortable by creation; the time inside decides the partition. Those of one process
 * sort even within a millisecond (RFC 9562 §6.2, method 1: a counter in the twelve bits behind the
 * time, which starts at random), so that lists show what was made in the order it was made.
 */
import { randomUUIDv7 } from 'node:crypto';

const COUNTER_MAX = 0xfff;
/** `0193f2a4-7c1e`: the milliseconds. */
const TIME_LENGTH = 13;

let last = { time: '', counter: 0 };

export function newId(): string {
  const fresh = randomUUIDv7();
  const time = fresh.slice(0, TIME_LENGTH);
  if (time > last.time) last = { time, counter: Number.parseInt(fresh.slice(15, 18), 16) >> 1 };
  else if (last.counter < COUNTER_MAX) last.counter += 1;
  else last = { time: nextMillisecond(last.time), counter: 0 };
  return `${last.time}-7${last.counter.toString(16).padStart(3, '0')}${fresh.slice(18)}`;
}

function nextMillisecond(time: string): string {
  const ms = Number.parseInt(time.replace('-', ''), 16) + 1;
  return ms
    .toString(16)
    .padStart(12, '0')
    .replace(/^(.{8})/, '$1-');
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether the text may be an id at all; anything else is simply not found. */
export function isId(text: string): boolean {
  return UUID.test(text);
}
