/**
 * Ids: UUIDv7, sortable by creation; the time inside decides the partition. Those of one process
 * sort even within a millisecond (RFC 9562 §6.2, method 1: a counter in the twelve bits behind the
 * time, which starts at random), so that lists show what was made in the order it was made.
 *
 * A clock that is set back by seconds is waited for in that order. One that was far ahead is not: ids
 * would stay in weeks that have no partition. They come back to the present and sort before those.
 */
import { randomUUIDv7 } from 'node:crypto';

const COUNTER_MAX = 0xfff;
/** `0193f2a4-7c1e`: the milliseconds. */
const TIME_LENGTH = 13;

const SET_BACK_MAX_MS = 10_000;

export const newId = idsFrom(randomUUIDv7);

/** @param fresh UUIDv7s by a clock that may jump */
export function idsFrom(fresh: () => string): () => string {
  let last = { time: '', counter: 0 };
  return () => {
    const uuid = fresh();
    const time = uuid.slice(0, TIME_LENGTH);
    if (time > last.time || msOf(last.time) - msOf(time) > SET_BACK_MAX_MS) {
      last = { time, counter: Number.parseInt(uuid.slice(15, 18), 16) >> 1 };
    } else if (last.counter < COUNTER_MAX) last.counter += 1;
    else last = { time: nextMillisecond(last.time), counter: 0 };
    return `${last.time}-7${last.counter.toString(16).padStart(3, '0')}${uuid.slice(18)}`;
  };
}

function msOf(time: string): number {
  return Number.parseInt(time.replace('-', ''), 16);
}

function nextMillisecond(time: string): string {
  return (msOf(time) + 1)
    .toString(16)
    .padStart(12, '0')
    .replace(/^(.{8})/, '$1-');
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether the text may be an id at all; anything else is simply not found. */
export function isId(text: string): boolean {
  return UUID.test(text);
}
