/**
 * Turns and memory for requests that read large content. test/isolation/content.test.ts shows what other projects
 * notice.
 */
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { Overloaded } from '../../core/refusals.ts';
import { reserveResponse, readInTurn } from './http-content-reads.ts';
import { MIB } from '../../lib/units.ts';

function requestOf(owner: string) {
  const raw = new EventEmitter() as ServerResponse;
  return { owner, reply: { raw } };
}

function count(projectId: string, bytes: number) {
  const { owner, reply } = requestOf(projectId);
  reserveResponse(owner, reply, bytes);
  return { isSent: () => reply.raw.emit('close') };
}

test('large responses count until they are sent, with a limit for each project', () => {
  const open = [count('a', 40 * MIB), count('a', 20 * MIB)];
  assert.throws(() => count('a', 10 * MIB), Overloaded);
  count('a', 100_000);
  open.push(count('b', 60 * MIB), count('c', 60 * MIB));
  assert.throws(() => count('d', 30 * MIB), Overloaded);
  for (const { isSent } of open) isSent();
  count('a', 150 * MIB).isSent();
  count('a', 60 * MIB).isSent();
  count('d', 30 * MIB).isSent();
});

test('a project runs one read at a time, and a closed request reads nothing', async () => {
  const first = requestOf('a');
  const gone = requestOf('a');
  const other = requestOf('b');
  const order: string[] = [];
  const release = Promise.withResolvers<void>();
  const reading = readInTurn(first.owner, first.reply, async () => {
    await release.promise;
    order.push('first');
  });
  const waiting = readInTurn(gone.owner, gone.reply, async () => {
    order.push('gone');
  });
  await readInTurn(other.owner, other.reply, async () => {
    order.push('other');
  });
  gone.reply.raw.emit('close');
  await assert.rejects(waiting, Overloaded);
  release.resolve();
  await reading;
  assert.deepEqual(order, ['other', 'first']);
});
