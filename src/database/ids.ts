/**
 * Ids are UUIDv7 and sort by creation. Their time decides the partition. Ids of one process are ordered even within a
 * millisecond, so that lists show objects in the order of creation. RFC 9562 §6.2, method 1: the twelve bits after the
 * time are a counter with a random start.
 *
 * When the clock is set back by seconds, ids continue from the later time. When it was far ahead, ids return to the
 * present and sort before the earlier ones. Otherwise they would stay in weeks that have no partition yet.
 */
import { randomUUIDv7 } from 'node:crypto';

const COUNTER_MAX = 0xfff;
/** Length of the milliseconds in a UUID: `0193f2a4-7c1e`. */
const TIME_LENGTH = 13;

const CLOCK_SET_BACK_MAX_MS = 10_000;

export const newId = createIdSource(randomUUIDv7);

/** @param createUuid creates UUIDv7s by a clock that may be set back */
export function createIdSource(createUuid: () => string): () => string {
  let last = { time: '', counter: 0 };
  return () => {
    const uuid = createUuid();
    const time = uuid.slice(0, TIME_LENGTH);
    if (time !== last.time && (time > last.time || isFarBefore(time, last.time))) {
      last = { time, counter: Number.parseInt(uuid.slice(15, 18), 16) >> 1 };
    } else if (last.counter < COUNTER_MAX) last.counter += 1;
    else last = { time: nextMillisecond(last.time), counter: 0 };
    return `${last.time}-7${last.counter.toString(16).padStart(3, '0')}${uuid.slice(18)}`;
  };
}

function isFarBefore(time: string, last: string): boolean {
  return msOf(last) - msOf(time) > CLOCK_SET_BACK_MAX_MS;
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

export function isId(text: string): boolean {
  return UUID.test(text);
}

const MS_MAX = 2 ** 48 - 1;

/** Returns the smallest UUID of this time. A time that no id can have becomes the first or the last one. */
export function firstUuidAt(ms: number): string {
  const whole = Math.floor(Math.min(Math.max(ms, 0), MS_MAX));
  const hex = whole.toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}
